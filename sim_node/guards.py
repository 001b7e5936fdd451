"""What may be believed of a message: checks of its numbers, and a guard over each input. No ROS.

A message is checked, then offered to its `InputGuard`, which also watches stamps and age. Times are seconds of a steady
clock, which does not stop with /clock.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
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
AHEAD = 'stamp is ahead'
BAD_STAMP = 'not a time'
UNREADABLE = 'unreadable'

LAST_STAMP = 2**31 * 1_000_000_000 - 1     # ns: a message's seconds have 32 bits
REPEAT_SECONDS = 5.0       # between two reports of a problem that comes and goes
FORGET_SECONDS = 25        # DDS remembers a publisher that was killed for 20 s


class Problem(NamedTuple):
    """Why a message is refused."""

    kind: str
    detail: str


def check_frame(frame_id: str, expected: str) -> Problem | None:
    """Check that a message is in the frame it should be in."""
    return None if frame_id == expected else Problem(WRONG_FRAME, f"frame '{frame_id}', expected '{expected}'")


def check_finite(**values: object) -> Problem | None:
    """Check named numbers, or arrays of them, for NaN and infinities."""
    for name, value in values.items():
        if not np.isfinite(np.asarray(value, dtype=float)).all():
            return Problem(NOT_FINITE, f'{name} has NaN or infinity in it')
    return None


def check_command(frame_id: str, acceleration: float, *, body_frame: str = 'base_link') -> Problem | None:
    """Check a command: an acceleration along the body's x axis."""
    return check_frame(frame_id, body_frame) or check_finite(acceleration=acceleration)


def check_not_ahead(stamp: int, newest: int) -> Problem | None:
    """Check that a command answers a state that has been shown: one far ahead would make all that follow look old."""
    if stamp <= newest:
        return None
    return Problem(AHEAD, f'{stamp} ns answers no state, the newest is {newest} ns; copy the stamp of the state')


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
        self._announced = False                                # whether what is being refused has been reported
        self._last_report: dict[str, tuple[float, int]] = {}   # of each kind: when, and how many were accepted by then
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
        if problem is None and abs(stamp) > LAST_STAMP:
            problem = Problem(BAD_STAMP, f'{stamp} ns does not fit a stamp')
        if problem is None and not stale and self._last_stamp is not None and stamp < self._last_stamp:
            problem = Problem(BACKWARDS, f'from {self._last_stamp} to {stamp} ns; does another node publish it too?')
        if problem is not None:
            self.refused[problem.kind] += 1
            if problem.kind != self._refusing:
                self._report(problem)
            self._refusing = problem.kind
            return False
        if stale or self._announced:
            self._reports.append(f'{self.name} is valid again')
        self._refusing, self._announced, self._stale = None, False, False
        self._last_good, self._last_stamp = self._clock(), stamp
        self.accepted += 1
        return True

    def _report(self, problem: Problem) -> None:
        when, accepted = self._last_report.get(problem.kind, (-math.inf, 0))
        if self.accepted == accepted or self._clock() - when >= REPEAT_SECONDS:
            self._last_report[problem.kind] = self._clock(), self.accepted
            self._announced = True
            self._reports.append(f'{self.name} refused: {problem.kind}, {problem.detail}')

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


class SoleSource:
    """Notices that a topic has more than one publisher, and not just one that was killed and another in its place."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seconds = 0

    def look(self, publishers: int) -> str | None:
        """Take their number, once a second; return what to report, once."""
        self._seconds = self._seconds + 1 if publishers > 1 else 0
        if self._seconds != FORGET_SECONDS:
            return None
        return f'{self.name} has {publishers} publishers, where one is believed: stop the others (ros2 topic info -v)'
