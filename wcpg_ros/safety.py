"""What may be commanded: plain values and a clock in, verdicts out; no ROS.

A state is checked (`check_odometry`, `check_vehicles`), then offered to its guard. `Safety` lets a command through only
while every input is fresh, brakes when one is not or when the policy fails, and says so once on each edge.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_node.guards import (
    DUPLICATE_ID,
    NOT_A_ROTATION,
    UNEQUAL_LENGTHS,
    WRONG_FRAME,
    Clock,
    InputGuard,
    Problem,
    check_finite,
    check_frame,
)

QUATERNION_TOLERANCE = 1e-3   # of its length; float32 rounding is far below


def check_odometry(frame_id: str, child_frame_id: str, position: Sequence[float], orientation: Sequence[float],
                   linear: Sequence[float], angular: Sequence[float], *, map_frame: str = 'map',
                   body_frame: str = 'base_link') -> Problem | None:
    """Check ego's state: pose in the map (quaternion x, y, z, w), twist in the body."""
    if child_frame_id != body_frame:
        return Problem(WRONG_FRAME, f"child frame '{child_frame_id}', expected '{body_frame}'")
    return (check_frame(frame_id, map_frame)
            or check_finite(ego=[*position, *orientation, *linear, *angular])
            or _check_rotations(['ego'], [orientation]))


def check_vehicles(frame_id: str, ids: Sequence[str], positions: Any, orientations: Any, linear: Any, angular: Any, *,
                   map_frame: str = 'map') -> Problem | None:
    """Check the other vehicles: one id, pose and twist each, in rows of an array or of lists."""
    lengths = {len(part) for part in (ids, positions, orientations, linear, angular)}
    if len(lengths) > 1:
        return Problem(UNEQUAL_LENGTHS, f'{len(ids)} ids, {len(positions)} positions, {len(orientations)} '
                                        f'orientations, {len(linear)} and {len(angular)} velocities')
    if len(set(ids)) < len(ids):
        return Problem(DUPLICATE_ID, f"'{Counter(ids).most_common(1)[0][0]}' stands for more than one vehicle")
    return (check_frame(frame_id, map_frame)
            or check_finite(**{'vehicle positions': positions, 'vehicle orientations': orientations,
                                'vehicle velocities': linear, 'vehicle rotation rates': angular})
            or _check_rotations(ids, orientations))


def _check_rotations(ids: Sequence[str], orientations: Sequence[Sequence[float]]) -> Problem | None:
    for name, orientation in zip(ids, np.asarray(orientations, dtype=float).tolist(), strict=True):
        length = math.hypot(*orientation)   # which does not overflow
        if abs(length - 1.0) > QUATERNION_TOLERANCE:
            return Problem(NOT_A_ROTATION, f"the quaternion of '{name}' has length {length:g}")
    return None


class CommandLimiter:
    """Keeps commands within ±`limit` m/s² and, if given, their change within `jerk` m/s³."""

    def __init__(self, limit: float = 4.0, jerk: float | None = None) -> None:
        self.limit = limit
        self.jerk = jerk
        self._last: float | None = None

    def apply(self, wanted: float, seconds: float) -> float:
        """Return the command nearest to the wanted one, `seconds` after the last.

        What is not finite is refused before it is compared with anything, so that it cannot stay in here.
        """
        if not math.isfinite(wanted):
            raise ValueError(f'the wanted acceleration is {wanted}')
        command = min(max(wanted, -self.limit), self.limit)
        if self.jerk is not None and self._last is not None:
            step = self.jerk * seconds if 0.0 < seconds < math.inf else 0.0
            command = min(max(command, self._last - step), self._last + step)
        self._last = command
        return command

    def brake(self, deceleration: float) -> float:
        """Return a braking command at once, whatever the jerk; later commands go on from it."""
        self._last = -min(abs(deceleration), self.limit)
        return self._last


@dataclass(frozen=True)
class SafetySettings:
    """When to stop believing and how to brake."""

    stale_after: float = 0.5          # s without a valid message of an input
    limit: float = 4.0                # m/s², either way
    jerk: float | None = None         # m/s³; None: no limit
    fail_safe_deceleration: float = 4.0   # m/s²


class Safety:
    """Stands between a policy and the road."""

    WAITING, DRIVING, STALE, FAILED, STOPPING = 'waiting', 'driving', 'stale input', 'policy failed', 'stopping'

    def __init__(self, inputs: Iterable[str], settings: SafetySettings | None = None,
                 clock: Clock = time.monotonic) -> None:
        self.settings = settings or SafetySettings()
        self.inputs = {name: InputGuard(name, self.settings.stale_after, clock) for name in inputs}
        self.limiter = CommandLimiter(self.settings.limit, self.settings.jerk)
        self.mode = self.WAITING
        self.failures = 0
        self._failing = False
        self._stopping = False
        self._reports: list[str] = []

    def command(self, propose: Callable[[], float], seconds: float) -> float | None:
        """Return the acceleration to command, `seconds` after the last; None while there is nothing to go by.

        `propose` is the policy; it is asked only when every input is fresh, and may fail.
        """
        self.mode = self._mode_of_inputs()
        if self.mode == self.WAITING:
            return None
        if self.mode == self.DRIVING:
            try:
                command = self.limiter.apply(float(propose()), seconds)
            except Exception as problem:
                if not self._failing:
                    self._reports.append(f'the policy failed, braking: {problem}')
                self._failing = True
                self.failures += 1
                self.mode = self.FAILED
            else:
                if self._failing:
                    self._reports.append('the policy works again')
                self._failing = False
                return command
        return self.limiter.brake(self.settings.fail_safe_deceleration)

    def _mode_of_inputs(self) -> str:
        if self._stopping:
            return self.STOPPING
        if not all(guard.seen for guard in self.inputs.values()):
            return self.WAITING
        stale = [guard.is_stale() for guard in self.inputs.values()]   # of each, since each has its own edge
        return self.STALE if any(stale) else self.DRIVING

    def change(self, settings: SafetySettings) -> None:
        """Go by other settings from now on."""
        self.settings = settings
        self.limiter.limit, self.limiter.jerk = settings.limit, settings.jerk
        for guard in self.inputs.values():
            guard.stale_after = settings.stale_after

    def stop(self) -> float:
        """Return the command to leave behind at shutdown; from now on there is no other."""
        self._stopping = True
        self.mode = self.STOPPING
        return self.limiter.brake(self.settings.fail_safe_deceleration)

    def take_reports(self) -> list[str]:
        """Return what has happened since the last call, one line for each edge."""
        reports, self._reports = self._reports, []
        return [line for guard in self.inputs.values() for line in guard.take_reports()] + reports

    def status(self) -> dict[str, str]:
        """Return what is active and the counters, for diagnostics."""
        counters = {key: value for guard in self.inputs.values() for key, value in guard.status().items()}
        return {'mode': self.mode, 'policy failures': str(self.failures), **counters}
