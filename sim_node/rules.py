"""Reference controllers as an engineer would write them, from plain vehicle states. Plain Python, pure.

`gap` waits before the conflict zone until nobody will be there within T seconds, then goes. `predict` goes when ego,
accelerating, is predicted to clear the conflict M seconds before or behind everybody. Both go on once ego can no
longer stop, and keep their distance in a lane they have joined.
"""

from __future__ import annotations

import math

from sim_node.drivers import follow
from sim_node.observation import (
    EGO_ENTERS,
    EGO_LEAVES,
    LANE_CONFLICT,
    LANE_ENTERS,
    LANE_FIRST,
    LANE_JOINED,
    LANE_LAST,
    LANE_LEAVES,
    STATE_HEADING,
    STATE_SPEED,
    STATE_X,
    STATE_Y,
    VIEW_AHEAD,
    VIEW_SIGHT,
    conflict_lane,
)
from sim_node.roads import arrival, predict_way, project

GAP, PREDICT = 0, 1

_APPROACH_SPEED = 8.0       # m/s at which the rules roll up to the stop line from a slow start
_APPROACH_BRAKING = 2.5     # m/s²
_DECIDES_WITHIN = 10.0      # m before the stop line: from there on, slow enough to stop, the rules look for a chance
_DECISION_SECONDS = 0.4
_STANDING = 0.1             # m/s below which a vehicle counts as standing
_NEVER = 60.0               # s


def gap_is_open(lanes, view, lane, s, speed, threshold):
    """Whether a vehicle is through, or more than `threshold` seconds away from the conflict zone."""
    if lanes[lane, LANE_JOINED] != 0.0:
        if s > lanes[lane, LANE_ENTERS] + view[VIEW_AHEAD]:
            return True
    elif s > lanes[lane, LANE_LEAVES]:
        return True
    distance = max(lanes[lane, LANE_ENTERS] - s, 0.0)
    return distance > 0.0 and distance > threshold * speed


def clears(p, lanes, lane, way, steps, s, speed, margin):
    """Whether ego, on the `steps` rows of its predicted way, passes `margin` seconds before or behind a vehicle."""
    enters, joins = arrival(way, steps, lanes[lane, EGO_ENTERS])
    if lanes[lane, LANE_JOINED] == 0.0:
        leaves, _ = arrival(way, steps, lanes[lane, EGO_LEAVES])
        pace = max(speed, _STANDING)
        arrives, departs = (lanes[lane, LANE_ENTERS] - s) / pace, (lanes[lane, LANE_LEAVES] - s) / pace
        return leaves + margin < arrives or departs + margin < enters
    ahead = s + speed * enters - lanes[lane, LANE_ENTERS] - 0.5 * p.vehicle_length
    closing = joins - speed if ahead > 0.0 else speed - joins
    room = abs(ahead) - p.vehicle_length - max(closing, 0.0) ** 2 / (2.0 * p.vehicle_acceleration_limit)
    return room > margin * max(joins if ahead > 0.0 else speed, 1.0)


def approach(distance, speed, limit):
    """Roll up to the stop line and stand there."""
    if distance <= 0.0:
        return -limit
    ahead = max(distance - 0.5 * _DECISION_SECONDS * speed, 0.0)
    target = min(math.sqrt(2.0 * _APPROACH_BRAKING * ahead), max(speed, _APPROACH_SPEED))
    return min(max((target - speed) / _DECISION_SECONDS, -limit), 0.5 * limit)


def rule(p, segments, lanes, view, ego, others, count, kind, threshold, way):
    """The acceleration of the rule `kind` with its one number, for ego among the first `count` rows of `others`.

    `way` is room to predict ego's way in (roads.new_way).
    """
    x, y, speed = ego[STATE_X], ego[STATE_Y], ego[STATE_SPEED]
    limit = p.vehicle_acceleration_limit
    first, last = int(p.ego_first), int(p.ego_last)
    _, s, _, _ = project(segments, first, last, first, x, y)
    go = True
    acceleration = limit
    steps = 0
    if kind == PREDICT:
        end = 0.0
        for lane in range(lanes.shape[0]):
            if lanes[lane, LANE_CONFLICT] != 0.0:
                end = max(end, lanes[lane, EGO_ENTERS if lanes[lane, LANE_JOINED] != 0.0 else EGO_LEAVES])
        steps = predict_way(segments, last, s, speed, end, limit, p.ego_speed_max, p.ego_cornering,
                            p.ego_bend_braking, _NEVER, way)
    for row in range(count):
        dx, dy = others[row, STATE_X] - x, others[row, STATE_Y] - y
        if dx * dx + dy * dy > view[VIEW_SIGHT] * view[VIEW_SIGHT]:
            continue
        other_speed = others[row, STATE_SPEED]
        lane, other_s, _ = conflict_lane(segments, lanes, others[row, STATE_X], others[row, STATE_Y],
                                         others[row, STATE_HEADING])
        if lane < 0:
            continue
        if kind == GAP:
            go = go and gap_is_open(lanes, view, lane, other_s, other_speed, threshold)
        else:
            go = go and clears(p, lanes, lane, way, steps, other_s, other_speed, threshold)
        if lanes[lane, LANE_JOINED] != 0.0:
            lane_first, lane_last = int(lanes[lane, LANE_FIRST]), int(lanes[lane, LANE_LAST])
            _, ego_s, _, _ = project(segments, lane_first, lane_last, lane_first, x, y)
            if other_s > ego_s:
                acceleration = follow(
                    acceleration, speed, other_s - ego_s - p.vehicle_length, other_speed, p.driver_standstill_gap,
                    p.driver_headway, p.driver_gap_gain, p.driver_speed_gain, limit, _DECISION_SECONDS,
                    _DECISION_SECONDS)
    if s + speed * speed / (2.0 * limit) > p.conflict_enter or (go and s > p.stop_line - _DECIDES_WITHIN):
        return acceleration
    return approach(p.stop_line - s, speed, limit)
