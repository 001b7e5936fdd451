"""The simulator as a ROS node, `/sim`."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import AccelStamped
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from sim_node.episode import Episode
from sim_node.episode_result import EpisodeResult
from sim_node.guards import InputGuard, SoleSource, check_command, check_not_ahead
from sim_node.node_settings import BASE_FRAME, COMMAND, PARAMETERS, wanted_scenario
from sim_node.outputs import Outputs
from sim_node.parameters import declare, follow
from sim_node.qos import NEWEST
from sim_node.running import run
from sim_node.scenario import STEP_SECONDS
from sim_node.settings import SettingsError

REMIND_SECONDS = 0.1     # between two copies of a state that stands still
LAST_WORDS_SECONDS = 4.0     # more than the 3 s after which Fast DDS repeats what was lost
FAREWELL_SECONDS = 1.0       # where the others are stopping too, or dead
PACE_SECONDS = 8.0       # for a recorder to catch up; a driver takes 10 s of silence in lock-step for the end
AWAIT_SECONDS = 0.05     # between two looks for a recorder


class Simulator(Node):
    """Drives one scene and shows it.

    Publishes `/clock`, `ego/odometry`, `vehicles`, `vehicles/markers`, `~/episode`, `/diagnostics` (and `/tf` where
    there is tf2_msgs); takes `ego/acceleration_command`; offers `~/reset`, `~/step`, `~/run`. In lock-step the state
    at t is followed by the next one only when the command stamped t has come.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('sim', **options)
        self._values = declare(self, PARAMETERS)
        self._episode = Episode(wanted_scenario(self._values))
        self._episode.warm_up()
        self._next_seed = self._values['seed']
        self._paused = False
        self._awaits_driver: bool = self._values['await_driver']
        self._due = True                                 # whether the next step's time has come
        self._command: tuple[int, float] | None = None   # the stamp it answers (ns), and m/s²
        self._failsafe = False
        self._published = self._driven = 0.0             # when last, s of the steady clock
        self.outcomes: Counter[str] = Counter()
        self._guard = InputGuard(COMMAND, self._values['command_timeout'])
        self._driver = SoleSource(COMMAND)
        self._outputs = Outputs(self)
        self.create_subscription(AccelStamped, COMMAND, self._take_command, NEWEST)
        self.create_service(Trigger, '~/reset', self._reset)
        self.create_service(Trigger, '~/step', self._step_once)
        self.create_service(SetBool, '~/run', self._run)
        follow(self, PARAMETERS, self._values, self._problem_with, self._apply)
        # Every timer runs on the steady clock: simulated time stands still exactly when it matters.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._pace: Any = None
        self._set_pace()
        self.create_timer(REMIND_SECONDS, self._remind, clock=self._steady)
        self.create_timer(1.0, self._report, clock=self._steady)
        self._begun = False

    def begin(self) -> None:
        """Show the first state, as soon as somebody records it where that is asked for."""
        if self._values['await_recorder']:
            self.get_logger().info('waiting for a recorder')
            self._recorder = self._outputs.recorder(COMMAND)
            self._awaiting = self.create_timer(AWAIT_SECONDS, self._look_for_recorder, clock=self._steady)
        else:
            self._begin_episode()
        waiting = '; time stands until a first command' if self._awaits_driver else ''
        self.get_logger().info(f'simulating {self._values["scenario"]}, row {self._values["row"]}, from seed '
                               f'{self._values["seed"]}{waiting}')

    @property
    def finished(self) -> bool:
        """Whether all the episodes asked for are over."""
        return 0 < self._values['episodes'] <= self.outcomes.total()

    def summary(self) -> str:
        """One line on all the episodes driven."""
        total = self.outcomes.total()
        counts = ', '.join(f'{count} {outcome}' for outcome, count in sorted(self.outcomes.items()))
        return f'{total} episode{"s" if total != 1 else ""}: {counts or "none ended"}'

    def stop(self) -> None:
        """Sum up, once everybody reachable has the last messages."""
        print(self.summary(), flush=True)
        self._outputs.wait_until_received(LAST_WORDS_SECONDS if self.finished else FAREWELL_SECONDS)

    # The course of an episode

    @property
    def _waits(self) -> bool:
        """Whether a step waits for the command that answers the state: in lock-step, and where nothing else paces."""
        return self._values['lockstep'] or self._values['speed_factor'] == 0.0

    @property
    def _answered(self) -> bool:
        """Whether the command that answers the state is there."""
        return self._command is not None and self._command[0] == self._episode.stamp

    @property
    def _stands(self) -> bool:
        """Whether nothing may move by itself."""
        return self._paused or self.finished or not self._begun or self._awaits_driver

    def _look_for_recorder(self) -> None:
        if self._recorder.look():
            self.destroy_timer(self._awaiting)
            if not self._begun:     # by a reset
                self._begin_episode()

    def _begin_episode(self) -> None:
        self._begun = True
        scenario = wanted_scenario(self._values)
        if scenario != self._episode.scenario:
            after, self._episode = self._episode.stamp, Episode(scenario)
            self._episode.begin(self._next_seed, after)
        else:
            self._episode.begin(self._next_seed)
        self._next_seed += 1
        self._command = None
        self._driven = time.monotonic()
        self._show()
        self._outputs.road(self._episode, self._values['scene_pose'])

    def _show(self) -> None:
        if self._waits and self._values['await_recorder']:
            self._keep_pace()
        self._published = time.monotonic()
        self._outputs.state(self._episode, self._values['scene_pose'])

    def _keep_pace(self) -> None:
        """Let a recorder catch up; the driver is not to blame for that silence."""
        began = time.monotonic()
        if not self._outputs.keep_pace(PACE_SECONDS):
            self.get_logger().warning('the recorder does not keep up: messages may be missing')
        self._driven += time.monotonic() - began

    def _advance(self, acceleration: float) -> None:
        self._episode.step(acceleration)
        self._show()
        if self._episode.result is not None:
            self._conclude(self._episode.result)

    def _conclude(self, result: EpisodeResult) -> None:
        self.outcomes[result.outcome] += 1
        self._outputs.result(result)
        seconds = result.steps * STEP_SECONDS
        self.get_logger().info(f'episode {self.outcomes.total()} (seed {result.seed}): {result.outcome} after '
                               f'{seconds:.1f} s, return {result.episode_return:.1f}'
                               + (f', hit {result.hit}' if result.hit else ''))
        if not self.finished:
            self._begin_episode()

    def _take_command(self, message: AccelStamped) -> None:
        stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        acceleration = message.accel.linear.x
        problem = (check_command(message.header.frame_id, acceleration, body_frame=BASE_FRAME)
                   or check_not_ahead(stamp, self._episode.stamp))
        accepted = self._guard.offer(stamp, problem)
        self._tell()
        if accepted and stamp >= self._episode.start:     # else it answers an episode that is over
            self._driven = time.monotonic()
            if self._awaits_driver:
                self.get_logger().info('the first command has come: time runs')
            self._failsafe = self._awaits_driver = False
            self._command = stamp, acceleration
            self._go_on()

    def _go_on(self) -> None:
        """Take the step that has been waited for, if its command is there and its time has come."""
        if self._waits and self._due and self._answered and not self._stands:
            self._due = self._values['speed_factor'] == 0.0
            self._advance(self._acceleration())

    def _tick(self) -> None:
        """Real time, or a multiple of it, has moved on by one step."""
        self._due = True
        if self._waits:
            self._go_on()
        elif not self._stands:
            if self._undriven:
                self._say_undriven('ego brakes by itself')
                self._advance(-self._values['failsafe_deceleration'])
            else:
                self._advance(self._acceleration())

    def _acceleration(self) -> float:
        """The newest command's; ego rolls until there is one."""
        return 0.0 if self._command is None else self._command[1]

    @property
    def _undriven(self) -> bool:
        """Whether no valid command has come for too long, of those that should have."""
        return time.monotonic() - self._driven > self._values['command_timeout']

    def _say_undriven(self, consequence: str) -> None:
        if not self._failsafe:
            self._failsafe = True
            self.get_logger().error(f'no command for {self._values["command_timeout"]:g} s: {consequence}')

    def _remind(self) -> None:
        """Show a state that stands still again, for those who joined late; give up on a driver who never answers."""
        self._guard.is_stale()     # so that a driver started anew is believed
        self._tell()
        if self.finished or not self._begun or not (self._stands or self._waits):
            return
        if self._undriven and not self._stands:
            self._say_undriven('the episode ends')
            self._conclude(self._episode.abandon())
        elif time.monotonic() - self._published > 0.9 * REMIND_SECONDS:
            self._show()

    # Services

    def _reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._begin_episode()
        response.success, response.message = True, f'episode of seed {self._episode.seed}'
        return response

    def _step_once(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if not self._begun:
            response.message = 'the simulation waits for a recorder; it can be begun with ~/reset'
        elif not self._paused:
            response.message = 'the simulation is running; pause it first (~/run: data false)'
        elif self._waits and not self._answered:
            response.message = f'no command answers the state at {self._episode.stamp / 1e9:.1f} s yet; try again'
        else:
            self._advance(self._acceleration())
            response.success, response.message = True, f'at {self._episode.stamp / 1e9:.1f} s'
        return response

    def _run(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = not request.data
        self._driven = time.monotonic()
        response.success, response.message = True, 'running' if request.data else 'paused'
        self._go_on()
        return response

    # Parameters

    def _problem_with(self, changed: dict[str, Any]) -> str:
        try:
            wanted_scenario({**self._values, **changed})
        except SettingsError as error:
            return str(error)
        return ''

    def _apply(self, changed: dict[str, Any]) -> None:
        if 'seed' in changed:
            self._next_seed = changed['seed']
        if 'command_timeout' in changed:
            self._guard.stale_after = changed['command_timeout']
        if 'speed_factor' in changed:
            self._set_pace()
            self._go_on()

    def _set_pace(self) -> None:
        if self._pace is not None:
            self.destroy_timer(self._pace)
            self._pace = None
        self._due = True
        factor = self._values['speed_factor']
        if factor > 0.0:
            self._pace = self.create_timer(STEP_SECONDS / factor, self._tick, clock=self._steady)

    # Words

    def _tell(self) -> None:
        for line in self._guard.take_reports():
            self.get_logger().warning(line)

    def _report(self) -> None:
        if crowd := self._driver.look(self.count_publishers(self.resolve_topic_name(COMMAND))):
            self.get_logger().warning(crowd)
        level, message = DiagnosticStatus.OK, 'paused' if self._paused else 'running'
        if self._awaits_driver:
            message = 'waiting for a first command'
        if not self._begun:
            message = 'waiting for a recorder'
        if self._failsafe:
            level, message = DiagnosticStatus.ERROR, 'no command comes: fail-safe'
        self._outputs.health(self._episode, level, message,
                             {**self.outcomes, **self._guard.status(), 'seed': self._episode.seed})
        if self._begun:
            self._outputs.road(self._episode, self._values['scene_pose'])


def main(args: list[str] | None = None) -> int:
    """Run the simulator until its episodes are over or it is told to stop."""
    return run('sim', Simulator, args)
