"""What the policy sees: `observe()`, from plain vehicle states to a short row of float32.

Layout 1 (VERSION), lengths in m, angles in rad, speeds in m/s, axes of the scene:

    0…3     ego: x, y, heading, speed
    4…7     the closest relevant vehicle: dx, dy (from ego), heading, speed
    8…11    the second closest
    12…15   the third
    [16]    with `time`: seconds since the episode began

A vehicle is relevant while it can still meet ego: it is in sight, in a lane that ego's route crosses or joins, has
not left the crossing, and is not pulling away in front in a lane that ego joins. A slot with nobody in it reads as a
vehicle standing where vehicles are born. Plain Python: the stepper compiles its own copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim_node.roads import project, wrap

VERSION = 1

# Columns of a plain vehicle state.
STATE_X, STATE_Y, STATE_HEADING, STATE_SPEED = range(4)

# Columns of the table of lanes (see scenes.py). Ego's and the lane's intervals are arc lengths of vehicles' centres.
LANE_FIRST, LANE_LAST, LANE_OFFSET, LANE_REACH, LANE_CONFLICT, LANE_JOINED, \
    EGO_ENTERS, EGO_LEAVES, LANE_ENTERS, LANE_LEAVES = range(10)

# What else `observe` must know of a scene: how far ego sees, how far ahead a vehicle counts as gone, the pose that an
# empty slot shows, and the heading in the middle of ego's route.
VIEW_SIGHT, VIEW_AHEAD, VIEW_X, VIEW_Y, VIEW_HEADING, VIEW_EGO_HEADING = range(6)


@dataclass(frozen=True)
class Layout:
    """Which numbers an observation holds."""

    version: int = VERSION
    vehicles: int = 3     # slots for other vehicles
    time: bool = False    # append the seconds since the episode began

    @property
    def size(self) -> int:
        """How many numbers an observation has."""
        return 4 + 4 * self.vehicles + int(self.time)


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


def observe(segments, lanes, view, ego, others, count, elapsed, with_time, out):
    """Fill `out` with the observation of `ego` among the first `count` rows of `others` (x, y, heading, speed)."""
    x, y = ego[STATE_X], ego[STATE_Y]
    end = out.shape[0] - 1 if with_time else out.shape[0]
    out[0], out[1], out[2], out[3] = x, y, near(ego[STATE_HEADING], view[VIEW_EGO_HEADING]), ego[STATE_SPEED]
    for slot in range(4, end, 4):
        out[slot], out[slot + 1] = view[VIEW_X] - x, view[VIEW_Y] - y
        out[slot + 2], out[slot + 3] = view[VIEW_HEADING], 0.0
    if with_time:
        out[end] = elapsed

    # Insertion in order of distance, with the distances re-read from the slots already filled.
    filled = 4
    for row in range(count):
        dx, dy = others[row, STATE_X] - x, others[row, STATE_Y] - y
        distance = math.sqrt(dx * dx + dy * dy)
        if distance > view[VIEW_SIGHT]:
            continue
        speed = others[row, STATE_SPEED]
        lane, s, heading = conflict_lane(segments, lanes, others[row, STATE_X], others[row, STATE_Y],
                                         others[row, STATE_HEADING])
        if lane < 0 or s > lanes[lane, LANE_LEAVES]:
            continue
        if lanes[lane, LANE_JOINED] != 0.0 and speed >= ego[STATE_SPEED]:
            first, last = int(lanes[lane, LANE_FIRST]), int(lanes[lane, LANE_LAST])
            _, ego_s, _, _ = project(segments, first, last, first, x, y)
            if s - ego_s > view[VIEW_AHEAD]:
                continue
        slot = filled
        while slot > 4 and (np.float64(out[slot - 4]) ** 2 + np.float64(out[slot - 3]) ** 2) > distance * distance:
            slot -= 4
        if slot >= end:
            continue
        for shift in range(min(filled, end - 4), slot, -4):
            for k in range(4):
                out[shift + k] = out[shift - 4 + k]
        out[slot], out[slot + 1], out[slot + 2], out[slot + 3] = dx, dy, heading, speed
        filled = min(filled + 4, end)
