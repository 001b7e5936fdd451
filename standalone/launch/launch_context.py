"""What the parts of a running launch share."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .event import Event
    from .event_handler import EventHandler
    from .guardian import Guardian
    from .substitution import Substitution


class LaunchContext:
    """The launch arguments, the environment, the event handlers and the events still to be handled."""

    def __init__(self, *, argv: Iterable[str] | None = None, noninteractive: bool = False) -> None:
        self.argv = list(argv or [])
        self.noninteractive = noninteractive
        self.launch_configurations: dict[str, Any] = {}
        self.locals = SimpleNamespace()
        self.is_shutdown = False
        self.event_handlers: list[EventHandler] = []
        self.events: deque[Event] = deque()
        self.wake: Callable[[], None] = lambda: None       # tells the service that there is something to do
        self.guardian: Guardian | None = None              # ends what the launch leaves behind
        self._saved: list[tuple[dict[str, Any], dict[str, str]]] = []

    @property
    def asyncio_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the running launch."""
        return asyncio.get_running_loop()

    @property
    def environment(self) -> MutableMapping[str, str]:
        """The environment that processes inherit."""
        return os.environ

    def extend_locals(self, extensions: dict[str, Any]) -> None:
        """Leave values for the entities that follow."""
        vars(self.locals).update(extensions)

    def perform_substitution(self, substitution: Substitution) -> str:
        """Return the text of a substitution."""
        return substitution.perform(self)

    def register_event_handler(self, event_handler: EventHandler) -> None:
        """Let a handler see the events to come; the latest handler sees them first."""
        self.event_handlers.insert(0, event_handler)

    def unregister_event_handler(self, event_handler: EventHandler) -> None:
        """Stop a handler from seeing events."""
        self.event_handlers.remove(event_handler)

    def emit_event_sync(self, event: Event) -> None:
        """Queue an event."""
        self.events.append(event)
        self.wake()

    async def emit_event(self, event: Event) -> None:
        """Queue an event."""
        self.emit_event_sync(event)

    def push_scope(self) -> None:
        """Remember the arguments and the environment."""
        self._saved.append((dict(self.launch_configurations), dict(self.environment)))

    def pop_scope(self) -> None:
        """Go back to what was remembered last."""
        self.launch_configurations, environment = self._saved.pop()
        os.environ.clear()
        os.environ.update(environment)
