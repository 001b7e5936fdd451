"""A small process that ends whatever a launch leaves behind, however the launch itself ends.

Each child process leads its own session and announces itself through a pipe before it runs its program.
When the launch is gone (finished, or killed with signal 9) the pipe closes, and the guardian asks every
group that still has members to stop, first kindly, then not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

ESCALATION = (signal.SIGTERM, signal.SIGKILL)
PATIENCE = 5.0          # seconds between one signal and the next
POLL = 0.02             # seconds between two looks at whether the groups are gone


class Guardian:
    """The launch's end of the pipe; make it before anything starts a thread."""

    def __init__(self) -> None:
        read_end, self._write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _detach(keep=read_end)
                _end_groups(_read_announced(read_end))
            finally:
                os._exit(0)
        os.close(read_end)

    def announce(self) -> None:
        """Tell of the calling process, which leads a group; called in a child before it runs its program."""
        self._tell(b'+%d\n' % os.getpid())

    def forget(self, pid: int) -> None:
        """Tell that a process is gone, and with it perhaps its group, whose number may then be given to another."""
        if not _alive(pid):
            self._tell(b'-%d\n' % pid)

    def _tell(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):   # somebody has killed the guardian; the launch goes on without
            os.write(self._write_end, line)

    def close(self) -> None:
        """End what is left and wait until it is gone."""
        os.close(self._write_end)
        os.waitpid(self._pid, 0)


def _detach(keep: int) -> None:
    """Hold nothing of the launch's: not its terminal, not the pipes it writes to, not its signals."""
    os.setsid()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf('SC_OPEN_MAX'))


def _read_announced(read_end: int) -> set[int]:
    groups: set[int] = set()
    with os.fdopen(read_end) as lines:
        for line in lines:
            number = int(line[1:])
            if line[0] == '+':
                groups.add(number)
            else:
                groups.discard(number)
    return groups


def _end_groups(groups: set[int]) -> None:
    for signum in ESCALATION:
        groups = {group for group in groups if _alive(group)}
        for group in groups:
            os.killpg(group, signum)
        give_up = time.monotonic() + PATIENCE
        while any(_alive(group) for group in groups) and time.monotonic() < give_up:
            time.sleep(POLL)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
