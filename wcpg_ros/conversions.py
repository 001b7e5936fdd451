"""State messages to plain numbers, straight from their bytes: through objects this would be most of a node's work.

No ROS, and it judges nothing (safety.py does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim_node import cdr
from sim_node.cdr import Reader
from wcpg_ros.policy import Risk

NANOSECONDS = 1_000_000_000
RISK_FIELDS = ('stamp', 'alpha', 'mean', 'std', 'cvar')


@dataclass(frozen=True)
class Reading:
    """What a state message said: poses as (x, y, z, qx, qy, qz, qw), twists as (vx, vy, vz, wx, wy, wz), a row each."""

    stamp: int             # ns
    frame: str
    child_frame: str       # of ego, '' of the others
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


def read_odometry(data: bytes) -> Reading:
    """Ego, from a serialized nav_msgs/Odometry; a CdrError says why not."""
    reader = Reader(data)
    stamp, frame, child_frame = reader.stamp(), reader.string(), reader.string()
    [numbers] = reader.float64s(1, 7 + 36 + 6 + 36)     # pose and twist, a covariance after each
    return Reading(stamp, frame, child_frame, ['ego'], numbers[None, :7], numbers[None, 43:49])


def read_vehicles(data: bytes) -> Reading:
    """The others, from a serialized sensor_msgs/MultiDOFJointState; a CdrError says why not."""
    reader = Reader(data)
    stamp, frame = reader.stamp(), reader.string()
    names = [reader.string() for _ in range(reader.uint32())]
    poses, twists = reader.float64s(reader.uint32(), 7), reader.float64s(reader.uint32(), 6)
    reader.float64s(reader.uint32(), 6)     # wrenches, which nobody needs; but they must be there
    return Reading(stamp, frame, '', names, poses, twists)


def risk_message(stamp: int, alpha: float, risk: Risk) -> bytes:
    """What the critic thinks of the decision at `stamp` (ns): a labelled std_msgs/Float64MultiArray, in CDR."""
    return cdr.numbers(RISK_FIELDS, [stamp / NANOSECONDS, alpha, risk.mean, risk.std, risk.cvar])
