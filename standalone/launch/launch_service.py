"""Runs launch descriptions until nothing is left to do."""

from __future__ import annotations

import asyncio
import logging as levels
import signal
import traceback
from collections.abc import Iterable

from . import logging
from .event import Event
from .events import Shutdown
from .guardian import Guardian
from .launch_context import LaunchContext
from .launch_description import LaunchDescription
from .launch_description_entity import LaunchDescriptionEntity


class LaunchService:
    """Visits entities, hands events to their handlers, and ends when it is idle or told to."""

    def __init__(self, *, argv: Iterable[str] | None = None, noninteractive: bool = False,
                 debug: bool = False) -> None:
        self.context = LaunchContext(argv=argv, noninteractive=noninteractive)
        self._debug = debug
        self._logger = logging.get_logger('launch')
        self._to_visit: list[LaunchDescriptionEntity] = []
        self._running: set[asyncio.Future[None]] = set()
        self._interrupted = False
        self._return_code = 0

    def include_launch_description(self, launch_description: LaunchDescription) -> None:
        """Have a description visited when the service runs."""
        self._to_visit.append(launch_description)

    def shutdown(self) -> None:
        """End the launch."""
        self._shutdown('LaunchService.shutdown() called')

    def run(self) -> int:
        """Run until all is done; return 0, or 1 if the launch itself failed."""
        guardian = Guardian()
        self.context.guardian = guardian
        try:
            return asyncio.run(self._run())
        finally:
            guardian.close()

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        something_happened = asyncio.Event()
        self.context.wake = something_happened.set
        loop.add_signal_handler(signal.SIGINT, self._on_sigint)
        for signum in (signal.SIGTERM, signal.SIGQUIT):
            loop.add_signal_handler(signum, self._on_sigterm, signum)

        self._logger.info('All log files can be found below %s', logging.log_dir())
        level = levels.DEBUG if self._debug else levels.INFO
        self._logger.info('Default logging verbosity is set to %s', levels.getLevelName(level))

        while True:
            something_happened.clear()
            self._work()
            if self._running:
                await something_happened.wait()
            elif self.context.is_shutdown:
                return self._return_code
            else:
                self._shutdown('idle')

    def _work(self) -> None:
        """Visit and dispatch all that is waiting; a failure ends the launch."""
        while self._to_visit or self.context.events:
            try:
                if self._to_visit:
                    self._visit(self._to_visit.pop(0))
                else:
                    self._dispatch(self.context.events.popleft())
            except Exception as exception:
                self._fail(exception)

    def _visit(self, entity: LaunchDescriptionEntity) -> None:
        sub_entities = entity.visit(self.context)
        future = entity.get_asyncio_future()
        if future is not None and not future.done() and future not in self._running:
            self._running.add(future)
            future.add_done_callback(self._finished)
        for sub_entity in sub_entities or ():
            self._visit(sub_entity)

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Shutdown):
            self.context.is_shutdown = True
        for handler in list(self.context.event_handlers):
            if handler.matches(event):
                for entity in handler.handle(event, self.context):
                    self._visit(entity)

    def _finished(self, future: asyncio.Future[None]) -> None:
        self._running.discard(future)
        exception = None if future.cancelled() else future.exception()
        if isinstance(exception, Exception):
            self._fail(exception)
        self.context.wake()

    def _fail(self, exception: Exception) -> None:
        problem = f'Caught exception in launch (see debug for traceback): {exception}'
        if self._debug:
            self._logger.error('%s', ''.join(traceback.format_exception(exception)))
        self._logger.error('%s', problem)
        self._return_code = 1
        self._shutdown(problem)

    def _shutdown(self, reason: str, *, due_to_sigint: bool = False) -> None:
        if not self.context.is_shutdown:
            self.context.is_shutdown = True
            self.context.emit_event_sync(Shutdown(reason=reason, due_to_sigint=due_to_sigint))

    def _on_sigint(self) -> None:
        if self._interrupted:
            self._logger.warning('user interrupted with ctrl-c (SIGINT) again, ignoring...')
            return
        self._interrupted = True
        self._logger.warning('user interrupted with ctrl-c (SIGINT)')
        self._shutdown('ctrl-c (SIGINT)', due_to_sigint=True)

    def _on_sigterm(self, signum: signal.Signals) -> None:
        """Where the real launch gives up its processes, this one stops them too."""
        self._logger.error("user interrupted with ctrl-\\ (%s), terminating...", signum.name)
        self._return_code = 1
        self._shutdown(signum.name)
