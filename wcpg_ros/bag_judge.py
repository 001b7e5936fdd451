"""How an episode ended that nobody says the end of: by the same rules as the simulator's, from recorded states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sim_node.episode_time import STEP_NANOSECONDS
from sim_node.geometry import build_geometry
from sim_node.markers import EGO_NAMESPACE, VEHICLES_NAMESPACE, marker_id
from sim_node.roads import project, wrap
from sim_node.scenario import Scenario
from sim_node.state import COLLISION, RUNNING, SUCCESS, TIMEOUT
from sim_node.vehicles import overlap

Size = tuple[float, float]     # length and width, m

_ALONG = math.pi / 4           # rad between ego's heading and its route's at most


@dataclass(frozen=True)
class Sizes:
    """Everybody's size: one for all, or those of recorded boxes."""

    for_all: Size | None
    boxes: dict[tuple[str, int], Size]

    def known(self) -> bool:
        """Whether a collision could be noticed."""
        return self.for_all is not None or (EGO_NAMESPACE, 0) in self.boxes

    def ego(self) -> Size:
        """Ego's."""
        return self.for_all or self.boxes[EGO_NAMESPACE, 0]

    def of(self, name: str) -> Size:
        """A vehicle's; one without a box counts as big as ego."""
        return self.for_all or self.boxes.get((VEHICLES_NAMESPACE, marker_id(name)), self.ego())


@dataclass(frozen=True)
class JudgedState:
    """A state, decoded for judging."""

    stamp: int
    ego: tuple[float, float, float, float]
    names: list[str]
    others: np.ndarray


def follows_route(scenario: Scenario, ego: Iterable[tuple[float, float, float, float]]) -> bool:
    """Whether at least half of ego's states lie within a lane's width of the scene's route and point along it."""
    geometry, width = build_geometry(scenario), max(road.lane_width for road in scenario.roads)
    near = []
    for x, y, heading, _ in ego:
        _, _, lateral, tangent = project(geometry.segments, geometry.ego_first, geometry.ego_last, geometry.ego_first,
                                         x, y)
        near.append(abs(lateral) <= width and abs(wrap(heading - tangent)) <= _ALONG)
    return 2 * sum(near) >= len(near)


def judge(scenario: Scenario, start: int, states: Iterable[JudgedState], sizes: Sizes) -> tuple[int, int]:
    """The outcome (sim_node.state) and the stamp (ns) of the first state that ends the episode, if one does."""
    geometry, front = build_geometry(scenario), scenario.vehicle.front_axle
    stamp, before = start, None
    for state in states:
        stamp = state.stamp
        if before is not None:
            if _collides(state, sizes):
                return COLLISION, stamp
            # As the simulator counts: from where the front axle was, on by the distance driven since.
            x, y, heading, speed = before.ego
            _, s, _, _ = project(geometry.segments, geometry.ego_first, geometry.ego_last, geometry.ego_first,
                                 x + front * math.cos(heading), y + front * math.sin(heading))
            if s + speed * (stamp - before.stamp) * 1e-9 - front >= scenario.ego.goal:
                return SUCCESS, stamp
            if round((stamp - start) / STEP_NANOSECONDS) >= scenario.max_steps:
                return TIMEOUT, stamp
        before = state
    return RUNNING, stamp


def _collides(state: JudgedState, sizes: Sizes) -> bool:
    x, y, heading, _ = state.ego
    cos, sin = math.cos(heading), math.sin(heading)
    length, width = sizes.ego()
    return any(overlap(other_x - x, other_y - y, cos, sin, length, width,
                       math.cos(other_heading), math.sin(other_heading), *sizes.of(name))
               for name, (other_x, other_y, other_heading, _) in zip(state.names, state.others.tolist(), strict=True))
