"""The events of a process, and the ones that address a process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..event import Event
from ..utilities import refuse_unsupported

if TYPE_CHECKING:
    from ..actions import ExecuteProcess

__all__ = ['ProcessExited', 'ProcessStarted', 'RunningProcessEvent', 'ShutdownProcess', 'SignalProcess']


class RunningProcessEvent(Event):
    """Something a process did."""

    name = 'launch.events.process.RunningProcessEvent'

    def __init__(self, *, action: ExecuteProcess, name: str, cmd: list[str], cwd: str | None,
                 env: dict[str, str] | None, pid: int) -> None:
        self.action = action
        self.execute_process_action = action
        self.process_name = name
        self.cmd = cmd
        self.cwd = cwd
        self.env = env
        self.pid = pid


class ProcessStarted(RunningProcessEvent):
    """A process has started."""

    name = 'launch.events.process.ProcessStarted'


class ProcessExited(RunningProcessEvent):
    """A process has ended; a negative `returncode` is the signal that ended it."""

    name = 'launch.events.process.ProcessExited'

    def __init__(self, *, returncode: int, **process: Any) -> None:
        super().__init__(**process)
        self.returncode = returncode


class ShutdownProcess(Event):
    """Ask the matching processes to stop, as at the end of a launch."""

    name = 'launch.events.process.ShutdownProcess'

    def __init__(self, *, process_matcher: Callable[[ExecuteProcess], bool]) -> None:
        self.process_matcher = process_matcher


class SignalProcess(Event):
    """Send a signal to the matching processes."""

    name = 'launch.events.process.SignalProcess'

    def __init__(self, *, signal_number: str | signal.Signals,
                 process_matcher: Callable[[ExecuteProcess], bool]) -> None:
        self.signal = signal.Signals[signal_number] if isinstance(signal_number, str) else signal.Signals(signal_number)
        self.process_matcher = process_matcher


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
