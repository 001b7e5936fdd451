"""A ROS domain of one's own, and processes in it that do not outlive it.

Domains 1 to 101 keep every DDS port below the ephemeral ones. They are taken in turn and under a file lock, so that
two test runs on one machine never share one and a domain rests after a test that killed processes in it. What such
processes leave behind in shared memory is swept away: a mutex that one of them held could stall whoever comes next.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOMAINS = 101
FIRST_PORT, PORTS_PER_DOMAIN = 7400, 250     # as the DDS standard has them
SHARED_MEMORY = Path('/dev/shm')
NEWBORN_SECONDS = 60.0     # age below which a lock may not be held yet
LOCKS = Path(tempfile.gettempdir(), f'wcpg_ros_domains_{os.getuid()}')
POLL = 0.02
_LIBC, _PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
STANDALONE = importlib.util.find_spec('ros2_standalone')


@contextlib.contextmanager
def taken_domain() -> Iterator[int]:
    """Yield the number of a domain that is nobody else's meanwhile."""
    LOCKS.mkdir(exist_ok=True)
    with contextlib.ExitStack() as held:
        with (LOCKS / 'last').open('a+') as last:
            fcntl.flock(last, fcntl.LOCK_EX)
            last.seek(0)
            previous = int(last.read() or 0)
            for step in range(DOMAINS):
                domain = (previous + step) % DOMAINS + 1
                lock = held.enter_context((LOCKS / str(domain)).open('w'))
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                raise RuntimeError(f'all {DOMAINS} ROS domains are taken; remove {LOCKS} if no test is running')
            last.truncate(0)
            last.write(str(domain))
        for left in shared_ports(domain):
            left.unlink(missing_ok=True)
        remove_dead_segments()
        yield domain


def shared_ports(domain: int) -> list[Path]:
    """Return Fast DDS's ports of a domain in shared memory."""
    ports = range(FIRST_PORT + PORTS_PER_DOMAIN * domain, FIRST_PORT + PORTS_PER_DOMAIN * (domain + 1))
    return [file for file in SHARED_MEMORY.glob('*fastrtps_port*')
            if (number := re.search(r'fastrtps_port(\d+)', file.name)) and int(number[1]) in ports]


def remove_dead_segments() -> None:
    """Remove Fast DDS's memory of processes that were killed, half a megabyte each: the living hold its lock."""
    for lock in SHARED_MEMORY.glob('fastrtps_*_el'):
        if not re.fullmatch(r'fastrtps_[0-9a-f]{16}_el', lock.name):
            continue
        with contextlib.suppress(OSError), lock.open() as file:     # held, somebody else's, or gone in this moment
            if time.time() - os.fstat(file.fileno()).st_mtime > NEWBORN_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.with_name(lock.name.removesuffix('_el')).unlink(missing_ok=True)
                lock.unlink(missing_ok=True)


def ros_environment(domain: int) -> dict[str, str]:
    """Return the environment of a process in this domain: alone on this machine, and quickly discovered."""
    environment = dict(os.environ, ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST',
                       PYTHONUNBUFFERED='1')
    if STANDALONE is not None and STANDALONE.origin is not None:
        profile = Path(STANDALONE.origin).with_name('quick_discovery.xml')
        environment.setdefault('FASTRTPS_DEFAULT_PROFILES_FILE', str(profile))
    return environment


@contextlib.contextmanager
def surroundings(environment: dict[str, str]) -> Iterator[None]:
    """Give this process the environment of the domain's processes, for the nodes in it."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def ros2_command() -> str:
    """The ros2 command: of this environment, or else of the distribution that was sourced."""
    own = Path(sys.executable).with_name('ros2')
    return str(own) if own.exists() else 'ros2'


def eventually(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return what a condition gives once it holds; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'not within {seconds} s: {what}')
        time.sleep(POLL)
    return result


def end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed, which then cannot do so itself."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A process whose output can be waited for; it leads a group of its own."""

    def __init__(self, process: Any, output: Path) -> None:
        self.process = process     # a subprocess.Popen, or what looks like one
        self._output = output

    @property
    def text(self) -> str:
        """All it has said so far."""
        return self._output.read_text(errors='replace')

    def wait_for(self, pattern: str, seconds: float = 15.0) -> re.Match[str]:
        """Return the match once its output has one."""
        end = time.monotonic() + seconds
        while True:
            over = self.process.poll()   # before reading: what it says last counts
            match = re.search(pattern, self.text, re.MULTILINE)
            if match is not None:
                return match
            if over is not None:
                raise AssertionError(f'ended with {over} and never said {pattern!r}:\n{self.text}')
            if time.monotonic() > end:
                raise AssertionError(f'did not say {pattern!r} within {seconds} s:\n{self.text}')
            time.sleep(POLL)

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(signum)

    def ended(self, seconds: float = 20.0) -> int:
        """Return the exit code once it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'did not end within {seconds} s:\n{self.text}') from None


class Ros:
    """Starts processes in one domain."""

    def __init__(self, domain: int, folder: Path) -> None:
        self.domain = domain
        self.environment = ros_environment(domain)
        self._folder = folder
        self._outputs = 0
        self._running: list[Running] = []

    def start(self, *cmd: str | Path) -> Running:
        """Start a program."""
        output = self._new_output()
        self._running.append(Running(self._begin([str(part) for part in cmd], output, output), output))
        return self._running[-1]

    def start_python(self, *cmd: str | Path) -> Running:
        """Start a Python script."""
        return self.start(sys.executable, *cmd)

    def ros2(self, *arguments: str | Path) -> Running:
        """Start a ros2 command."""
        return self.start(ros2_command(), *arguments)

    def run_ros2(self, *arguments: str | Path, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run a ros2 command to its end."""
        cmd, out, err = [ros2_command(), *map(str, arguments)], self._new_output(), self._new_output()
        process = self._begin(cmd, out, err)
        try:
            code = process.wait(seconds)
        finally:
            _kill(process)
        return subprocess.CompletedProcess(cmd, code, out.read_text(), err.read_text())

    def kill_all(self) -> None:
        """Leave nothing running."""
        for running in self._running:
            _kill(running.process)

    def _new_output(self) -> Path:
        self._outputs += 1
        return self._folder / f'output_{self._outputs}.txt'

    def _begin(self, cmd: list[str], out: Path, err: Path) -> Any:
        with out.open('ab') as to_out, err.open('ab') as to_err:     # appending: they may be one
            return subprocess.Popen(cmd, env=self.environment, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err,
                                    start_new_session=True, preexec_fn=end_with_parent)


def _kill(process: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
