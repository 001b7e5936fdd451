"""How time tells episodes apart: each begins at a multiple of 10 s, so stamps alone show where and in which phase."""

from __future__ import annotations

STEP_NANOSECONDS = 100_000_000
EPISODE_GRID = 10_000_000_000      # ns between the times at which an episode may begin
EPISODE_JUMP = 5_000_000_000       # ns: a stamp this much later than the last one begins an episode


def episode_start(stamp: int) -> int:
    """Where an episode began whose first known stamp (ns) this is."""
    return stamp - stamp % EPISODE_GRID


def next_start(stamp: int) -> int:
    """Where the next episode begins after a stamp (ns): far enough ahead to be seen as a jump."""
    return -(-(stamp + EPISODE_JUMP) // EPISODE_GRID) * EPISODE_GRID
