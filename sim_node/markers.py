"""The scene for RViz and Foxglove, a visualization_msgs/MarkerArray in CDR: boxes by the vehicles' ids, road, route."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from sim_node.cdr import Writer
from sim_node.geometry import Geometry, build_geometry
from sim_node.poses import ORIGIN, Pose
from sim_node.roads import locate
from sim_node.scenario import Road, Scenario

Colour = tuple[float, float, float, float]     # red, green, blue, opacity

_EGO: Colour = (0.0, 0.45, 0.70, 1.0)
_OTHER: Colour = (0.85, 0.86, 0.88, 1.0)
_ASPHALT: Colour = (0.43, 0.45, 0.49, 1.0)
_ROUTE: Colour = (0.34, 0.71, 0.91, 1.0)
_NONE: Colour = (0.0, 0.0, 0.0, 0.0)
_HEIGHT = 1.5     # m

EGO_NAMESPACE, VEHICLES_NAMESPACE = 'ego', 'vehicles'
ARROW, CUBE, LINE_STRIP = 0, 1, 4     # of visualization_msgs/Marker
ADD, DELETE = 0, 2

_EMPTY_STRING = struct.pack('<I4x', 1)     # with its closing zero, up to the next aligned place
_FOREVER = bytes(8)                        # lifetime
_NOT_LOCKED = bytes(4)
# What follows the points: no colours, no texture (resource; stamp, frame, format, data), no coordinates, no text, no
# mesh (resource; file name, data), no materials.
_REST = (bytes(4) + _EMPTY_STRING + bytes(8) + 2 * _EMPTY_STRING + bytes(4) + bytes(4) + 3 * _EMPTY_STRING + bytes(4)
         + bytes(1))


def vehicle_markers(stamp: int, frame: str, scenario: Scenario, ego: np.ndarray, names: list[str], others: np.ndarray,
                    gone: Iterable[str]) -> bytes:
    """A box for everybody present, and the removal of those who have gone."""
    removed = sorted(gone)
    writer = Writer()
    writer.uint32(1 + len(names) + len(removed))
    _box(writer, stamp, frame, scenario, EGO_NAMESPACE, 0, ego.tolist(), _EGO)
    for name, state in zip(names, others.tolist(), strict=True):
        _box(writer, stamp, frame, scenario, VEHICLES_NAMESPACE, marker_id(name), state, _OTHER)
    for name in removed:
        _marker(writer, stamp, frame, VEHICLES_NAMESPACE, marker_id(name), ARROW, DELETE, (0, 0, 0, 0, 0, 0, 1),
                (0, 0, 0), _NONE)
    return writer.finish()


def road_markers(stamp: int, frame: str, scenario: Scenario, scene_pose: Pose = ORIGIN) -> bytes:
    """The lanes and ego's route."""
    lines = _lines(build_geometry(scenario), scenario.ego.goal, scenario.roads)
    x, y, yaw = scene_pose
    turn = math.sin(yaw / 2), math.cos(yaw / 2)
    writer = Writer()
    writer.uint32(len(lines))
    for number, (namespace, width, colour, points) in enumerate(lines):
        _marker(writer, stamp, frame, namespace, number, LINE_STRIP, ADD, (x, y, 0, 0, 0, *turn), (width, 0, 0), colour,
                points)
    return writer.finish()


def _lines(geometry: Geometry, goal: float, roads: tuple[Road, ...]) -> list[tuple[str, float, Colour, np.ndarray]]:
    """Namespace, width, colour and points of each line."""
    # The route lies a little above the road, so that it is seen.
    lines = [('route', 0.3, _ROUTE, _points(geometry, geometry.ego_first, geometry.ego_last, goal, 0.0, 0.05))]
    for road, (first, last, length) in zip(roads, geometry.roads, strict=True):
        lines += [('road', road.lane_width, _ASPHALT, _points(geometry, first, last, length, offset, 0.0))
                  for offset in road.lanes]
    return lines


def _points(geometry: Geometry, first: int, last: int, end: float, offset: float, z: float) -> np.ndarray:
    return np.array([(*locate(geometry.segments, first, last, s, offset)[:2], z)
                     for s in np.linspace(0.0, end, max(round(end), 2))])


def marker_id(name: str) -> int:
    """The number of a vehicle's marker: the one in its name."""
    digits = re.search(r'\d+$', name)
    return int(digits[0]) if digits else 0


def _box(writer: Writer, stamp: int, frame: str, scenario: Scenario, namespace: str, number: int, state: list[float],
         colour: Colour) -> None:
    x, y, heading, _ = state
    pose = (x, y, _HEIGHT / 2, 0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2))
    _marker(writer, stamp, frame, namespace, number, CUBE, ADD, pose,
            (scenario.vehicle.length, scenario.vehicle.width, _HEIGHT), colour)


def _marker(writer: Writer, stamp: int, frame: str, namespace: str, number: int, kind: int, action: int,
            pose: Sequence[float], scale: Sequence[float], colour: Colour, points: np.ndarray | None = None) -> None:
    # In as few pieces as alignment allows: most of a recording is markers.
    seconds, nanoseconds = divmod(stamp, 1_000_000_000)
    writer.packed(struct.pack('<iI', seconds, nanoseconds) + _names(frame, namespace)
                  + struct.pack('<3i', number, kind, action), 4)
    writer.packed(struct.pack('<10d', *pose, *scale), 8)
    count = 0 if points is None else len(points)
    head = struct.pack('<4f', *colour) + _FOREVER + _NOT_LOCKED + struct.pack('<I', count)
    if points is None:
        writer.packed(head + _REST, 4)
    else:
        writer.packed(head, 4)
        writer.float64s(points)
        writer.packed(_REST, 4)


@cache
def _names(frame: str, namespace: str) -> bytes:
    """Two strings, up to the next aligned place."""
    texts = [text.encode() + b'\x00' for text in (frame, namespace)]
    return b''.join(struct.pack('<I', len(text)) + text + bytes(-len(text) % 4) for text in texts)
