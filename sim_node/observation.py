"""What the policy sees: `observe()`, from plain vehicle states to a short row of float32.

Layout 1, poses. Lengths in m, angles in rad, speeds in m/s, axes of the scene:

    0…3     ego: x, y, heading, speed
    4…7     the closest relevant vehicle: dx, dy (from ego), heading, speed
    8…11    the second closest
    12…15   the third

Layout 2, conflicts. What a driver would ask: when am I there, when are they? In m, m/s and s, at most ±10 s:

    0…3     ego: m to the conflict zone, speed; s until it is there and s until its goal, accelerating from now on
    4…8     the first relevant vehicle to arrive: m to where ego's route meets its lane, speed; s that ego has left
            before it arrives at this speed; the same if it accelerates; s that it has left before ego arrives
    9…13    the second, and so on

Where ego joins a lane, a vehicle's metres are seconds too, at its present speed: how far off it is means nothing to
one who has learnt among slower ones. And nobody is out of the way by passing. The one behind must then brake to the
speed of the one in front: others do so for ego once it has joined, not sooner, and ego's seconds before them are those
that would be left, at that moment, before it was too late; more than half a second too late reads as half a second.
Instead of "the same if it accelerates" there are the m/s² with which it could accelerate until then and still brake in
time, -2 to 10: how bold a driver it takes to spoil it, whatever the speeds. From the seconds that ego is behind, those
are taken that it needs to brake.

In both a last number with `time`: seconds since the episode began. A vehicle is relevant while it can still meet ego:
it is in sight, in a lane that ego's route crosses or joins, has not left the crossing, and is not pulling away in front
in a lane that ego joins. A slot with nobody in it reads as a vehicle standing where vehicles are born (layout 1) or one
that is far and never arrives (layout 2). Plain Python: the stepper compiles its own copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim_node.roads import arrival, project, wrap

POSES, CONFLICTS = 1, 2
VERSIONS = (POSES, CONFLICTS)

# Columns of a plain vehicle state.
STATE_X, STATE_Y, STATE_HEADING, STATE_SPEED = range(4)

# Columns of the table of lanes (see geometry.py). Ego's and the lane's intervals are arc lengths of vehicles' centres.
LANE_FIRST, LANE_LAST, LANE_OFFSET, LANE_REACH, LANE_CONFLICT, LANE_JOINED, \
    EGO_ENTERS, EGO_LEAVES, LANE_ENTERS, LANE_LEAVES, EGO_JOINS, LANE_JOINS = range(12)

# What else `observe` must know of a scene: how far ego sees, how far ahead a vehicle counts as gone, the pose that an
# empty slot shows, the heading in the middle of ego's route, the layout, and how ego drives: its route's last row, its
# goal, and the limits of its acceleration, speed, cornering and braking before a bend; a vehicle's length.
VIEW_SIGHT, VIEW_AHEAD, VIEW_X, VIEW_Y, VIEW_HEADING, VIEW_EGO_HEADING, VIEW_VERSION, VIEW_ROUTE, VIEW_GOAL, \
    VIEW_LIMIT, VIEW_SPEED_MAX, VIEW_CORNERING, VIEW_BEND_BRAKING, VIEW_LENGTH = range(14)

_POSE, _CONFLICT = 4, 5       # numbers per vehicle
_FAR = 200.0                  # m
_HORIZON = 10.0               # s
_CREEPING = 1.0               # m/s below which nobody is expected to arrive sooner
_TOO_LATE = -0.5              # s: the least that is shown of being first in a lane that ego joins …
_TOO_BOLD = -2.0              # m/s²: … and of how boldly the other may drive then
_AT_ONCE = 0.1                # s: the shortest time that an acceleration is reckoned over


@dataclass(frozen=True)
class Layout:
    """Which numbers an observation holds."""

    version: int = POSES
    vehicles: int = 3     # slots for other vehicles
    time: bool = False    # append the seconds since the episode began

    @property
    def size(self) -> int:
        """How many numbers an observation has."""
        return 4 + (_CONFLICT if self.version == CONFLICTS else _POSE) * self.vehicles + int(self.time)

    def changes(self) -> dict[str, object]:
        """The changes to a scenario that make it show this layout."""
        return {f'layout.{name}': value for name, value in vars(self).items()}


def near(heading, middle):
    """The same heading within half a turn of another: a message may carry it with a full turn more or less."""
    return heading if -math.pi <= heading - middle < math.pi else middle + wrap(heading - middle)


def conflict_lane(segments, lanes, x, y, heading):
    """The lane of a vehicle among those that ego's route meets: (lane or -1, arc length, plain heading)."""
    best, best_s, best_heading, best_distance = -1, 0.0, heading, 1e9
    road, s, lateral, tangent = -1, 0.0, 0.0, 0.0
    for lane in range(lanes.shape[0]):
        if lanes[lane, LANE_CONFLICT] == 0.0:
            continue
        first = int(lanes[lane, LANE_FIRST])
        if first != road:    # lanes of one road share its path
            road = first
            _, s, lateral, tangent = project(segments, first, int(lanes[lane, LANE_LAST]), first, x, y)
        distance = abs(lateral - lanes[lane, LANE_OFFSET])
        if distance < min(best_distance, lanes[lane, LANE_REACH]) and abs(wrap(heading - tangent)) < 1.0:
            best, best_s, best_heading, best_distance = lane, s, near(heading, tangent), distance
    return best, best_s, best_heading


def relevant(segments, lanes, view, ego, other):
    """The lane in which a vehicle can still meet ego: (lane or -1, arc length, plain heading)."""
    dx, dy = other[STATE_X] - ego[STATE_X], other[STATE_Y] - ego[STATE_Y]
    if math.sqrt(dx * dx + dy * dy) > view[VIEW_SIGHT]:
        return -1, 0.0, 0.0
    lane, s, heading = conflict_lane(segments, lanes, other[STATE_X], other[STATE_Y], other[STATE_HEADING])
    if lane < 0 or s > lanes[lane, LANE_LEAVES]:
        return -1, 0.0, 0.0
    if lanes[lane, LANE_JOINED] != 0.0 and other[STATE_SPEED] >= ego[STATE_SPEED]:
        first, last = int(lanes[lane, LANE_FIRST]), int(lanes[lane, LANE_LAST])
        _, ego_s, _, _ = project(segments, first, last, first, ego[STATE_X], ego[STATE_Y])
        if s - ego_s > view[VIEW_AHEAD]:
            return -1, 0.0, 0.0
    return lane, s, heading


def make_room(out, slot, filled, end, width):
    """Move the vehicles from a slot on back by one; the last one drops out if all are filled."""
    for shift in range(min(filled, end - width), slot, -width):
        for k in range(width):
            out[shift + k] = out[shift - width + k]


def observe_poses(segments, lanes, view, ego, others, count, end, out):
    """Layout 1."""
    x, y = ego[STATE_X], ego[STATE_Y]
    out[0], out[1], out[2], out[3] = x, y, near(ego[STATE_HEADING], view[VIEW_EGO_HEADING]), ego[STATE_SPEED]
    for slot in range(4, end, _POSE):
        out[slot], out[slot + 1] = view[VIEW_X] - x, view[VIEW_Y] - y
        out[slot + 2], out[slot + 3] = view[VIEW_HEADING], 0.0

    # Insertion in order of distance, with the distances re-read from the slots already filled.
    filled = 4
    for row in range(count):
        other = others[row]
        lane, _, heading = relevant(segments, lanes, view, ego, other)
        if lane < 0:
            continue
        dx, dy = other[STATE_X] - x, other[STATE_Y] - y
        distance = math.sqrt(dx * dx + dy * dy)
        slot = filled
        while slot > 4 and (np.float64(out[slot - 4]) ** 2 + np.float64(out[slot - 3]) ** 2) > distance * distance:
            slot -= _POSE
        if slot >= end:
            continue
        make_room(out, slot, filled, end, _POSE)
        out[slot], out[slot + 1], out[slot + 2], out[slot + 3] = dx, dy, heading, other[STATE_SPEED]
        filled = min(filled + _POSE, end)


def within(seconds):
    """Seconds as they are shown."""
    return min(max(seconds, -_HORIZON), _HORIZON)


def ego_arrives(segments, view, s, speed, target):
    """When and how fast ego, accelerating from now on, reaches an arc length of its route: (seconds, m/s)."""
    return arrival(segments, int(view[VIEW_ROUTE]), s, speed, target, view[VIEW_LIMIT], view[VIEW_SPEED_MAX],
                   view[VIEW_CORNERING], view[VIEW_BEND_BRAKING], _HORIZON)


def time_to_brake(gap, speed, front_speed, limit):
    """Seconds until a vehicle must brake, to be at the speed of the one in front when the gap is closed."""
    return (gap - max(speed - front_speed, 0.0) ** 2 / (2.0 * limit)) / max(speed, _CREEPING)


def harmless_acceleration(gap, speed, front_speed, seconds, limit):
    """The m/s² at which a vehicle may go on for some seconds and still brake to the speed of the one in front."""
    left = gap - speed * seconds
    acceleration = 2.0 * left / (seconds * seconds)
    if speed + acceleration * seconds <= front_speed:
        return acceleration
    # left = a t²/2 + (faster + a t)² / (2 limit), the distance to brake, solved for a t.
    faster = speed - front_speed
    half = faster + 0.5 * limit * seconds
    return (math.sqrt(half * half + 2.0 * limit * left - faster * faster) - half) / seconds


def observe_conflicts(segments, lanes, view, ego, others, count, end, out):
    """Layout 2."""
    ego_speed, limit = ego[STATE_SPEED], view[VIEW_LIMIT]
    _, ego_s, _, _ = project(segments, 0, int(view[VIEW_ROUTE]), 0, ego[STATE_X], ego[STATE_Y])
    zone, joining = view[VIEW_GOAL], False
    for lane in range(lanes.shape[0]):
        if lanes[lane, LANE_CONFLICT] != 0.0:
            zone = min(zone, lanes[lane, EGO_ENTERS])
            joining = joining or lanes[lane, LANE_JOINED] != 0.0
    out[0], out[1] = zone - ego_s, ego_speed
    out[2], _ = ego_arrives(segments, view, ego_s, ego_speed, zone)
    out[3], _ = ego_arrives(segments, view, ego_s, ego_speed, view[VIEW_GOAL])
    for slot in range(4, end, _CONFLICT):
        out[slot], out[slot + 1] = _HORIZON if joining else _FAR, 0.0
        out[slot + 2], out[slot + 3], out[slot + 4] = _HORIZON, _HORIZON, -_HORIZON

    # Insertion in order of arrival, with the arrivals re-read from the slots already filled.
    filled = 4
    for row in range(count):
        lane, s, _ = relevant(segments, lanes, view, ego, others[row])
        if lane < 0:
            continue
        # In the precision they are shown in, so that the order can be re-read.
        speed = np.float64(np.float32(others[row, STATE_SPEED]))
        metres = np.float64(np.float32(lanes[lane, LANE_ENTERS] - s))
        pace = max(speed, _CREEPING)
        arrives = metres / pace
        place = metres
        if joining:
            place = arrives = np.float64(np.float32(within(arrives)))
        slot = filled
        while slot > 4:
            before = slot - _CONFLICT
            others_arrival = np.float64(out[before])
            if not joining:
                others_arrival /= max(np.float64(out[before + 1]), _CREEPING)
            if others_arrival <= arrives:
                break
            slot = before
        if slot >= end:
            continue
        make_room(out, slot, filled, end, _CONFLICT)
        enters, ego_then = ego_arrives(segments, view, ego_s, ego_speed, lanes[lane, EGO_ENTERS])
        if lanes[lane, LANE_JOINED] != 0.0:
            joins, then = ego_arrives(segments, view, ego_s, ego_speed, lanes[lane, EGO_JOINS])
            gap = lanes[lane, LANE_JOINS] + max(ego_s - lanes[lane, EGO_JOINS], 0.0) - s - view[VIEW_LENGTH]
            ahead = min(time_to_brake(gap - speed * joins, speed, then, limit),
                        arrives - enters - view[VIEW_LENGTH] / pace)
            until = max(enters, _AT_ONCE)
            hurry = min(harmless_acceleration(gap, speed, then, max(joins, _AT_ONCE), limit),
                        2.0 * (metres - view[VIEW_LENGTH] - speed * until) / (until * until))
            ahead, hurry = max(ahead, _TOO_LATE), max(hurry, _TOO_BOLD)
            behind = enters - arrives - view[VIEW_LENGTH] / pace + time_to_brake(0.0, ego_then, speed, limit)
        else:
            leaves, _ = ego_arrives(segments, view, ego_s, ego_speed, lanes[lane, EGO_LEAVES])
            hurries = arrives
            if metres > 0.0:
                hurries = (math.sqrt(speed * speed + 2.0 * limit * metres) - speed) / limit
            ahead, hurry = arrives - leaves, hurries - leaves
            behind = enters - (lanes[lane, LANE_LEAVES] - s) / pace
        out[slot], out[slot + 1] = place, speed
        out[slot + 2], out[slot + 3], out[slot + 4] = within(ahead), within(hurry), within(behind)
        filled = min(filled + _CONFLICT, end)


def observe(segments, lanes, view, ego, others, count, elapsed, with_time, out):
    """Fill `out` with the observation of `ego` among the first `count` rows of `others` (x, y, heading, speed)."""
    end = out.shape[0] - 1 if with_time else out.shape[0]
    if view[VIEW_VERSION] == CONFLICTS:
        observe_conflicts(segments, lanes, view, ego, others, count, end, out)
    else:
        observe_poses(segments, lanes, view, ego, others, count, end, out)
    if with_time:
        out[end] = elapsed
