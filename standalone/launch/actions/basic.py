"""The short actions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import logging
from ..action import Action
from ..event import Event
from ..event_handler import EventHandler
from ..event_handlers import OnShutdown
from ..events import Shutdown as ShutdownEvent
from ..events.process import ProcessExited
from ..launch_description_entity import LaunchDescriptionEntity
from ..substitution import SomeSubstitutionsType
from ..utilities import normalize_to_list_of_substitutions, perform, perform_substitutions

if TYPE_CHECKING:
    from ..launch_context import LaunchContext

Entities = Sequence[LaunchDescriptionEntity] | None


class LogInfo(Action):
    """Says something."""

    def __init__(self, *, msg: SomeSubstitutionsType, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.msg = normalize_to_list_of_substitutions(msg)

    def execute(self, context: LaunchContext) -> None:
        logging.get_logger('launch.user').info('%s', perform_substitutions(context, self.msg))


class EmitEvent(Action):
    """Emits an event."""

    def __init__(self, *, event: Event, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.event = event

    def execute(self, context: LaunchContext) -> None:
        context.emit_event_sync(self.event)


class Shutdown(EmitEvent):
    """Ends the launch."""

    def __init__(self, *, reason: str = 'reason not given', **kwargs: Any) -> None:
        super().__init__(event=ShutdownEvent(reason=reason), **kwargs)

    def execute(self, context: LaunchContext) -> None:
        event = getattr(context.locals, 'event', None)
        if isinstance(event, ProcessExited):
            logging.get_logger('launch').info('process[%s] was required: shutting down launched system',
                                              event.process_name)
        super().execute(context)


class OpaqueFunction(Action):
    """Calls a function with the context; what it returns is executed."""

    def __init__(self, *, function: Callable[..., Entities], args: Iterable[Any] | None = None,
                 kwargs: dict[str, Any] | None = None, **left_over_kwargs: Any) -> None:
        super().__init__(**left_over_kwargs)
        self._function = function
        self._args = tuple(args or ())
        self._kwargs = dict(kwargs or {})

    def execute(self, context: LaunchContext) -> Entities:
        return self._function(context, *self._args, **self._kwargs)


class RegisterEventHandler(Action):
    """Starts reacting to events."""

    def __init__(self, event_handler: EventHandler, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.event_handler = event_handler

    def execute(self, context: LaunchContext) -> None:
        context.register_event_handler(self.event_handler)

    def describe_conditional_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.event_handler.entities


class UnregisterEventHandler(Action):
    """Stops reacting to events."""

    def __init__(self, event_handler: EventHandler, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.event_handler = event_handler

    def execute(self, context: LaunchContext) -> None:
        context.unregister_event_handler(self.event_handler)


class SetLaunchConfiguration(Action):
    """Sets a launch argument."""

    def __init__(self, name: SomeSubstitutionsType, value: SomeSubstitutionsType, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = normalize_to_list_of_substitutions(value)

    def execute(self, context: LaunchContext) -> None:
        context.launch_configurations[perform_substitutions(context, self.name)] = \
            perform_substitutions(context, self.value)


class SetEnvironmentVariable(Action):
    """Sets an environment variable for the processes that follow."""

    def __init__(self, name: SomeSubstitutionsType, value: SomeSubstitutionsType, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = normalize_to_list_of_substitutions(value)

    def execute(self, context: LaunchContext) -> None:
        context.environment[perform_substitutions(context, self.name)] = perform_substitutions(context, self.value)


class GroupAction(Action):
    """Executes actions; when scoped, their arguments and environment end with the group."""

    def __init__(self, actions: Iterable[Action], *, scoped: bool = True,
                 launch_configurations: dict[Any, SomeSubstitutionsType] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._actions = list(actions)
        self._scoped = scoped
        self._settings = [SetLaunchConfiguration(name, value) for name, value in (launch_configurations or {}).items()]

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return [*self._settings, *self._actions]

    def execute(self, context: LaunchContext) -> Entities:
        if not self._scoped:
            return self.get_sub_entities()
        return [OpaqueFunction(function=lambda context: context.push_scope()),
                *self.get_sub_entities(),
                OpaqueFunction(function=lambda context: context.pop_scope())]


class TimerAction(Action):
    """Executes actions after `period` seconds, unless the launch ends before."""

    def __init__(self, *, period: float | SomeSubstitutionsType, actions: Iterable[LaunchDescriptionEntity],
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.period = period
        self.actions = list(actions)
        self._done: asyncio.Future[None] | None = None

    def describe_conditional_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.actions

    def execute(self, context: LaunchContext) -> None:
        period = self.period if isinstance(self.period, (int, float)) else float(perform(context, self.period))
        done = self._done = context.asyncio_loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        def fire() -> None:
            elapsed = Event()
            context.register_event_handler(
                EventHandler(matcher=lambda event: event is elapsed, entities=self.actions, handle_once=True))
            context.emit_event_sync(elapsed)
            finish()

        timer = context.asyncio_loop.call_later(period, fire)

        def cancel(event: Event, context: LaunchContext) -> None:
            timer.cancel()
            finish()

        context.register_event_handler(OnShutdown(on_shutdown=cancel))

    def get_asyncio_future(self) -> asyncio.Future[None] | None:
        return self._done
