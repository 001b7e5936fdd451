"""From a scene's description to the tables that the stepper, `observe()` and the rules read.

Where ego's route meets the others' lanes is worked out here from the shapes alone, so that a new scene needs no more
than its paths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from sim_node.observation import (
    EGO_ENTERS,
    EGO_JOINS,
    EGO_LEAVES,
    LANE_CONFLICT,
    LANE_ENTERS,
    LANE_FIRST,
    LANE_JOINED,
    LANE_JOINS,
    LANE_LAST,
    LANE_LEAVES,
    LANE_OFFSET,
    LANE_REACH,
)
from sim_node.roads import HEADING, LENGTH, START, locate, project, segment_rows
from sim_node.settings import check

if TYPE_CHECKING:
    from sim_node.scenario import Ego, Path2D, Road, Scenario, Vehicle

# Further columns of the table of lanes: the lanes to its left and right (-1 if none), where the road ends, and how far
# from a birth to the conflict zone.
LANE_LEFT, LANE_RIGHT, LANE_END, LANE_APPROACH = range(12, 16)
LANE_COLUMNS = 16

_NEVER = 1e9          # m: the end of a zone that ego never leaves because it stays in that lane
_SAMPLING = 0.5       # m between the poses at which ego's footprint is laid over the lanes
_SIDE_MARGIN = 0.25   # m added to a vehicle's half width in a lane


@dataclass(frozen=True)
class Geometry:
    """The tables of a scene. `segments[ego_first:ego_last + 1]` is ego's route."""

    segments: np.ndarray     # columns: see roads.py
    lanes: np.ndarray        # columns: see observation.py and above
    view: np.ndarray         # see observation.py
    roads: tuple[tuple[int, int, float], ...]    # each road's first and last row of segments, and its length
    ego_first: int
    ego_last: int
    stop_line: float         # m along the route, for ego's centre
    conflict_enter: float    # m along the route where ego's body first reaches a lane of others …
    conflict_leave: float    # … and where it has left the last (far beyond the goal if it stays in one)


def build_geometry(scenario: Scenario) -> Geometry:
    """The tables of a scenario."""
    return _build(scenario.name, scenario.ego, scenario.roads, scenario.vehicle, scenario.temper.joined,
                  scenario.layout.version)


@cache
def _build(name: str, ego: Ego, roads: tuple[Road, ...], vehicle: Vehicle, joined: float,
           layout_version: int) -> Geometry:
    rows = [_rows(ego.path)]
    ego_last = len(rows[0]) - 1
    lanes: list[np.ndarray] = []
    extents = []
    count = len(rows[0])
    for road in roads:
        rows.append(_rows(road.path))
        first, count = count, count + len(rows[-1])
        length = road.path.length
        extents.append((first, count - 1, length))
        base = len(lanes)
        order = np.argsort(road.lanes).tolist()
        for lane, offset in enumerate(road.lanes):
            row = np.zeros(LANE_COLUMNS)
            row[LANE_FIRST], row[LANE_LAST], row[LANE_OFFSET] = first, count - 1, offset
            row[LANE_REACH] = 0.75 * road.lane_width
            row[LANE_END] = length
            place = order.index(lane)
            row[LANE_LEFT] = base + order[place + 1] if place + 1 < len(order) else -1
            row[LANE_RIGHT] = base + order[place - 1] if place > 0 else -1
            lanes.append(row)
    segments, table = np.vstack(rows), np.array(lanes)
    for row in table:
        _find_conflict(segments, ego_last, vehicle, joined, row)
    meeting = table[table[:, LANE_CONFLICT] != 0.0]
    check(len(meeting) > 0, f'{name}.ego.path', "ego's route meets no lane of the others")
    table[:, LANE_APPROACH] = np.where(table[:, LANE_CONFLICT] != 0.0, table[:, LANE_ENTERS],
                                       meeting[:, LANE_ENTERS].min())
    check(meeting[:, LANE_ENTERS].min() > 0.0, f'{name}.roads', 'others must be born before the conflict zone')
    enter = float(meeting[:, EGO_ENTERS].min())
    check(enter > ego.stop_margin, f'{name}.ego.stop_margin',
          f'the stop line must lie on the route, whose conflict zone begins at {enter:g} m, got {ego.stop_margin:g}')
    crossed = float(np.max(meeting[meeting[:, LANE_JOINED] == 0.0, EGO_LEAVES], initial=enter))
    check(crossed <= ego.goal <= ego.path.length, f'{name}.ego.goal',
          f'expected behind the conflict zone and on the route, [{crossed:g}, {ego.path.length:g}], got {ego.goal:g}')
    born = meeting[0]
    x, y, heading = locate(segments, int(born[LANE_FIRST]), int(born[LANE_LAST]), 0.0, born[LANE_OFFSET])
    middle = 0.5 * (segments[0, HEADING] + segments[ego_last, HEADING])
    return Geometry(
        segments=segments, lanes=table, view=np.array([
            ego.sight, 2.0 * vehicle.length, x, y, heading, middle, layout_version, ego_last, ego.goal,
            vehicle.acceleration_limit, ego.speed_max, ego.cornering, ego.bend_braking, vehicle.length]),
        roads=tuple(extents), ego_first=0, ego_last=ego_last, stop_line=enter - ego.stop_margin,
        conflict_enter=enter, conflict_leave=float(meeting[:, EGO_LEAVES].max()),
    )


def _rows(path: Path2D) -> np.ndarray:
    x, y, degrees = path.start
    pieces = [(piece.length, math.copysign(1.0 / piece.radius, piece.turn) if piece.turn else 0.0)
              for piece in path.pieces]
    return segment_rows((x, y, math.radians(degrees)), pieces)


def _find_conflict(segments: np.ndarray, ego_last: int, vehicle: Vehicle, joined: float, lane: np.ndarray) -> None:
    """Fill in where ego's footprint, carried along its route, lies over a lane's vehicles, and where it has joined."""
    end = float(segments[ego_last, START] + segments[ego_last, LENGTH])
    rim = [(a * vehicle.length / 2, b * vehicle.width / 2) for a in np.linspace(-1, 1, 9) for b in (-1.0, 1.0)]
    rim += [(a * vehicle.length / 2, b * vehicle.width / 2) for a in (-1.0, 1.0) for b in np.linspace(-0.5, 0.5, 3)]
    half_width = vehicle.width / 2 + _SIDE_MARGIN
    first, last = int(lane[LANE_FIRST]), int(lane[LANE_LAST])
    ego_s, lane_s = [], []
    for s in np.arange(0.0, end, _SAMPLING):
        x, y, heading = locate(segments, 0, ego_last, s, 0.0)
        cos, sin = math.cos(heading), math.sin(heading)
        for ahead, left in rim:
            _, along, lateral, _ = project(segments, first, last, first, x + ahead * cos - left * sin,
                                           y + ahead * sin + left * cos)
            if abs(lateral - lane[LANE_OFFSET]) < half_width and 0.0 < along < lane[LANE_END]:
                ego_s.append(s)
                lane_s.append(along)
    if not ego_s:
        return
    lane[LANE_CONFLICT] = 1.0
    lane[EGO_ENTERS], lane[EGO_LEAVES] = min(ego_s) - _SAMPLING, max(ego_s) + _SAMPLING
    lane[LANE_ENTERS] = min(lane_s) - vehicle.length / 2
    lane[LANE_LEAVES] = max(lane_s) + vehicle.length / 2
    if max(ego_s) > end - 2 * _SAMPLING:
        lane[LANE_JOINED] = 1.0
        lane[EGO_LEAVES] = lane[LANE_LEAVES] = _NEVER
        # The point at which ego's body, not yet its whole length, reaches into the lane.
        lane[LANE_ENTERS] = lane_s[0] - vehicle.length / 2
        for s in np.arange(end, lane[EGO_ENTERS], -_SAMPLING):
            x, y, _ = locate(segments, 0, ego_last, s, 0.0)
            _, along, lateral, _ = project(segments, first, last, first, x, y)
            if s < end and abs(lateral - lane[LANE_OFFSET]) >= joined:
                break
            lane[EGO_JOINS], lane[LANE_JOINS] = s, along
