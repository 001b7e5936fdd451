"""Programs that start as copies of a process which has loaded them already.

Loading is most of what it costs to start a node or a `ros2` command, and a test run starts hundreds. Each copy is a
process of its own, with its own environment, rclpy and exit code; only the modules are there before it begins.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from wcpg_ros.domain import STANDALONE, Ros, end_with_parent, eventually, ros2_command

SERVER = multiprocessing.get_context('forkserver')
SERVER.set_forkserver_preload(['loaded'])
PROGRAMS = {'sim_node': 'sim_node.__main__', 'wcpg_ros': 'wcpg_ros.__main__', 'demo_node': 'demo_node'}


class PreloadedRos(Ros):
    """Starts nodes and `ros2` commands as copies; a launch, and whatever it starts, from nothing."""

    def _begin(self, cmd: list[str], out: Path, err: Path) -> Any:
        match cmd:
            case [sys.executable, '-m', module, *arguments] if module in PROGRAMS:
                return Copy(PROGRAMS[module], arguments, self.environment, out, err)
            case [program, command, *arguments] if STANDALONE and program == ros2_command() and command != 'launch':
                return Copy('ros2_standalone.cli', [command, *arguments], self.environment, out, err)
        return super()._begin(cmd, out, err)


class Copy:
    """A process, as `subprocess.Popen` shows one."""

    def __init__(self, module: str, arguments: list[str], environment: dict[str, str], out: Path, err: Path) -> None:
        self._process = SERVER.Process(target=_become, args=(module, arguments, environment, out, err), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        eventually(self._leads_a_group, 30, f'{module} leads a group of its own')

    def _leads_a_group(self) -> bool:
        with contextlib.suppress(ProcessLookupError):     # it is over already
            return os.getpgid(self.pid) == self.pid
        return True

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):     # it may end in this moment
            os.kill(self.pid, signum)


def _become(module: str, arguments: list[str], environment: dict[str, str], out: Path, err: Path) -> NoReturn:
    """Run a program in this process, as if it had been started by its name."""
    end_with_parent()
    for stream, file in enumerate((os.devnull, out, err)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), stream)
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    os.setsid()
    sys.exit(importlib.import_module(module).main())
