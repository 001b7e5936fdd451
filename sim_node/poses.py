"""Where the scene lies in the user's map."""

from __future__ import annotations

import math

import numpy as np

Pose = tuple[float, float, float]     # x, y (m) and yaw (rad) of the scene's origin in the map
ORIGIN: Pose = (0.0, 0.0, 0.0)


def in_scene(states: np.ndarray, pose: Pose) -> np.ndarray:
    """States (x, y, heading, …) in the map as states in the scene."""
    x, y, yaw = pose
    if tuple(pose) == ORIGIN:
        return states     # to the last bit
    turned = states.copy()
    cos, sin = math.cos(yaw), math.sin(yaw)
    dx, dy = states[:, 0] - x, states[:, 1] - y
    turned[:, 0], turned[:, 1] = dx * cos + dy * sin, dy * cos - dx * sin
    turned[:, 2] -= yaw
    return turned


def on_map(states: np.ndarray, pose: Pose) -> np.ndarray:
    """States in the scene as states in the map."""
    x, y, yaw = pose
    if tuple(pose) == ORIGIN:
        return states
    turned = states.copy()
    cos, sin = math.cos(yaw), math.sin(yaw)
    turned[:, 0] = x + states[:, 0] * cos - states[:, 1] * sin
    turned[:, 1] = y + states[:, 0] * sin + states[:, 1] * cos
    turned[:, 2] += yaw
    return turned
