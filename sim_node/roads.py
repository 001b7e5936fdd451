"""Paths by arc length: straight lines and arcs, and the coordinates along and across them.

A path is a run of rows of one table of segments, so that geometry is data: the stepper, `observe()` and the
rules read the same rows. Plain Python: the stepper compiles its own copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Columns of the table of segments. Curvature is positive to the left, in 1/m.
X, Y, HEADING, CURVATURE, LENGTH, START, COS, SIN = range(8)

# Columns of a predicted way.
WAY_SECONDS, WAY_PLACE, WAY_SPEED = range(3)

_PREDICTION_STEP = 0.1    # s
_WAY_ROWS = 610           # a minute of it, which the rules look ahead


def segment_rows(start: Sequence[float], pieces: Sequence[tuple[float, float]]) -> np.ndarray:
    """Rows for a path from a pose (x m, y m, heading rad), made of pieces (length m, curvature 1/m)."""
    x, y, heading = start
    rows, s = [], 0.0
    for length, curvature in pieces:
        rows.append((x, y, heading, curvature, length, s, math.cos(heading), math.sin(heading)))
        if curvature == 0.0:
            x, y = x + length * math.cos(heading), y + length * math.sin(heading)
        else:
            turned = heading + curvature * length
            x += (math.sin(turned) - math.sin(heading)) / curvature
            y -= (math.cos(turned) - math.cos(heading)) / curvature
            heading = turned
        s += length
    return np.array(rows, dtype=np.float64)


def wrap(angle):
    """The same angle in [-pi, pi)."""
    shifted = angle + math.pi
    # Nearly every angle is in range already, where the slow remainder would give back what it was given.
    return (shifted if 0.0 <= shifted < 2.0 * math.pi else shifted % (2.0 * math.pi)) - math.pi


def direction(segments, row, heading):
    """Cosine and sine of a heading: on a straight road, nearly always those of the road."""
    if heading == segments[row, HEADING]:
        return segments[row, COS], segments[row, SIN]
    return math.cos(heading), math.sin(heading)


def project(segments, first, last, guess, x, y):
    """Where a point lies on a path (rows first…last): (row, arc length s, lateral offset, tangent's heading).

    `guess` is a row to start from; the offset is positive to the left. Beyond its ends a path goes on as it ends.
    """
    row = guess
    came_from = row
    while True:
        dx = x - segments[row, X]
        dy = y - segments[row, Y]
        curvature = segments[row, CURVATURE]
        if curvature == 0.0:
            along = dx * segments[row, COS] + dy * segments[row, SIN]
            lateral = dy * segments[row, COS] - dx * segments[row, SIN]
            tangent = segments[row, HEADING]
        else:
            # Seen from the arc's centre, the start lies at a right angle to the start's heading.
            to_x = dx + segments[row, SIN] / curvature
            to_y = dy - segments[row, COS] / curvature
            if curvature > 0.0:
                turned = wrap(math.atan2(to_x, -to_y) - segments[row, HEADING])
                lateral = 1.0 / curvature - math.sqrt(to_x * to_x + to_y * to_y)
            else:
                turned = wrap(math.atan2(-to_x, to_y) - segments[row, HEADING])
                lateral = 1.0 / curvature + math.sqrt(to_x * to_x + to_y * to_y)
            along = turned / curvature
            tangent = segments[row, HEADING] + turned
        if along > segments[row, LENGTH] and row < last and row + 1 != came_from:
            came_from = row
            row += 1
        elif along < 0.0 and row > first and row - 1 != came_from:
            came_from = row
            row -= 1
        else:
            return row, segments[row, START] + along, lateral, tangent


def locate(segments, first, last, s, lateral):
    """The pose (x, y, heading) at arc length s and an offset to the left."""
    row = first
    while row < last and s > segments[row, START] + segments[row, LENGTH]:
        row += 1
    along = s - segments[row, START]
    heading = segments[row, HEADING]
    curvature = segments[row, CURVATURE]
    if curvature == 0.0:
        x = segments[row, X] + along * segments[row, COS]
        y = segments[row, Y] + along * segments[row, SIN]
    else:
        turned = heading + curvature * along
        x = segments[row, X] + (math.sin(turned) - segments[row, SIN]) / curvature
        y = segments[row, Y] - (math.cos(turned) - segments[row, COS]) / curvature
        heading = turned
    return x - lateral * math.sin(heading), y + lateral * math.cos(heading), heading


def bend_speed_square(segments, row, last, s, cornering, braking):
    """The square of the speed at s from which a vehicle, braking, takes every bend within a lateral acceleration."""
    speed_square = 1e9
    for ahead in range(row, last + 1):
        curvature = abs(segments[ahead, CURVATURE])
        if curvature > 0.0:
            room = max(segments[ahead, START] - s, 0.0)
            speed_square = min(speed_square, cornering / curvature + 2.0 * braking * room)
    return speed_square


def new_way():
    """Room for a predicted way: of `predict_way`'s rows, as many as a prediction may have."""
    return np.zeros((_WAY_ROWS, 3))


def predict_way(segments, last, s, speed, end, limit, speed_max, cornering, bend_braking, horizon, way):
    """Where and how fast a vehicle will be that accelerates as its route (rows 0…last) allows; gives the rows filled.

    A row of `way` (s from now, arc length, m/s) for every step of the prediction, until it has reached the arc length
    `end` or the horizon is over.
    """
    row, count, seconds = 0, 0, 0.0
    while True:
        way[count, WAY_SECONDS], way[count, WAY_PLACE], way[count, WAY_SPEED] = seconds, s, speed
        count += 1
        if s >= end or seconds >= horizon or count == way.shape[0]:
            return count
        while row < last and s > segments[row + 1, START]:
            row += 1
        bend = bend_speed_square(segments, row, last, s, cornering, bend_braking)
        soon = speed + 1.01 * limit * _PREDICTION_STEP
        push = limit
        if bend <= soon * soon:     # else no bend is near, and the root and the quotient would take most of the time
            push = min(limit, max((math.sqrt(bend) - speed) / _PREDICTION_STEP, -limit))
        s += speed * _PREDICTION_STEP
        speed = min(max(speed + push * _PREDICTION_STEP, 0.0), speed_max)
        seconds += _PREDICTION_STEP


def arrival(way, count, place):
    """When and how fast the vehicle of the first `count` rows of a way is at an arc length: (seconds, m/s).

    Now if it is there already; the last row's if it is not there by then.
    """
    row = 0
    while row < count and way[row, WAY_PLACE] < place:
        row += 1
    if row == 0 or row == count:
        row = max(row - 1, 0)
        return way[row, WAY_SECONDS], way[row, WAY_SPEED]
    row -= 1
    speed = way[row, WAY_SPEED]
    return way[row, WAY_SECONDS] + (place - way[row, WAY_PLACE]) / speed, speed
