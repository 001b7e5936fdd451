"""The event handlers launch files register."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .event import Event
from .event_handler import EventHandler, SomeEntities, list_of_entities
from .events import Shutdown
from .events.process import ProcessExited, ProcessStarted, RunningProcessEvent
from .utilities import refuse_unsupported

if TYPE_CHECKING:
    from .actions import ExecuteProcess
    from .launch_context import LaunchContext
    from .launch_description_entity import LaunchDescriptionEntity

__all__ = ['OnProcessExit', 'OnProcessStart', 'OnShutdown']

Target = Any   # an ExecuteProcess, a function of one, or None for every process


class _OnEvent(EventHandler):
    """`reaction` is what to execute, or a function of the event and the context that returns it."""

    def __init__(self, matcher: Callable[[Event], bool], reaction: SomeEntities, handle_once: bool) -> None:
        self._function = reaction if callable(reaction) else None
        super().__init__(matcher=matcher, entities=None if self._function else reaction, handle_once=handle_once)

    def handle(self, event: Event, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        entities = super().handle(event, context)
        return list_of_entities(self._function(event, context)) if self._function else entities


def _of_process(event_type: type[RunningProcessEvent], target: Target) -> Callable[[Event], bool]:
    def matches(event: Event) -> bool:
        if not isinstance(event, event_type):
            return False
        action: ExecuteProcess = event.action
        return target is None or (target(action) if callable(target) else target is action)
    return matches


class OnProcessExit(_OnEvent):
    """Reacts to the end of a process."""

    def __init__(self, *, target_action: Target = None, on_exit: SomeEntities, handle_once: bool = False) -> None:
        super().__init__(_of_process(ProcessExited, target_action), on_exit, handle_once)


class OnProcessStart(_OnEvent):
    """Reacts to the start of a process."""

    def __init__(self, *, target_action: Target = None, on_start: SomeEntities, handle_once: bool = False) -> None:
        super().__init__(_of_process(ProcessStarted, target_action), on_start, handle_once)


class OnShutdown(_OnEvent):
    """Reacts to the end of the launch."""

    def __init__(self, *, on_shutdown: SomeEntities, handle_once: bool = False) -> None:
        super().__init__(lambda event: isinstance(event, Shutdown), on_shutdown, handle_once)


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
