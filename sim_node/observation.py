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

Where ego joins a lane, a vehicle's metres are seconds too, at its present speed: how far off it is means nothing to one
who has learnt among slower ones. And nobody is out of the way by passing: the one behind must brake to the speed of the
one in front. So the first slot is for the last of those who would be in front when ego, accelerating from now on, is
there; the next ones are for those behind it, in order: what ego knows of the first whom it may join in front of holds
for the second just as well, once the first has passed. Others brake for ego once it has joined, not sooner, and ego's
seconds before them are those that would be left, once it has, before it was too late. Instead of "the same if it
accelerates" there are the m/s² with which it could accelerate until then and still brake in time, -2 to 10: how bold a
driver it takes to spoil it, whatever the speeds. The last number is the seconds until ego must brake to its speed. More
than half a second too late reads as half a second, and more than 15 m/s as 15 m/s: whoever has learnt among vehicles of
up to that has seen quicker ones only pulling away in front.

In both a last number with `time`: seconds since the episode began. A vehicle is relevant while it can still meet ego:
it is in sight, in a lane that ego's route crosses or joins, has not left the crossing, and is not pulling away in front
in a lane that ego joins. A slot with nobody in it reads as a vehicle standing where vehicles are born (layout 1) or one
that is far and never arrives (layout 2; in front of ego: one that is long gone). Plain Python: the stepper compiles its
own copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim_node.roads import arrival, predict_way, project, wrap

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
_TOO_LATE = -0.5              # s: the least that is shown of what is left before somebody in the lane must brake …
_TOO_BOLD = -2.0              # m/s²: … and of how boldly the one behind may drive
_QUICK = 15.0                 # m/s: the most that is shown of a speed in a lane that ego joins
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


def beside(lanes, lane, s):
    """Where in a lane that it joins ego is at an arc length of its route."""
    return s + lanes[lane, LANE_JOINS] - lanes[lane, EGO_JOINS]


def crossing(lanes, view, lane, s, speed, enters, leaves):
    """Of a vehicle in a lane that ego crosses: s that ego is gone before it, the same if it hurries, s behind it."""
    limit, pace = view[VIEW_LIMIT], max(speed, _CREEPING)
    metres = np.float64(np.float32(lanes[lane, LANE_ENTERS] - s))
    arrives = hurries = metres / pace
    if metres > 0.0:
        hurries = (math.sqrt(speed * speed + 2.0 * limit * metres) - speed) / limit
    return arrives - leaves, hurries - leaves, enters - (lanes[lane, LANE_LEAVES] - s) / pace


def joining_before(lanes, view, ego_s, lane, s, speed, enters, joins, then):
    """Of a vehicle in a lane that ego joins: s until it is too late to be in front of it, m/s² that spoil it."""
    limit, length = view[VIEW_LIMIT], view[VIEW_LENGTH]
    gap = beside(lanes, lane, max(ego_s, lanes[lane, EGO_JOINS])) - s - length
    room = lanes[lane, LANE_ENTERS] - s - length     # to where ego enters: there it must not be beside ego
    seconds = min(time_to_brake(gap - speed * joins, speed, then, limit), room / max(speed, _CREEPING) - enters)
    until = max(enters, _AT_ONCE)
    boldness = min(harmless_acceleration(gap, speed, then, max(joins, _AT_ONCE), limit),
                   2.0 * (room - speed * until) / (until * until))
    return max(seconds, _TOO_LATE), max(boldness, _TOO_BOLD)


def observe_conflicts(segments, lanes, view, ego, others, count, end, way, out):
    """Layout 2."""
    ego_speed = ego[STATE_SPEED]
    _, ego_s, _, _ = project(segments, 0, int(view[VIEW_ROUTE]), 0, ego[STATE_X], ego[STATE_Y])
    zone, farthest, joining = view[VIEW_GOAL], view[VIEW_GOAL], False
    for lane in range(lanes.shape[0]):
        if lanes[lane, LANE_CONFLICT] != 0.0:
            joined = lanes[lane, LANE_JOINED] != 0.0
            zone = min(zone, lanes[lane, EGO_ENTERS])
            farthest = max(farthest, lanes[lane, EGO_JOINS if joined else EGO_LEAVES])
            joining = joining or joined
    steps = predict_way(segments, int(view[VIEW_ROUTE]), ego_s, ego_speed, farthest, view[VIEW_LIMIT],
                        view[VIEW_SPEED_MAX], view[VIEW_CORNERING], view[VIEW_BEND_BRAKING], _HORIZON, way)
    out[0], out[1] = zone - ego_s, ego_speed
    out[2], out[3] = arrival(way, steps, zone)[0], arrival(way, steps, view[VIEW_GOAL])[0]
    for slot in range(4, end, _CONFLICT):
        out[slot], out[slot + 1] = _HORIZON if joining else _FAR, 0.0
        out[slot + 2], out[slot + 3], out[slot + 4] = _HORIZON, _HORIZON, _TOO_LATE if joining else -_HORIZON
    first = 4
    if joining:    # the slot of whoever is in front
        out[4], out[6], out[7], out[8] = -_HORIZON, _TOO_LATE, _TOO_BOLD, _HORIZON
        first += _CONFLICT

    # Insertion in order of arrival, with the arrivals re-read from the slots already filled.
    filled = first
    reckoned, enters, ego_then, over, over_then = -1, 0.0, 0.0, 0.0, 0.0     # the last lane met, and ego's times there
    for row in range(count):
        lane, s, _ = relevant(segments, lanes, view, ego, others[row])
        if lane < 0:
            continue
        # In the precision they are shown in, so that the order can be re-read.
        speed = np.float64(np.float32(others[row, STATE_SPEED]))
        place = np.float64(np.float32(lanes[lane, LANE_ENTERS] - s))
        arrives = place / max(speed, _CREEPING)
        if joining:
            place = arrives = np.float64(np.float32(within(arrives)))
        joined = lanes[lane, LANE_JOINED] != 0.0
        if lane != reckoned:
            reckoned = lane
            enters, ego_then = arrival(way, steps, lanes[lane, EGO_ENTERS])
            over, over_then = arrival(way, steps, lanes[lane, EGO_JOINS if joined else EGO_LEAVES])
        in_front = 0.0    # m of ego, when ego enters
        if joined:
            in_front = s + speed * enters - beside(lanes, lane, max(ego_s, lanes[lane, EGO_ENTERS]))
        if in_front > 0.0:
            if out[4] > arrives:
                continue
            slot = 4
        else:
            slot = filled
            while slot > first:
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
            filled = min(filled + _CONFLICT, end)
        if joined:
            ahead, hurry = joining_before(lanes, view, ego_s, lane, s, speed, enters, over, over_then)
            behind = max(time_to_brake(in_front - view[VIEW_LENGTH], ego_then, speed, view[VIEW_LIMIT]), _TOO_LATE)
            speed = min(speed, _QUICK)
        else:
            ahead, hurry, behind = crossing(lanes, view, lane, s, speed, enters, over)
        out[slot], out[slot + 1] = place, speed
        out[slot + 2], out[slot + 3], out[slot + 4] = within(ahead), within(hurry), within(behind)


def observe(segments, lanes, view, ego, others, count, elapsed, with_time, way, out):
    """Fill `out` with the observation of `ego` among the first `count` rows of `others` (x, y, heading, speed).

    `way` is room to predict ego's way in (roads.new_way).
    """
    end = out.shape[0] - 1 if with_time else out.shape[0]
    if view[VIEW_VERSION] == CONFLICTS:
        observe_conflicts(segments, lanes, view, ego, others, count, end, way, out)
    else:
        observe_poses(segments, lanes, view, ego, others, count, end, out)
    if with_time:
        out[end] = elapsed
