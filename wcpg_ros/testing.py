"""A pytest plugin: seeded traffic to test a longitudinal controller in, whoever wrote it.

    def test_it_never_hits_anybody(traffic_scene):
        result = traffic_scene.drive(MyController, scenario='left_turn', episodes=20, seed=7)
        assert result.collisions == 0

The simulator runs in a process of its own, in a ROS domain of the test's own, in lock-step and as fast as the
controller answers: the same seed gives the same episode on every machine and at every load.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Nothing of ROS is imported before a test asks for the fixture: the plugin is loaded in every pytest run.
from sim_node.episode_result import NO_COMMAND, EpisodeResult
from wcpg_ros.domain import Ros, Running, ros2_command, surroundings, taken_domain

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy import Context
    from rclpy.node import Node

Controller = Sequence[str | Path] | str | Path | Callable[[], 'Node']

COMMAND, EPISODES = '/ego/acceleration_command', '/sim/episode'
PATIENCE = 60.0            # s without news after which a drive has failed; the first one compiles the simulator
COMMAND_TIMEOUT = 10.0     # s of the steady clock that a controller may think about one state
SPIN_SECONDS = 0.05
LAST_NEWS_SECONDS = 2.0    # for what a simulator said last to arrive
FAREWELL_SECONDS = 5.0     # for a controller to end after SIGINT


@dataclass(frozen=True, repr=False)
class Result:
    """How the episodes of a drive ended, in the order of their seeds."""

    episodes: tuple[EpisodeResult, ...]
    complaints: tuple[str, ...] = field(default=(), compare=False)     # the simulator's, for instance of a NaN

    def count(self, outcome: str) -> int:
        """How many episodes ended like this."""
        return sum(episode.outcome == outcome for episode in self.episodes)

    @property
    def collisions(self) -> int:
        """Episodes in which ego hit somebody."""
        return self.count('collision')

    @property
    def successes(self) -> int:
        """Episodes in which ego reached its goal."""
        return self.count('success')

    @property
    def timeouts(self) -> int:
        """Episodes that were over before ego reached its goal."""
        return self.count('timeout')

    @property
    def unanswered(self) -> int:
        """Episodes given up because the controller did not answer a state."""
        return self.count(NO_COMMAND)

    @property
    def mean_steps(self) -> float:
        """Steps of 0.1 s, mean of the successes; NaN without one."""
        steps = [episode.steps for episode in self.episodes if episode.outcome == 'success']
        return sum(steps) / len(steps) if steps else float('nan')

    def __repr__(self) -> str:
        """What a failed assertion should show: which seeds to look at."""
        parts = []
        for outcome, count in Counter(episode.outcome for episode in self.episodes).most_common():
            seeds = [str(episode.seed) for episode in self.episodes if episode.outcome == outcome]
            parts.append(f'{count} {outcome}' + (f' (seeds {", ".join(seeds)})' if outcome != 'success' else ''))
        return '\n'.join([f'<{len(self.episodes)} episodes: {", ".join(parts)}>', *self.complaints])


class TrafficScene:
    """Drives controllers through seeded episodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder     # for what the processes say

    def drive(self, controller: Controller, *, scenario: str = 'left_turn', row: str = 'train', episodes: int = 10,
              seed: int = 0, parameters: Mapping[str, Any] | None = None, patience: float = PATIENCE) -> Result:
        """Let a controller drive the episodes of `seed`, `seed` + 1, …

        The controller is a command line (a list), a launch file (a path that ends in .launch.py), or an rclpy Node
        class or another function that makes a node, which then runs in this process. `parameters` are further ones of
        the simulator node, for instance {'traffic.spawn_rate': 0.05}.
        """
        from sim_node.node_settings import PARAMETERS

        if episodes < 1:
            raise ValueError(f'episodes = {episodes}: a drive of none shows nothing')
        unknown = sorted(set(parameters or ()) - {parameter.name for parameter in PARAMETERS})
        if unknown:
            raise ValueError(f'the simulator has no parameter {", ".join(unknown)}; docs/interface.md lists them')
        wanted = {'scenario': scenario, 'row': row, 'episodes': episodes, 'seed': seed, 'lockstep': True,
                  'speed_factor': 0.0, 'command_timeout': COMMAND_TIMEOUT, **(parameters or {})}
        self._folder.mkdir(parents=True, exist_ok=True)
        with taken_domain() as domain:
            ros = Ros(domain, self._folder)
            try:
                with surroundings(ros.environment):
                    return _drive(ros, controller, wanted, patience)
            finally:
                ros.kill_all()


@pytest.fixture
def traffic_scene(tmp_path: Path) -> TrafficScene:
    """Seeded traffic for a controller: `traffic_scene.drive(controller, …)` gives the outcomes."""
    return TrafficScene(tmp_path / 'traffic_scene')


def _drive(ros: Ros, controller: Controller, parameters: dict[str, Any], patience: float) -> Result:
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    # A node made here lives in the default context (None), as its author expects.
    context = None if callable(controller) else rclpy.Context()
    if context is None and rclpy.ok():
        raise RuntimeError('rclpy is already initialised in this process: shut it down before, or give a command line')
    rclpy.init(args=[], context=context, domain_id=ros.domain, signal_handler_options=SignalHandlerOptions.NO)
    try:
        watch = _Watch(context, patience)
        if callable(controller):
            watch.executor.add_node(controller())
        else:
            watch.processes['controller'] = ros.start(*_command_line(controller))
        # First the controller: until it is there, the simulator would count its episodes as unanswered.
        watch.spin_until(lambda: watch.node.count_publishers(COMMAND), f'a publisher of {COMMAND}')
        options = [part for name, value in parameters.items() for part in ('-p', f'{name}:={value}')]
        watch.processes['simulator'] = ros.start_python('-m', 'sim_node', '--ros-args', *options)
        watch.spin_until(lambda: len(watch.results) == parameters['episodes'], 'the end of all episodes')
        watch.dismiss_controller()
        said = watch.processes['simulator'].text.splitlines()
        return Result(tuple(watch.results), tuple(line for line in said if line.startswith(('[WARN]', '[ERROR]'))))
    finally:
        if rclpy.ok(context=context):     # a controller may have ended it
            rclpy.shutdown(context=context, uninstall_handlers=False)


class _Watch:
    """Looks on from a node of its own: collects the results, and notices when somebody dies or nothing happens."""

    def __init__(self, context: Context | None, patience: float) -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray

        from sim_node.qos import LATCHED
        from sim_node.running import EventsExecutor

        self.results: list[EpisodeResult] = []
        self.processes: dict[str, Running] = {}
        self.node = rclpy.create_node('wcpg_testing', context=context)
        self.node.create_subscription(DiagnosticArray, EPISODES, self._take_result, LATCHED)
        self.executor = EventsExecutor(context=context)
        self.executor.add_node(self.node)
        self._patience = patience

    def _take_result(self, message: DiagnosticArray) -> None:
        self.results.append(EpisodeResult.from_texts({pair.key: pair.value for pair in message.status[0].values}))

    def spin_until(self, reached: Callable[[], Any], what: str) -> None:
        """Run the nodes in this process until something is reached; say why it cannot be."""
        seen, last_news = len(self.results), time.monotonic()
        while not reached():
            dead = {name: process.process.returncode for name, process in self.processes.items()
                    if process.process.poll() is not None}
            self.executor.spin_once(timeout_sec=SPIN_SECONDS)
            if len(self.results) > seen:
                seen, last_news = len(self.results), time.monotonic()
            if reached():
                return
            if 'controller' in dead or ('simulator' in dead and time.monotonic() - last_news > LAST_NEWS_SECONDS):
                self._fail(what, ', '.join(f'the {name} ended with {code}' for name, code in dead.items()))
            if time.monotonic() - last_news > self._patience:
                self._fail(what, f'nothing new for {self._patience:g} s')

    def _fail(self, what: str, why: str) -> None:
        said = ''.join(f'\n--- {name}:\n{process.text}' for name, process in self.processes.items())
        raise AssertionError(f'waiting for {what}: {why}{said}')

    def dismiss_controller(self) -> None:
        """Let a controller process end as it would on a robot."""
        if 'controller' in self.processes:
            self.processes['controller'].signal(signal.SIGINT)
            with contextlib.suppress(AssertionError):     # else it is killed
                self.processes['controller'].ended(FAREWELL_SECONDS)


def _command_line(controller: Sequence[str | Path] | str | Path) -> list[str | Path]:
    if isinstance(controller, list | tuple) and controller:
        if shutil.which(controller[0]) is None:
            raise ValueError(f'controller {controller}: there is no command {str(controller[0])!r}')
        return list(controller)
    if not isinstance(controller, str | Path) or not str(controller).endswith('.launch.py'):
        raise ValueError(f'controller {controller!r}: give a command line as a list, the path of a .launch.py, or '
                         'a Node class')
    if not Path(controller).is_file():
        raise ValueError(f'controller {str(controller)!r}: there is no such file')
    return [ros2_command(), 'launch', controller]
