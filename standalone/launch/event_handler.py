"""What reacts to an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .event import Event

if TYPE_CHECKING:
    from .launch_context import LaunchContext
    from .launch_description_entity import LaunchDescriptionEntity

# What a handler may give to be executed next.
SomeEntities = Any


class EventHandler:
    """Executes `entities` when an event matches."""

    def __init__(self, *, matcher: Callable[[Event], bool], entities: SomeEntities = None,
                 handle_once: bool = False) -> None:
        self._matcher = matcher
        self.entities = list_of_entities(entities)
        self._handle_once = handle_once

    def matches(self, event: Event) -> bool:
        """Return whether this handler wants the event."""
        return self._matcher(event)

    def handle(self, event: Event, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        """Return what to execute in answer."""
        context.extend_locals({'event': event})
        if self._handle_once:
            context.unregister_event_handler(self)
        return self.entities


def list_of_entities(entities: SomeEntities) -> list[LaunchDescriptionEntity]:
    """Make a list of nothing, one entity or many."""
    if entities is None:
        return []
    return list(entities) if isinstance(entities, Iterable) else [entities]
