"""The policy as a ROS node, `/wcpg`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from sensor_msgs.msg import MultiDOFJointState
from std_msgs.msg import Float64MultiArray

from sim_node import cdr
from sim_node.cdr import CdrError
from sim_node.guards import UNREADABLE, Problem, SoleSource
from sim_node.parameters import Row, declare, follow
from sim_node.poses import in_scene
from sim_node.qos import DIAGNOSTICS, KEEP_ALL, NEWEST
from sim_node.recorders import RecorderWatch, wait_until_received
from sim_node.running import run
from wcpg_ros.conversions import Reading, read_odometry, read_vehicles, risk_message
from wcpg_ros.driver import load_driver
from wcpg_ros.model_file import ModelError
from wcpg_ros.safety import Safety, SafetySettings, check_odometry, check_vehicles

PARAMETERS = (
    Row('alpha', 0.1, 'how much risk to take: 0.01 cautious, 1 neutral; counts from the next decision', '', 0.01, 1.0),
    Row('model', '', 'the trained policy, a .safetensors file; may be changed while driving'),
    Row('scenario', '', 'the scene to drive: a model trained for another is refused; empty: whatever the model is for',
        read_only=True),
    Row('stale_after', 0.5, 'age of the last valid state at which to brake', 's', 0.05, 3600.0),
    Row('acceleration_limit', 4.0, 'largest acceleration and braking commanded', 'm/s²', 0.1, 4.0),
    Row('jerk_limit', 0.0, 'largest change of the command per second; 0: none', 'm/s³', 0.0, 1000.0),
    Row('failsafe_deceleration', 4.0, 'how to brake when the state is stale or the policy fails', 'm/s²', 0.0, 4.0),
    Row('scene_pose', (0.0, 0.0, 0.0), "where the scene's origin lies in the map: x, y, yaw", 'm, m, rad'),
    Row('map_frame', 'map', 'frame that states must come in', read_only=True),
    Row('base_frame', 'base_link', "ego's frame, in which commands are given", read_only=True),
    Row('await_recorder', False, 'drive only when a recorder listens to commands and risk', read_only=True),
)

EGO, VEHICLES = 'ego/odometry', 'vehicles'
WATCH_SECONDS = 0.05        # between two looks at the age of the state
LAST_WORD_SECONDS = 0.5
RECORDED_SECONDS = 4.0      # for a recorder to get the last word: Fast DDS repeats after 3 s what was lost


class PolicyNode(Node):
    """Drives ego's accelerator.

    Takes `ego/odometry` and `vehicles`; publishes `ego/acceleration_command` for every state it believes, a new
    decision every 0.4 s of the episode's time and the same command in between; publishes `~/risk` at each decision
    and `/diagnostics` every second. Brakes when states are stale, when the policy fails, and when it is told to stop.
    """

    finished = False     # there is always one more state to answer

    def __init__(self, **options: Any) -> None:
        super().__init__('wcpg', **options)
        self._values = declare(self, PARAMETERS)
        self._driver = load_driver(self._values['model'], self._values['scenario'])
        self._driver.check_alpha(self._values['alpha'])
        self._next_driver = self._driver     # loaded when it was validated
        self._readings: dict[str, Reading] = {}
        self._last_stamp: int | None = None
        self._safety = Safety((EGO, VEHICLES), self._safety_settings())
        self._sources = [SoleSource(name) for name in (EGO, VEHICLES)]
        self._command_out = self.create_publisher(AccelStamped, 'ego/acceleration_command', KEEP_ALL)
        self._risk_out = self.create_publisher(Float64MultiArray, '~/risk', KEEP_ALL)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', DIAGNOSTICS)
        self._recorder = RecorderWatch(self, [self._command_out.topic, self._risk_out.topic])
        self._awaits_recorder: bool = self._values['await_recorder']
        self.create_subscription(Odometry, EGO, self._take_odometry, NEWEST, raw=True)
        self.create_subscription(MultiDOFJointState, VEHICLES, self._take_vehicles, NEWEST, raw=True)
        follow(self, PARAMETERS, self._values, self._problem_with, self._apply)
        # On the steady clock: a timer on simulated time never fires when the simulation has died.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(WATCH_SECONDS, self._watch, clock=steady)
        self.create_timer(1.0, self._report, clock=steady)

    def begin(self) -> None:
        """Say what drives."""
        self.get_logger().info(f'driving {self._driver.scenario} with {self._values["model"]} at alpha '
                               f'{self._values["alpha"]:g}')

    # States in, commands out

    def _take_odometry(self, data: bytes) -> None:
        def check(reading: Reading) -> Problem | None:
            pose, twist = reading.poses[0], reading.twists[0]
            return check_odometry(reading.frame, reading.child_frame, pose[:3], pose[3:], twist[:3], twist[3:],
                                  map_frame=self._values['map_frame'], body_frame=self._values['base_frame'])

        self._take(EGO, data, read_odometry, check)

    def _take_vehicles(self, data: bytes) -> None:
        def check(reading: Reading) -> Problem | None:
            poses, twists = reading.poses, reading.twists
            return check_vehicles(reading.frame, reading.names, poses[:, :3], poses[:, 3:], twists[:, :3],
                                  twists[:, 3:], map_frame=self._values['map_frame'])

        self._take(VEHICLES, data, read_vehicles, check)

    def _take(self, name: str, data: bytes, read: Callable[[bytes], Reading],
              check: Callable[[Reading], Problem | None]) -> None:
        try:
            reading = read(data)
        except CdrError as error:
            self._safety.inputs[name].offer(0, Problem(UNREADABLE, str(error)))
        else:
            self._offer(name, reading, check(reading))
        self._tell()

    def _offer(self, name: str, reading: Reading, problem: Problem | None) -> None:
        if self._safety.inputs[name].offer(reading.stamp, problem):
            self._readings[name] = reading
            if len(self._readings) == 2 and self._readings[EGO].stamp == self._readings[VEHICLES].stamp:
                self._drive(reading.stamp)

    def _drive(self, stamp: int) -> None:
        """Answer a state of which both parts have come."""
        self._awaits_recorder = self._awaits_recorder and not self._recorder.look()
        if self._awaits_recorder:
            return
        seconds = 0.0 if self._last_stamp is None else (stamp - self._last_stamp) / 1e9
        self._last_stamp = stamp
        decisions = self._driver.decisions
        command = self._safety.command(lambda: self._propose(stamp), seconds)
        if command is not None:
            self._publish_command(stamp, command)
        if self._driver.decisions > decisions and self._risk_out.get_subscription_count():
            self._publish_risk(stamp)

    def _propose(self, stamp: int) -> float:
        ego, others = (in_scene(self._readings[name].states(), self._values['scene_pose']) for name in (EGO, VEHICLES))
        return self._driver.act(stamp, ego[0], others, self._values['alpha'])

    def _watch(self) -> None:
        """Brake for as long as states are stale; the newest one's stamp is all there is to answer."""
        if self._last_stamp is not None and any(guard.is_stale() for guard in self._safety.inputs.values()):
            command = self._safety.command(lambda: math.nan, 0.0)
            if command is not None:
                self._publish_command(self._last_stamp, command)
        self._tell()

    def stop(self) -> None:
        """Leave the brakes on."""
        if self._last_stamp is not None:
            self._publish_command(self._last_stamp, self._safety.stop())
            wait_until_received((self._command_out, self._risk_out),
                                RECORDED_SECONDS if self._values['await_recorder'] else LAST_WORD_SECONDS)

    def _publish_command(self, stamp: int, acceleration: float) -> None:
        self._command_out.publish(cdr.acceleration(stamp, self._values['base_frame'], acceleration))

    def _publish_risk(self, stamp: int) -> None:
        self._risk_out.publish(risk_message(stamp, self._driver.alpha, self._driver.risk()))

    # Parameters

    def _safety_settings(self) -> SafetySettings:
        values = self._values
        return SafetySettings(values['stale_after'], values['acceleration_limit'], values['jerk_limit'] or None,
                              values['failsafe_deceleration'])

    def _problem_with(self, changed: dict[str, Any]) -> str:
        try:
            self._next_driver = (load_driver(changed['model'], self._values['scenario']) if 'model' in changed
                                 else self._driver)
            self._next_driver.check_alpha(changed.get('alpha', self._values['alpha']))
        except ModelError as error:
            return str(error)
        return ''

    def _apply(self, changed: dict[str, Any]) -> None:
        if 'model' in changed:
            self._next_driver.take_over(self._driver)
            self._driver = self._next_driver
            self.get_logger().info(f'driving {self._driver.scenario} with {changed["model"]}')
        self._safety.change(self._safety_settings())

    # Words

    def _tell(self) -> None:
        for line in self._safety.take_reports():
            self.get_logger().warning(line)

    def _report(self) -> None:
        for source in self._sources:
            if crowd := source.look(self.count_publishers(self.resolve_topic_name(source.name))):
                self.get_logger().warning(crowd)
        mode = self._safety.mode
        level = {Safety.DRIVING: DiagnosticStatus.OK, Safety.WAITING: DiagnosticStatus.WARN}.get(
            mode, DiagnosticStatus.ERROR)
        status = DiagnosticStatus(name='wcpg: policy', hardware_id='policy', level=level, message=mode)
        values = {'alpha': self._values['alpha'], 'model': self._values['model'], **self._safety.status()}
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics_out.publish(message)


def main(args: list[str] | None = None) -> int:
    """Run the policy until it is told to stop."""
    return run('wcpg', PolicyNode, args)
