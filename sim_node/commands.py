"""What the simulator makes of the commands it is sent: which it takes, and when it brakes by itself. No ROS."""

from __future__ import annotations

import math
from collections import Counter


class CommandWatch:
    """Judges commands and their absence. Times are seconds of a steady clock, handed in by the caller."""

    def __init__(self, timeout: float, limit: float, now: float) -> None:
        self.timeout = timeout
        self.limit = limit
        self.refused: Counter[str] = Counter()
        self.saturated = 0
        self._heard = now

    def take(self, value: float, frame: str, expected_frame: str, now: float) -> float | None:
        """The acceleration to apply (m/s², within the limit), or None for a command that is refused and counted."""
        reason = ''
        if not math.isfinite(value):
            reason = 'not finite'
        elif frame not in ('', expected_frame):
            reason = 'wrong frame'
        if reason:
            self.refused[reason] += 1
            return None
        self._heard = now
        if abs(value) > self.limit:
            self.saturated += 1
        return min(max(value, -self.limit), self.limit)

    def silent(self, now: float) -> bool:
        """Whether no valid command has come for longer than the timeout."""
        return now - self._heard > self.timeout

    def forgive(self, now: float) -> None:
        """Count the silence from now on, after a pause in which nobody had to speak."""
        self._heard = now
