"""What may be believed and what may be commanded: plain values and a clock in, verdicts out; no ROS.

A message is checked (`check_odometry`, `check_vehicles`, `check_command`), then offered to its `InputGuard`, which also
watches stamps and age. `Safety` lets a command through only while every input is fresh, brakes when one is not or when
the policy fails, and says so once on each edge. Times are seconds of a steady clock, which does not stop with /clock.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Clock = Callable[[], float]

# Kinds of problems, as counted and as shown in diagnostics.
NOT_FINITE = 'not finite'
WRONG_FRAME = 'wrong frame'
NOT_A_ROTATION = 'not a unit quaternion'
UNEQUAL_LENGTHS = 'unequal lengths'
DUPLICATE_ID = 'duplicate id'
BACKWARDS = 'stamp goes backwards'

QUATERNION_TOLERANCE = 1e-3   # of its length; float32 rounding is far below


class Problem(NamedTuple):
    """Why a message is refused."""

    kind: str
    detail: str


def check_odometry(frame_id: str, child_frame_id: str, position: Sequence[float], orientation: Sequence[float],
                   linear: Sequence[float], angular: Sequence[float], *, map_frame: str = 'map',
                   body_frame: str = 'base_link') -> Problem | None:
    """Check ego's state: pose in the map (quaternion x, y, z, w), twist in the body."""
    if child_frame_id != body_frame:
        return Problem(WRONG_FRAME, f"child frame '{child_frame_id}', expected '{body_frame}'")
    return (_check_frame(frame_id, map_frame)
            or _check_finite(ego=[*position, *orientation, *linear, *angular])
            or _check_rotations(['ego'], [orientation]))


def check_vehicles(frame_id: str, ids: Sequence[str], positions: Sequence[Sequence[float]],
                   orientations: Sequence[Sequence[float]], linear: Sequence[Sequence[float]],
                   angular: Sequence[Sequence[float]], *, map_frame: str = 'map') -> Problem | None:
    """Check the other vehicles: one id, pose and twist each."""
    lengths = {len(part) for part in (ids, positions, orientations, linear, angular)}
    if len(lengths) > 1:
        return Problem(UNEQUAL_LENGTHS, f'{len(ids)} ids, {len(positions)} positions, {len(orientations)} '
                                        f'orientations, {len(linear)} and {len(angular)} velocities')
    if len(set(ids)) < len(ids):
        return Problem(DUPLICATE_ID, f"'{Counter(ids).most_common(1)[0][0]}' stands for more than one vehicle")
    return (_check_frame(frame_id, map_frame)
            or _check_finite(**{'vehicle positions': positions, 'vehicle orientations': orientations,
                                'vehicle velocities': linear, 'vehicle rotation rates': angular})
            or _check_rotations(ids, orientations))


def check_command(frame_id: str, acceleration: float, *, body_frame: str = 'base_link') -> Problem | None:
    """Check a command: an acceleration along the body's x axis."""
    return _check_frame(frame_id, body_frame) or _check_finite(acceleration=acceleration)


def _check_frame(frame_id: str, expected: str) -> Problem | None:
    return None if frame_id == expected else Problem(WRONG_FRAME, f"frame '{frame_id}', expected '{expected}'")


def _check_finite(**values: object) -> Problem | None:
    for name, value in values.items():
        if not np.isfinite(np.asarray(value, dtype=float)).all():
            return Problem(NOT_FINITE, f'{name} has NaN or infinity in it')
    return None


def _check_rotations(ids: Sequence[str], orientations: Sequence[Sequence[float]]) -> Problem | None:
    for name, orientation in zip(ids, orientations, strict=True):
        length = math.hypot(*orientation)   # which does not overflow
        if abs(length - 1.0) > QUATERNION_TOLERANCE:
            return Problem(NOT_A_ROTATION, f"the quaternion of '{name}' has length {length:g}")
    return None


class InputGuard:
    """Watches one input: lets valid messages in, counts the others, knows when it has been silent for too long."""

    def __init__(self, name: str, stale_after: float, clock: Clock = time.monotonic) -> None:
        self.name = name
        self.stale_after = stale_after
        self.accepted = 0
        self.refused: Counter[str] = Counter()
        self._clock = clock
        self._last_good: float | None = None
        self._last_stamp: int | None = None
        self._refusing: str | None = None
        self._stale = False
        self._reports: list[str] = []

    @property
    def seen(self) -> bool:
        """Whether there has been a valid message at all."""
        return self._last_good is not None

    def offer(self, stamp: int, problem: Problem | None) -> bool:
        """Take a message with its stamp (ns) and what is wrong with it; return whether to use it.

        After a silence the next valid message may carry any stamp: its source may have been started anew.
        """
        stale = self.is_stale()
        if problem is None and not stale and self._last_stamp is not None and stamp < self._last_stamp:
            problem = Problem(BACKWARDS, f'from {self._last_stamp} to {stamp} ns')
        if problem is not None:
            self.refused[problem.kind] += 1
            if problem.kind != self._refusing:
                self._reports.append(f'{self.name} refused: {problem.kind}, {problem.detail}')
            self._refusing = problem.kind
            return False
        if stale or self._refusing is not None:
            self._reports.append(f'{self.name} is valid again')
        self._refusing, self._stale = None, False
        self._last_good, self._last_stamp = self._clock(), stamp
        self.accepted += 1
        return True

    def is_stale(self) -> bool:
        """Whether the last valid message is too old; false before the first."""
        if self._last_good is not None and not self._stale and self._clock() - self._last_good > self.stale_after:
            self._stale = True
            self._reports.append(f'{self.name} is stale: nothing valid for {self.stale_after:g} s')
        return self._stale

    def take_reports(self) -> list[str]:
        """Return what has happened since the last call, one line for each edge."""
        reports, self._reports = self._reports, []
        return reports

    def status(self) -> dict[str, str]:
        """Return the counters, for diagnostics."""
        return {f'{self.name} accepted': str(self.accepted),
                **{f'{self.name} refused, {kind}': str(count) for kind, count in sorted(self.refused.items())}}


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
