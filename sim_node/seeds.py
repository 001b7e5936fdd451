"""Which seeds episodes have: a run's seed and a count, so that anybody can name and repeat a single episode."""

from __future__ import annotations

from sim_node.settings import SettingsError

EPISODES_PER_SEED = 1_000_000


def episode_seed(seed: int, episode: int) -> int:
    """The seed of an episode of a run: run 7's episode 12 is 7000012. Runs never share an episode."""
    if not 0 <= seed <= 9_000_000_000_000:
        raise SettingsError(f'seed: expected a whole number from 0 to 9e12, got {seed}')
    if not 0 <= episode < EPISODES_PER_SEED:
        raise SettingsError(f'episode: expected a whole number below {EPISODES_PER_SEED}, got {episode}')
    return seed * EPISODES_PER_SEED + episode
