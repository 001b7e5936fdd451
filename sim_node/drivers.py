"""How the other drivers think: adaptive cruise control, safe lane changes, and a hidden temper. Plain Python, pure."""

from __future__ import annotations

import math

# What a driver does when close to an ego that has committed itself to crossing or joining. Ego cannot see it.
YIELD, IGNORE, ACCELERATE = 0, 1, 2
TEMPERS = ('yield', 'ignore', 'accelerate')


def safe_speed(gap, leader_speed, braking, reaction):
    """The highest speed from which a follower can still stop behind a leader that brakes as hard (Krauss 1998)."""
    slack = braking * reaction
    return math.sqrt(slack * slack + leader_speed * leader_speed + 2.0 * braking * max(gap, 0.0)) - slack


def cruise(speed, desired, gain, limit):
    """Acceleration towards the desired speed on a free road."""
    return min(max(gain * (desired - speed), -limit), limit)


def follow(acceleration, speed, gap, leader_speed, standstill_gap, headway, gap_gain, speed_gain, braking, reaction,
           dt):
    """The wished-for acceleration, lowered to keep the headway and to stay able to stop behind the leader."""
    keep = gap_gain * (gap - standstill_gap - headway * speed) + speed_gain * (leader_speed - speed)
    stop = (safe_speed(gap - standstill_gap, leader_speed, braking, reaction) - speed) / dt
    return max(min(acceleration, keep, stop), -braking)


def lane_change_offset(progress):
    """Share of the way across (and its slope) at a share of the planned time: a quintic, at rest at both ends."""
    u = min(max(progress, 0.0), 1.0)
    return u * u * u * (10.0 + u * (6.0 * u - 15.0)), 30.0 * u * u * (1.0 - u) * (1.0 - u)
