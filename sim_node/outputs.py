"""All that the simulator node publishes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import MultiDOFJointState
from visualization_msgs.msg import MarkerArray

from sim_node import cdr, markers
from sim_node.episode import Episode
from sim_node.episode_result import HARDWARE, EpisodeResult
from sim_node.node_settings import BASE_FRAME, FRAME
from sim_node.poses import Pose, on_map
from sim_node.qos import DIAGNOSTICS, KEEP_ALL, LATCHED
from sim_node.recorders import RecorderWatch, wait_until_received

try:
    from tf2_msgs.msg import TFMessage
except ImportError:     # there is no wheel of it: only a ROS 2 distribution has /tf
    TFMessage = None

MOST_UNCONFIRMED = KEEP_ALL.depth * 4 // 5     # states; the road is shown besides, once an episode and every second


class Outputs:
    """The publishers, and what each of them says of an episode."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = node.create_publisher(Clock, '/clock', KEEP_ALL)
        self._odometry = node.create_publisher(Odometry, 'ego/odometry', KEEP_ALL)
        self._vehicles = node.create_publisher(MultiDOFJointState, 'vehicles', KEEP_ALL)
        self._markers = node.create_publisher(MarkerArray, 'vehicles/markers', KEEP_ALL)
        self._results = node.create_publisher(DiagnosticArray, '~/episode', LATCHED)
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', DIAGNOSTICS)
        self._tf = None if TFMessage is None else node.create_publisher(TFMessage, '/tf', KEEP_ALL)
        self._recorded = (self._results, self._clock, self._odometry, self._vehicles, self._markers)
        self._unconfirmed = 0     # states since everybody had them all
        self._shown: set[str] = set()

    def state(self, episode: Episode, scene_pose: Pose) -> None:
        """Where everybody is now, in the map in which the scene lies at a pose."""
        self._unconfirmed += 1
        names, ego, others = episode.names, on_map(episode.ego[None], scene_pose)[0], on_map(episode.others, scene_pose)
        self._clock.publish(cdr.clock(episode.stamp))
        self._odometry.publish(cdr.odometry(episode.stamp, FRAME, BASE_FRAME, ego))
        self._vehicles.publish(cdr.vehicles(episode.stamp, FRAME, names, others))
        if self._markers.get_subscription_count():
            self._markers.publish(markers.vehicle_markers(
                episode.stamp, FRAME, episode.scenario, ego, names, others, self._shown - set(names)))
            self._shown = set(names)
        if self._tf is not None and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(transforms=[_transform(episode.stamp, ego)]))

    def road(self, episode: Episode, scene_pose: Pose) -> None:
        """The lanes and ego's route, for those who look on."""
        if self._markers.get_subscription_count():
            self._markers.publish(markers.road_markers(episode.stamp, FRAME, episode.scenario, scene_pose))

    def result(self, result: EpisodeResult) -> None:
        """How an episode ended."""
        self._results.publish(result.message())

    def health(self, episode: Episode, level: bytes, message: str, values: dict[str, Any]) -> None:
        """How the simulation itself is doing."""
        stamp = max(episode.stamp, 0)     # none has begun yet
        self._diagnostics.publish(cdr.status(stamp, 'sim: simulation', HARDWARE, level[0], message, values))

    def recorder(self, topic: str) -> RecorderWatch:
        """A look-out for who listens to all of this and to a topic of somebody else's."""
        return RecorderWatch(self._node, [*(publisher.topic for publisher in self._recorded),
                                          self._node.resolve_topic_name(topic)])

    def keep_pace(self, seconds: float) -> bool:
        """Wait for a recorder before its messages are more than the publishers keep; gives whether it has them."""
        return self._unconfirmed < MOST_UNCONFIRMED or self.wait_until_received(seconds)

    def wait_until_received(self, seconds: float) -> bool:
        """Give everybody reachable the time to get all messages, this long in all; gives whether they have."""
        self._unconfirmed = 0
        return wait_until_received(self._recorded, seconds)


def _time(nanoseconds: int) -> Time:
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def _transform(stamp: int, ego: np.ndarray) -> TransformStamped:
    x, y, heading, _ = map(float, ego)
    transform = TransformStamped(child_frame_id=BASE_FRAME)
    transform.header.stamp, transform.header.frame_id = _time(stamp), FRAME
    transform.transform.translation.x, transform.transform.translation.y = x, y
    transform.transform.rotation.z, transform.transform.rotation.w = math.sin(heading / 2), math.cos(heading / 2)
    return transform
