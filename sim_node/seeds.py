"""Which seeds episodes have: a run's seed and a count, so that anybody can name and repeat a single episode."""

from __future__ import annotations

from sim_node.settings import whole_number

EPISODES_PER_SEED = 1_000_000
LAST_SEED = 9_000_000_000_000_999_999     # of an episode; a little below what 63 bits hold, so that counting on is safe


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an episode of a run: run 7's episode 12 is 7000012. Runs never share an episode."""
    seed = whole_number('seed', seed, 0, LAST_SEED // EPISODES_PER_SEED)
    return seed * EPISODES_PER_SEED + whole_number('episode', episode, 0, EPISODES_PER_SEED - 1)
