"""The nodes under test, and a node of the test's own that listens, speaks and calls services over real DDS."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import AccelStamped, Transform, Twist
from nav_msgs.msg import Odometry
from random_models import random_model
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import MultiDOFJointState
from std_srvs.srv import SetBool, Trigger

from sim_node.episode_result import EpisodeResult
from sim_node.qos import KEEP_ALL, LATCHED
from sim_node.running import EventsExecutor
from wcpg_ros.domain import Ros, Running, surroundings

COMMAND, ODOMETRY, VEHICLES, EPISODE = '/ego/acceleration_command', '/ego/odometry', '/vehicles', '/sim/episode'
WAIT = 30.0     # s: far more than anything takes on an idle machine
# In lock-step the nodes outrun a listener in Python, whom they do not wait for: it must be able to keep a whole test.
EVERYTHING = QoSProfile(depth=100_000, reliability=ReliabilityPolicy.RELIABLE)


class Probe:
    """A node in the test's domain."""

    def __init__(self, ros: Ros) -> None:
        self._context = rclpy.Context()
        with surroundings(ros.environment):
            rclpy.init(context=self._context, domain_id=ros.domain)
            self.node = rclpy.create_node('probe', context=self._context)
        self._executor = EventsExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def listen(self, kind: type, topic: str, qos: Any = EVERYTHING) -> list[Any]:
        """Everything that comes on a topic from now on."""
        heard: list[Any] = []
        self.node.create_subscription(kind, topic, heard.append, qos)
        return heard

    def results(self) -> list[EpisodeResult]:
        """How episodes end, from the first on."""
        heard: list[EpisodeResult] = []
        self.node.create_subscription(DiagnosticArray, EPISODE, lambda message: heard.append(
            EpisodeResult.from_texts(texts(message))), LATCHED)
        return heard

    def speak(self, kind: type, topic: str) -> Any:
        """A publisher that somebody listens to already."""
        publisher = self.node.create_publisher(kind, topic, KEEP_ALL)
        self.until(publisher.get_subscription_count, f'somebody listens to {topic}')
        return publisher

    def insist(self, say: Callable[[], Any], condition: Callable[[], Any], what: str) -> Any:
        """Say something every second, as the simulator does, until a condition holds; return what it gives.

        Who is spoken to may hear before it knows that the test listens: then nobody hears its first answer.
        """
        said = -1.0

        def said_and_reached() -> Any:
            nonlocal said
            if time.monotonic() > said + 1.0:
                say()
                said = time.monotonic()
            return condition()
        return self.until(said_and_reached, what)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = WAIT) -> Any:
        """Spin until a condition holds; return what it gives."""
        end = time.monotonic() + seconds
        while not (reached := condition()):
            assert time.monotonic() < end, f'not within {seconds:g} s: {what}'
            self._executor.spin_once(timeout_sec=0.02)
        return reached

    def spin(self, seconds: float) -> None:
        """Listen for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.02)

    def call(self, kind: Any, name: str, request: Any) -> Any:
        """A service's answer."""
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f'service {name}')
        future = client.call_async(request)
        self.until(future.done, f'an answer of {name}')
        return future.result()

    def trigger(self, name: str) -> Any:
        return self.call(Trigger, name, Trigger.Request())

    def run(self, go: bool) -> Any:
        return self.call(SetBool, '/sim/run', SetBool.Request(data=go))

    def set(self, node: str, name: str, value: Any) -> str:
        """Set a parameter; return why it was refused, or ''."""
        message: ParameterMessage = Parameter(name, value=value).to_parameter_msg()
        [result] = self.call(SetParameters, f'/{node}/set_parameters',
                             SetParameters.Request(parameters=[message])).results
        return '' if result.successful else result.reason or 'refused'

    def get(self, node: str, name: str) -> Any:
        """A parameter's value."""
        [value] = self.call(GetParameters, f'/{node}/get_parameters', GetParameters.Request(names=[name])).values
        return Parameter.from_parameter_msg(ParameterMessage(name=name, value=value)).value

    def health(self, node: str, condition: Callable[[dict[str, str]], Any] = bool) -> dict[str, str]:
        """The first diagnostics of a node from now on that fulfil a condition, its message as 'says'."""
        heard: list[dict[str, str]] = []

        def take(message: DiagnosticArray) -> None:
            status = message.status[0]
            if status.name.startswith(f'{node}:'):
                heard.append({**texts(message), 'says': status.message, 'level': str(status.level[0])})

        subscription = self.node.create_subscription(DiagnosticArray, '/diagnostics', take, 10)
        self.until(lambda: any(condition(values) for values in heard), f'diagnostics of {node}; {heard}')
        self.node.destroy_subscription(subscription)
        return next(values for values in heard if condition(values))


class Nodes:
    """Starts the two nodes under test."""

    def __init__(self, ros: Ros, folder: Path) -> None:
        self._ros = ros
        self._folder = folder

    def sim(self, *remappings: str, **parameters: Any) -> Running:
        """A simulator in lock-step, as fast as it goes, unless told otherwise."""
        wanted = {'lockstep': True, 'speed_factor': 0.0, 'command_timeout': WAIT, **parameters}
        return self._start('sim_node', remappings, wanted)

    def wcpg(self, *remappings: str, **parameters: Any) -> Running:
        """A policy with random weights, unless told otherwise."""
        wanted = {'stale_after': WAIT, **parameters}
        if 'model' not in wanted:
            wanted['model'] = self.model()
        return self._start('wcpg_ros', remappings, wanted)

    def model(self, seed: int = 0, **changes: Any) -> Path:
        """A model file."""
        path = self._folder / f'model_{seed}_{"_".join(map(str, changes.values()))}.safetensors'
        random_model(seed, **changes).save(path)
        return path

    def _start(self, module: str, remappings: tuple[str, ...], parameters: dict[str, Any]) -> Running:
        options = [part for name, value in parameters.items() for part in ('-p', f'{name.replace("__", ".")}:={value}')]
        options += [part for remapping in remappings for part in ('-r', remapping)]
        return self._ros.start_python('-m', module, '--ros-args', *options)


def texts(message: DiagnosticArray) -> dict[str, str]:
    return {pair.key: pair.value for pair in message.status[0].values}


def nanoseconds(message: Any) -> int:
    stamp = message.clock if isinstance(message, Clock) else message.header.stamp
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def odometry(stamp: int, x: float = 1.75, y: float = -40.0, speed: float = 8.0, heading: float = np.pi / 2) -> Odometry:
    """Ego on its way to the left turn."""
    message = Odometry(child_frame_id='base_link')
    message.header.frame_id = 'map'
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = np.sin(heading / 2), np.cos(heading / 2)
    message.twist.twist.linear.x = speed
    return message


def vehicles(stamp: int, count: int = 2) -> MultiDOFJointState:
    """Oncoming traffic."""
    message = MultiDOFJointState(joint_names=[f'vehicle_{i}' for i in range(count)])
    message.header = odometry(stamp).header
    for i in range(count):
        transform, twist = Transform(), Twist()
        transform.translation.x, transform.translation.y = -1.75, 30.0 + 20.0 * i
        transform.rotation.z, transform.rotation.w = np.sin(-np.pi / 4), np.cos(-np.pi / 4)
        twist.linear.x = 12.0
        message.transforms.append(transform)
        message.twist.append(twist)
    return message


def command(stamp: int, acceleration: float, frame: str = 'base_link') -> AccelStamped:
    """A command that answers the state of a stamp."""
    message = AccelStamped()
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    message.accel.linear.x = acceleration
    return message
