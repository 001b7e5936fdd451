"""The simulator as a ROS node, `/sim`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import MultiDOFJointState
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray

from sim_node import cdr, markers
from sim_node.episode import Episode, EpisodeResult
from sim_node.guards import InputGuard, check_command
from sim_node.parameters import Row, declare, problem_with
from sim_node.running import run
from sim_node.scenario import STEP_SECONDS, Scenario, load_scenario, scenario_names
from sim_node.settings import SettingsError

FRAME, BASE_FRAME = 'map', 'base_link'
AS_THE_ROW_SAYS = -1

PARAMETERS = (
    Row('scenario', 'left_turn', 'the scene, from the next reset on', choices=tuple(scenario_names())),
    Row('row', 'train', "row of the scene's extrapolation table, from the next reset on"),
    Row('seed', 0, 'seed of the next episode; each further one adds 1', low=0, high=9_000_000_000_000_000_000),
    Row('speed_factor', 1.0, 'how much faster than real time; 0: as fast as the commands come', low=0.0, high=1000.0),
    Row('lockstep', False, 'wait for the command that answers each state', read_only=True),
    Row('episodes', 0, 'end after this many episodes; 0: never', low=0, high=1_000_000_000, read_only=True),
    Row('command_timeout', 0.5, 'silence after which ego brakes, or in lock-step the episode ends', 's', 0.05, 3600.0),
    Row('failsafe_deceleration', 4.0, 'how ego brakes when nobody drives', 'm/s²', 0.0, 4.0),
    Row('traffic.spawn_rate', -1.0, "births per step and lane; -1: the row's", low=-1.0, high=0.99),
    Row('traffic.speed_min', -1.0, "slowest desired speed; -1: the row's", 'm/s', -1.0, 60.0),
    Row('traffic.speed_max', -1.0, "fastest desired speed; -1: the row's", 'm/s', -1.0, 60.0),
    Row('traffic.platoon', AS_THE_ROW_SAYS, "vehicles under way at the start; -1: the row's", low=-1, high=100),
    Row('traffic.spawned', AS_THE_ROW_SAYS, "further vehicles at most; -1: the row's", low=-1, high=100),
)

KEEP_ALL = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
LATCHED = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Simulator(Node):
    """Drives one scene and shows it.

    Publishes `/clock`, `ego/odometry`, `vehicles`, `vehicles/markers`, `~/episode`, `/diagnostics`; takes
    `ego/acceleration_command`; offers `~/reset`, `~/step`, `~/run`. In lock-step the state at t is followed by the
    next one only when the command stamped t has come.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('sim', **options)
        declare(self, PARAMETERS)
        self._episode = Episode(self._wanted_scenario({}))
        self._episode.warm_up()
        self._next_seed = self._value('seed')
        self._paused = False
        self._due = True
        self._command: tuple[int, float] | None = None
        self._failsafe = False
        self._shown: set[str] = set()
        self.outcomes: Counter[str] = Counter()
        self._guard = InputGuard('ego/acceleration_command', self._value('command_timeout'))
        self._waiting_since = time.monotonic()
        self._clock_out = self.create_publisher(ClockMessage, '/clock', KEEP_ALL)
        self._odometry_out = self.create_publisher(Odometry, 'ego/odometry', KEEP_ALL)
        self._vehicles_out = self.create_publisher(MultiDOFJointState, 'vehicles', KEEP_ALL)
        self._markers_out = self.create_publisher(MarkerArray, 'vehicles/markers', KEEP_ALL)
        self._episode_out = self.create_publisher(DiagnosticArray, '~/episode', LATCHED)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_subscription(AccelStamped, 'ego/acceleration_command', self._take_command, NEWEST)
        self.create_service(Trigger, '~/reset', self._reset)
        self.create_service(Trigger, '~/step', self._step_once)
        self.create_service(SetBool, '~/run', self._run)
        self.add_on_set_parameters_callback(self._validate)
        self.add_post_set_parameters_callback(self._apply)
        # Every timer runs on the steady clock: simulated time stands still exactly when it matters.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._pace: Any = None
        self._set_pace()
        self.create_timer(0.1, self._remind, clock=self._steady)
        self.create_timer(1.0, self._report, clock=self._steady)
        self._published = 0.0
        self._begin()

    @property
    def finished(self) -> bool:
        """Whether all the episodes asked for are over."""
        return 0 < self._value('episodes') <= self.outcomes.total()

    def summary(self) -> str:
        """One line on all the episodes driven."""
        total = self.outcomes.total()
        counts = ', '.join(f'{count} {outcome}' for outcome, count in sorted(self.outcomes.items()))
        return f'{total} episode{"s" if total != 1 else ""}: {counts or "none ended"}'

    def stop(self) -> None:
        """Sum up, once everybody reachable has the last messages."""
        print(self.summary(), flush=True)
        for publisher in (self._episode_out, self._vehicles_out, self._odometry_out):
            publisher.wait_for_all_acked(Duration(seconds=1.0))

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    # The course of an episode

    @property
    def _waits(self) -> bool:
        """Whether a step waits for the command that answers the state: in lock-step, and where nothing else paces."""
        return self._value('lockstep') or self._value('speed_factor') == 0.0

    def _begin(self) -> None:
        scenario = self._wanted_scenario({})
        if scenario != self._episode.scenario:
            after, self._episode = self._episode.stamp, Episode(scenario)
            self._episode.begin(self._next_seed, after)
        else:
            self._episode.begin(self._next_seed)
        self._next_seed += 1
        self._command = None
        self._waiting_since = time.monotonic()
        self._publish_state()
        self._markers_out.publish(markers.road_markers(self._stamp(), FRAME, scenario))

    def _advance(self, acceleration: float) -> None:
        self._episode.step(acceleration)
        self._publish_state()
        if self._episode.result is not None:
            self._conclude(self._episode.result)

    def _conclude(self, result: EpisodeResult) -> None:
        self.outcomes[result.outcome] += 1
        self._publish_episode(result)
        seconds = result.steps * STEP_SECONDS
        self.get_logger().info(f'episode {self.outcomes.total()} (seed {result.seed}): {result.outcome} after '
                               f'{seconds:.1f} s, return {result.episode_return:.1f}'
                               + (f', hit {result.hit}' if result.hit else ''))
        if not self.finished:
            self._begin()

    def _take_command(self, message: AccelStamped) -> None:
        stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        problem = check_command(message.header.frame_id, message.accel.linear.x, body_frame=BASE_FRAME)
        accepted = self._guard.offer(stamp, problem)
        self._tell()
        if accepted:
            self._waiting_since = time.monotonic()
            self._failsafe = False
            self._command = stamp, message.accel.linear.x
            self._go_on()

    def _go_on(self) -> None:
        """Take the step that has been waited for, if its command is there and its time has come."""
        if (self._waits and not self._paused and not self.finished and self._due
                and self._command is not None and self._command[0] == self._episode.stamp):
            self._due = self._value('speed_factor') == 0.0
            self._advance(self._command[1])

    def _tick(self) -> None:
        """Real time, or a multiple of it, has moved on by one step."""
        self._due = True
        if self._waits:
            self._go_on()
        elif not self._paused and not self.finished:
            self._advance(self._acceleration())

    @property
    def _undriven(self) -> bool:
        """Whether no valid command has come for too long, of those that should have."""
        return time.monotonic() - self._waiting_since > self._value('command_timeout')

    def _acceleration(self) -> float:
        """The newest command, or the brakes when there has been none for too long."""
        if self._undriven:
            if not self._failsafe:
                self._failsafe = True
                self.get_logger().warning(f'no command for {self._value("command_timeout"):g} s: ego brakes by itself')
            return -self._value('failsafe_deceleration')
        return self._command[1] if self._command is not None else 0.0

    def _remind(self) -> None:
        """Show a state that stands still again, for those who joined late; give up on a driver who never answers."""
        self._guard.is_stale()     # so that a driver started anew is believed
        self._tell()
        if self.finished or not (self._paused or self._waits) or time.monotonic() - self._published < 0.09:
            return
        if self._undriven and not self._paused:
            if not self._failsafe:
                self._failsafe = True
                self.get_logger().error(f'no command for {self._value("command_timeout"):g} s: the episode ends')
            self._conclude(self._episode.abandon())
            return
        self._publish_state()

    def _tell(self) -> None:
        for line in self._guard.take_reports():
            self.get_logger().warning(line)

    # Services

    def _reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._begin()
        response.success, response.message = True, f'episode of seed {self._episode.seed}'
        return response

    def _step_once(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if not self._paused:
            response.success, response.message = False, 'the simulation is running; pause it first (~/run: data false)'
            return response
        self._advance(self._command[1] if self._command is not None else 0.0)
        response.success, response.message = True, f'at {self._episode.stamp / 1e9:.1f} s'
        return response

    def _run(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = not request.data
        self._waiting_since = time.monotonic()
        response.success, response.message = True, 'running' if request.data else 'paused'
        self._go_on()
        return response

    # Parameters

    def _wanted_scenario(self, changed: dict[str, Any]) -> Scenario:
        def value(name: str) -> Any:
            return changed[name] if name in changed else self._value(name)

        row = load_scenario(value('scenario'), value('row'))
        speeds = [wanted if wanted >= 0 else own for wanted, own in
                  zip((value('traffic.speed_min'), value('traffic.speed_max')), row.traffic.speed, strict=True)]
        changes: dict[str, Any] = {'traffic.speed': speeds}
        changes.update({name: value(name) for name in ('traffic.spawn_rate', 'traffic.platoon', 'traffic.spawned')
                        if value(name) >= 0})
        return load_scenario(value('scenario'), value('row'), changes)

    def _validate(self, parameters: list[Parameter]) -> SetParametersResult:
        problem = problem_with(PARAMETERS, parameters)
        if not problem:
            try:
                self._wanted_scenario({p.name: p.value for p in parameters})
            except SettingsError as error:
                problem = str(error)
        return SetParametersResult(successful=not problem, reason=problem)

    def _apply(self, parameters: list[Parameter]) -> None:
        for parameter in parameters:
            if parameter.name == 'seed':
                self._next_seed = parameter.value
            elif parameter.name == 'command_timeout':
                self._guard.stale_after = parameter.value
            elif parameter.name == 'speed_factor':
                self._set_pace()

    def _set_pace(self) -> None:
        if self._pace is not None:
            self.destroy_timer(self._pace)
            self._pace = None
        self._due = True
        factor = self._value('speed_factor')
        if factor > 0.0:
            self._pace = self.create_timer(STEP_SECONDS / factor, self._tick, clock=self._steady)

    # Messages

    def _stamp(self) -> Time:
        return Time(sec=self._episode.stamp // 1_000_000_000, nanosec=self._episode.stamp % 1_000_000_000)

    def _publish_state(self) -> None:
        episode = self._episode
        self._published = time.monotonic()
        names = episode.names
        self._clock_out.publish(cdr.clock(episode.stamp))
        self._odometry_out.publish(cdr.odometry(episode.stamp, FRAME, BASE_FRAME, episode.ego))
        self._vehicles_out.publish(cdr.vehicles(episode.stamp, FRAME, names, episode.others))
        if self._markers_out.get_subscription_count():
            self._markers_out.publish(markers.vehicle_markers(
                self._stamp(), FRAME, episode.scenario, episode.ego, names, episode.others, self._shown - set(names)))
        self._shown = set(names)

    def _publish_episode(self, result: EpisodeResult) -> None:
        values = {'scenario': self._episode.scenario.name, 'row': self._episode.scenario.row, 'seed': result.seed,
                  'outcome': result.outcome, 'steps': result.steps, 'return': repr(result.episode_return),
                  'hit': result.hit, 'start': result.start, 'end': result.end}
        level = DiagnosticStatus.OK if result.outcome == 'success' else DiagnosticStatus.WARN
        self._publish_status(self._episode_out, 'sim: episode', level, result.outcome, values)

    def _report(self) -> None:
        level, message = DiagnosticStatus.OK, 'paused' if self._paused else 'running'
        if self._failsafe:
            level, message = DiagnosticStatus.ERROR, 'no command comes: fail-safe'
        values = {**self.outcomes, **self._guard.status(), 'seed': self._episode.seed}
        self._publish_status(self._diagnostics_out, 'sim: simulation', level, message, values)
        if self._markers_out.get_subscription_count():
            self._markers_out.publish(markers.road_markers(self._stamp(), FRAME, self._episode.scenario))

    def _publish_status(self, publisher: Any, name: str, level: bytes, message: str, values: dict[str, Any]) -> None:
        status = DiagnosticStatus(name=name, hardware_id='simulation', level=level, message=message)
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._stamp()
        publisher.publish(array)


def main(args: list[str] | None = None) -> int:
    """Run the simulator until its episodes are over or it is told to stop."""
    return run('sim', Simulator, args)


if __name__ == '__main__':
    sys.exit(main())
