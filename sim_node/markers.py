"""The scene for RViz and Foxglove: boxes by the vehicles' ids, the road, ego's route."""

from __future__ import annotations

import math
import re

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from sim_node.geometry import Geometry, build_geometry
from sim_node.roads import locate
from sim_node.scenario import Scenario

_EGO = ColorRGBA(r=0.0, g=0.45, b=0.70, a=1.0)
_OTHER = ColorRGBA(r=0.85, g=0.86, b=0.88, a=1.0)
_ASPHALT = ColorRGBA(r=0.43, g=0.45, b=0.49, a=1.0)
_ROUTE = ColorRGBA(r=0.34, g=0.71, b=0.91, a=1.0)
_HEIGHT = 1.5     # m


def vehicle_markers(stamp: Time, frame: str, scenario: Scenario, ego: np.ndarray, names: list[str], others: np.ndarray,
                    gone: set[str]) -> MarkerArray:
    """A box for everybody present, and the removal of those who have gone."""
    boxes = [_box(stamp, frame, scenario, 'ego', 0, ego, _EGO)]
    boxes += [_box(stamp, frame, scenario, 'vehicles', marker_id(name), state, _OTHER)
              for name, state in zip(names, others, strict=True)]
    for name in sorted(gone):
        marker = Marker(ns='vehicles', id=marker_id(name), action=Marker.DELETE)
        marker.header.frame_id, marker.header.stamp = frame, stamp
        boxes.append(marker)
    return MarkerArray(markers=boxes)


def road_markers(stamp: Time, frame: str, scenario: Scenario) -> MarkerArray:
    """The lanes and ego's route."""
    geometry = build_geometry(scenario)
    lines = [_line(stamp, frame, geometry, 'route', 0, (geometry.ego_first, geometry.ego_last), 0.0,
                   scenario.ego.goal, 0.0, 0.3, _ROUTE)]
    for road, (first, last, length) in zip(scenario.roads, geometry.roads, strict=True):
        lines += [_line(stamp, frame, geometry, 'road', len(lines) + index, (first, last), 0.0, length, offset,
                        road.lane_width, _ASPHALT) for index, offset in enumerate(road.lanes)]
    return MarkerArray(markers=lines)


def marker_id(name: str) -> int:
    """The number of a vehicle's marker: the one in its name."""
    digits = re.search(r'\d+$', name)
    return int(digits[0]) if digits else 0


def _box(stamp: Time, frame: str, scenario: Scenario, namespace: str, number: int, state: np.ndarray,
         colour: ColorRGBA) -> Marker:
    marker = Marker(ns=namespace, id=number, type=Marker.CUBE, action=Marker.ADD, color=colour)
    marker.header.frame_id, marker.header.stamp = frame, stamp
    x, y, heading, _ = map(float, state)
    marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = x, y, _HEIGHT / 2
    marker.pose.orientation.z, marker.pose.orientation.w = math.sin(heading / 2), math.cos(heading / 2)
    marker.scale.x, marker.scale.y, marker.scale.z = scenario.vehicle.length, scenario.vehicle.width, _HEIGHT
    return marker


def _line(stamp: Time, frame: str, geometry: Geometry, namespace: str, number: int, path: tuple[int, int],
          start: float, end: float, offset: float, width: float, colour: ColorRGBA) -> Marker:
    marker = Marker(ns=namespace, id=number, type=Marker.LINE_STRIP, action=Marker.ADD, color=colour)
    marker.header.frame_id, marker.header.stamp = frame, stamp
    marker.scale.x, marker.pose.orientation.w = width, 1.0
    for s in np.linspace(start, end, max(round(end - start), 2)):
        x, y, _ = locate(geometry.segments, *path, s, offset)
        marker.points.append(Point(x=float(x), y=float(y), z=0.0 if namespace == 'road' else 0.05))
    return marker
