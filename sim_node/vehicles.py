"""How a vehicle moves, steers and touches another: bicycle, Stanley, rectangles. Plain Python, pure."""

from __future__ import annotations

import math


def bicycle(x, y, heading, heading_cos, heading_sin, speed, acceleration, steering, front_axle, rear_axle,
            speed_min, speed_max, dt):
    """One step of the kinematic bicycle about the centre of gravity (Kong et al. 2015): (x, y, heading, speed).

    The speed stays within [speed_min, speed_max]: brakes do not reverse a car.
    """
    # The course is the heading and the angle of slip, told by its tangent: one function instead of seven.
    slip_tangent = math.tan(steering) * rear_axle / (front_axle + rear_axle)
    slip_cos = 1.0 / math.sqrt(1.0 + slip_tangent * slip_tangent)
    slip_sin = slip_tangent * slip_cos
    return (
        x + speed * (heading_cos * slip_cos - heading_sin * slip_sin) * dt,
        y + speed * (heading_sin * slip_cos + heading_cos * slip_sin) * dt,
        heading + speed / rear_axle * slip_sin * dt,
        min(max(speed + acceleration * dt, speed_min), speed_max),
    )


def stanley(lateral_error, heading_error, speed, gain, softening, limit):
    """Steering angle of the Stanley controller (Thrun et al. 2006), positive to the left.

    Both errors are the front axle's against the reference: lateral positive when it is to the left of it, heading
    positive when it points left of it.
    """
    steering = -heading_error - math.atan(gain * lateral_error / (softening + speed))
    return min(max(steering, -limit), limit)


def overlap(dx, dy, cos_a, sin_a, length_a, width_a, cos_b, sin_b, length_b, width_b):
    """Whether two rectangles overlap, b's centre at (dx, dy) from a's (separating axes, exact)."""
    reach = math.sqrt(length_a * length_a + width_a * width_a) + math.sqrt(length_b * length_b + width_b * width_b)
    if 4.0 * (dx * dx + dy * dy) > reach * reach:
        return False
    cos_between = abs(cos_a * cos_b + sin_a * sin_b)
    sin_between = abs(cos_a * sin_b - sin_a * cos_b)
    return (
        2.0 * abs(dx * cos_a + dy * sin_a) < length_a + length_b * cos_between + width_b * sin_between
        and 2.0 * abs(dy * cos_a - dx * sin_a) < width_a + length_b * sin_between + width_b * cos_between
        and 2.0 * abs(dx * cos_b + dy * sin_b) < length_b + length_a * cos_between + width_a * sin_between
        and 2.0 * abs(dy * cos_b - dx * sin_b) < width_b + length_a * sin_between + width_a * cos_between
    )
