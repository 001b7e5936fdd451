"""Messages to plain numbers and back. Pure: it touches attributes, never rclpy, and judges nothing (safety.py does)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_node import cdr
from wcpg_ros.policy import Risk

NANOSECONDS = 1_000_000_000
RISK_FIELDS = ('stamp', 'alpha', 'mean', 'std', 'cvar')


@dataclass(frozen=True)
class Reading:
    """What a state message said: poses as (x, y, z, qx, qy, qz, qw), twists as (vx, vy, vz, wx, wy, wz), a row each."""

    stamp: int             # ns
    frame: str
    names: list[str]
    poses: np.ndarray
    twists: np.ndarray

    def states(self) -> np.ndarray:
        """x, y, heading, speed, a row each."""
        rows = np.empty((len(self.poses), 4))
        rows[:, 0], rows[:, 1] = self.poses[:, 0], self.poses[:, 1]
        rows[:, 2] = [heading(*pose[3:]) for pose in self.poses.tolist()]
        rows[:, 3] = self.twists[:, 0]
        return rows


def heading(x: float, y: float, z: float, w: float) -> float:
    """The heading (rad) of a unit quaternion; a flat one gives its own angle to the last bit but one."""
    if x == 0.0 and y == 0.0:
        return 2.0 * math.atan2(z, w)
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def stamp_nanoseconds(stamp: Any) -> int:
    """A builtin_interfaces/Time as nanoseconds."""
    return stamp.sec * NANOSECONDS + stamp.nanosec


def read_odometry(message: Any) -> Reading:
    """Ego, from a nav_msgs/Odometry."""
    pose, twist = message.pose.pose, message.twist.twist
    return Reading(stamp_nanoseconds(message.header.stamp), message.header.frame_id, ['ego'],
                   np.array([_pose(pose.position, pose.orientation)]), np.array([_twist(twist)]))


def read_vehicles(message: Any) -> Reading:
    """The others, from a sensor_msgs/MultiDOFJointState."""
    return Reading(stamp_nanoseconds(message.header.stamp), message.header.frame_id, list(message.joint_names),
                   np.array([_pose(t.translation, t.rotation) for t in message.transforms]).reshape(-1, 7),
                   np.array([_twist(t) for t in message.twist]).reshape(-1, 6))


def _pose(position: Any, orientation: Any) -> tuple[float, ...]:
    return (position.x, position.y, position.z, orientation.x, orientation.y, orientation.z, orientation.w)


def _twist(twist: Any) -> tuple[float, ...]:
    return (twist.linear.x, twist.linear.y, twist.linear.z, twist.angular.x, twist.angular.y, twist.angular.z)


def in_scene(states: np.ndarray, pose: tuple[float, float, float]) -> np.ndarray:
    """States in the map as states in the scene, whose origin lies at `pose` (x, y, yaw) in the map."""
    x, y, yaw = pose
    if (x, y, yaw) == (0.0, 0.0, 0.0):
        return states     # to the last bit
    turned = states.copy()
    cos, sin = math.cos(yaw), math.sin(yaw)
    dx, dy = states[:, 0] - x, states[:, 1] - y
    turned[:, 0], turned[:, 1] = dx * cos + dy * sin, dy * cos - dx * sin
    turned[:, 2] -= yaw
    return turned


def risk_message(stamp: int, alpha: float, risk: Risk) -> bytes:
    """What the critic thinks of the decision at `stamp` (ns): a labelled std_msgs/Float64MultiArray, in CDR."""
    return cdr.numbers(RISK_FIELDS, [stamp / NANOSECONDS, alpha, risk.mean, risk.std, risk.cvar])
