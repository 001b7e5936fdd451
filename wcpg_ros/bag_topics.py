"""The topics of a drive as bags hold them: names, types, and the definitions that go into a bag. No ROS installed."""

from __future__ import annotations

from functools import cache

from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from wcpg_ros.bag_writer import Topic, qos

CLOCK, EGO, VEHICLES, MARKERS = '/clock', '/ego/odometry', '/vehicles', '/vehicles/markers'
COMMAND, RISK, EPISODE = '/ego/acceleration_command', '/wcpg/risk', '/sim/episode'

TYPES = {
    CLOCK: 'rosgraph_msgs/msg/Clock',
    EGO: 'nav_msgs/msg/Odometry',
    VEHICLES: 'sensor_msgs/msg/MultiDOFJointState',
    MARKERS: 'visualization_msgs/msg/MarkerArray',
    COMMAND: 'geometry_msgs/msg/AccelStamped',
    RISK: 'std_msgs/msg/Float64MultiArray',
    EPISODE: 'diagnostic_msgs/msg/DiagnosticArray',
}

DEPTH = 1000     # of every publisher


def new_topic(name: str) -> Topic:
    """A topic as the nodes publish it, for a new bag."""
    store = _types()
    kind = TYPES[name]
    definition, _ = store.generate_msgdef(kind, ros_version=2)
    durability = 'transient_local' if name == EPISODE else 'volatile'
    return Topic(name, kind, definition, store.hash_rihs01(kind), [qos(durability=durability, depth=DEPTH)])


@cache
def _types() -> Typestore:
    return get_typestore(Stores.ROS2_JAZZY)
