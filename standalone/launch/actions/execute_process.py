"""The action that runs a process and looks after it until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging as levels
import os
import shlex
import signal
import subprocess
import traceback
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

from .. import logging
from ..action import Action
from ..condition import Condition
from ..event import Event
from ..event_handler import EventHandler, SomeEntities
from ..event_handlers import OnProcessExit, OnShutdown
from ..events import Shutdown
from ..events.process import ProcessExited, ProcessStarted, ShutdownProcess, SignalProcess
from ..substitution import SomeSubstitutionsType
from ..substitutions import LaunchConfiguration
from ..utilities import coerce_to_type, normalize_to_list_of_substitutions, perform, refuse_keywords

if TYPE_CHECKING:
    from ..launch_context import LaunchContext

# How long to wait for the rest of a finished process's output: a process it left behind may hold the pipe open.
LAST_OUTPUT_SECONDS = 1.0
READ_BYTES = 65536

_counter = itertools.count(1)


class ExecuteProcess(Action):
    """Runs a command in a session of its own; asks it to stop when the launch ends, ever less kindly."""

    def __init__(self, *, cmd: Iterable[SomeSubstitutionsType], name: SomeSubstitutionsType | None = None,
                 cwd: SomeSubstitutionsType | None = None,
                 env: dict[str, SomeSubstitutionsType] | None = None,
                 additional_env: dict[str, SomeSubstitutionsType] | None = None,
                 prefix: SomeSubstitutionsType | None = None,
                 shell: bool = False,
                 sigterm_timeout: SomeSubstitutionsType | None = None,
                 sigkill_timeout: SomeSubstitutionsType | None = None,
                 output: SomeSubstitutionsType = 'log',
                 on_exit: SomeEntities = None,
                 respawn: bool | SomeSubstitutionsType = False, respawn_delay: float | None = None,
                 condition: Condition | None = None, **unsupported: Any) -> None:
        refuse_keywords(type(self).__name__, unsupported)
        super().__init__(condition=condition)
        self.cmd = [normalize_to_list_of_substitutions(part) for part in cmd]
        self._name = name
        self._cwd = cwd
        self._env = env
        self._additional_env = additional_env or {}
        self._prefix = LaunchConfiguration('launch-prefix', default='') if prefix is None else prefix
        self._shell = shell
        self._sigterm_timeout = sigterm_timeout or LaunchConfiguration('sigterm_timeout', default=5)
        self._sigkill_timeout = sigkill_timeout or LaunchConfiguration('sigkill_timeout', default=5)
        self._output = os.environ.get('OVERRIDE_LAUNCH_PROCESS_OUTPUT', output)
        self._on_exit = on_exit
        self._respawn = respawn
        self._respawn_delay = respawn_delay or 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Future[None] | None = None
        self._stopping: asyncio.Event | None = None
        self._escalation: list[asyncio.TimerHandle] = []
        self.process_details: dict[str, Any] | None = None

    @property
    def return_code(self) -> int | None:
        """The exit code, None while it is not known."""
        return None if self._process is None else self._process.returncode

    def get_sub_entities(self) -> list[Any]:
        return self._on_exit if isinstance(self._on_exit, list) else []

    def get_asyncio_future(self) -> asyncio.Future[None] | None:
        return self._task

    def execute(self, context: LaunchContext) -> None:
        if self._task is not None:
            raise RuntimeError(f'ExecuteProcess action executed more than once: {self}')
        if context.is_shutdown:
            return
        cmd = [*shlex.split(perform(context, self._prefix)), *(perform(context, part) for part in self.cmd)]
        name = os.path.basename(cmd[0]) if self._name is None else perform(context, self._name)
        name = f'{name}-{next(_counter)}'
        base = context.environment if self._env is None else self._env
        env = {key: perform(context, value) for key, value in {**base, **self._additional_env}.items()}
        cwd = None if self._cwd is None else perform(context, self._cwd)
        self.process_details = {'action': self, 'name': name, 'cmd': cmd, 'cwd': cwd, 'env': env}
        self._logger = logging.get_logger(name)
        self._stopping = asyncio.Event()
        if self._on_exit is not None:
            context.register_event_handler(OnProcessExit(target_action=self, on_exit=self._on_exit))
        context.register_event_handler(OnShutdown(on_shutdown=self._on_shutdown))
        context.register_event_handler(_Addressed(self, ShutdownProcess, self._on_shutdown))
        context.register_event_handler(_Addressed(self, SignalProcess, self._on_signal))
        respawn = self._respawn if isinstance(self._respawn, bool) else \
            coerce_to_type(perform(context, self._respawn), bool)
        outputs = logging.get_output_loggers(name, perform(context, self._output))
        self._task = context.asyncio_loop.create_task(self._supervise(context, outputs, respawn))

    async def _supervise(self, context: LaunchContext, outputs: tuple[levels.Logger, levels.Logger],
                         respawn: bool) -> None:
        assert self._stopping is not None
        while not context.is_shutdown and not self._stopping.is_set():
            await self._run_once(context, outputs)
            if not respawn or self._process is None:
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._respawn_delay)

    async def _run_once(self, context: LaunchContext, outputs: tuple[levels.Logger, levels.Logger]) -> None:
        details = self.process_details
        assert details is not None
        assert context.guardian is not None
        cmd = details['cmd']
        try:
            # A session of its own: a terminal's Ctrl-C reaches the launch alone, which then stops the processes in
            # its own way, and a signal to the group also reaches what a shell or a wrapper script started.
            process = self._process = subprocess.Popen(
                ' '.join(cmd) if self._shell else cmd, shell=self._shell, cwd=details['cwd'], env=details['env'],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, preexec_fn=context.guardian.announce)
        except Exception:
            self._process = None
            self._logger.error('exception occurred while executing process:\n%s', traceback.format_exc())
            return
        details['pid'] = process.pid
        self._logger.info('process started with pid [%d]', process.pid)
        context.emit_event_sync(ProcessStarted(**details))
        assert process.stdin is not None
        pumps = [asyncio.create_task(_pump(pipe, logger, details['name']))
                 for pipe, logger in zip((process.stdout, process.stderr), outputs, strict=True) if pipe is not None]
        returncode = await _exit_of(process)
        for timer in self._escalation:
            timer.cancel()
        _, unfinished = await asyncio.wait(pumps, timeout=LAST_OUTPUT_SECONDS)
        for pump in unfinished:
            pump.cancel()
        process.stdin.close()
        context.guardian.forget(process.pid)
        if returncode == 0:
            self._logger.info('process has finished cleanly [pid %d]', process.pid)
        else:
            self._logger.error("process has died [pid %d, exit code %d, cmd '%s'].", process.pid, returncode,
                               ' '.join(part for part in cmd if part.strip()))
        context.emit_event_sync(ProcessExited(returncode=returncode, **details))

    def _on_shutdown(self, event: Event, context: LaunchContext) -> None:
        assert self._stopping is not None
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._process is None or self._process.poll() is not None:
            return
        # In a terminal the real launch says nothing here: there Ctrl-C reaches its processes by itself.
        by_terminal = isinstance(event, Shutdown) and event.due_to_sigint and not context.noninteractive
        self._send(signal.SIGINT, quietly=by_terminal)
        sigterm_after = perform(context, self._sigterm_timeout)
        sigkill_after = str(float(sigterm_after) + float(perform(context, self._sigkill_timeout)))
        loop = context.asyncio_loop
        self._escalation = [
            loop.call_later(float(sigterm_after), self._escalate, sigterm_after, signal.SIGINT, signal.SIGTERM),
            loop.call_later(float(sigkill_after), self._escalate, sigkill_after, signal.SIGTERM, signal.SIGKILL)]

    def _escalate(self, after: str, last: signal.Signals, following: signal.Signals) -> None:
        assert self.process_details is not None
        self._logger.error("process[%s] failed to terminate '%s' seconds after receiving '%s', escalating to '%s'",
                           self.process_details['name'], after, last.name, following.name)
        self._send(following)

    def _on_signal(self, event: SignalProcess, context: LaunchContext) -> None:
        if self._process is not None and self._process.poll() is None:
            self._send(event.signal)

    def _send(self, signum: signal.Signals, quietly: bool = False) -> None:
        assert self._process is not None
        assert self.process_details is not None
        if not quietly:
            self._logger.info("sending signal '%s' to process[%s]", signum.name, self.process_details['name'])
        with contextlib.suppress(ProcessLookupError):   # it may end in this moment
            os.killpg(self._process.pid, signum)


class _Addressed(EventHandler):
    """Calls a method of the action when an event is addressed to it."""

    def __init__(self, action: ExecuteProcess, event_type: type[ShutdownProcess] | type[SignalProcess],
                 method: Any) -> None:
        super().__init__(matcher=lambda event: isinstance(event, event_type) and event.process_matcher(action))
        self._method = method

    def handle(self, event: Event, context: LaunchContext) -> list[Any]:
        self._method(event, context)
        return []


async def _exit_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process without a thread and whatever its pipes do."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()


async def _pump(pipe: IO[bytes], logger: levels.Logger, name: str) -> None:
    """Log every line of a pipe with the name of its process in front."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe)
    rest = b''
    try:
        while data := await reader.read(READ_BYTES):
            *lines, rest = (rest + data).split(b'\n')
            for line in lines:
                logger.info('[%s] %s', name, line.decode(errors='replace'))
    finally:
        if rest:
            logger.info('[%s] %s', name, rest.decode(errors='replace'))
        transport.close()
