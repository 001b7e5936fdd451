"""Which episodes are for what. An episode is its seed, so ranges that never meet keep uses apart.

In terms of `evaluate --seed`: 0 … 999 are for reporting, 1000 is validation's, from 2000 on is training's.
"""

from sim_node.seeds import EPISODES_PER_SEED, episode_seed
from sim_node.settings import whole_number

VALIDATION_SEED = 1000
VALIDATION = episode_seed(VALIDATION_SEED, 0)  # for choosing checkpoints and recipes
TRAINING = episode_seed(2000, 0)
TRAINING_RANGE = 100 * EPISODES_PER_SEED       # episodes that a run may learn from

LAST_RUN_SEED = 2 ** 32 - 1                    # what the libraries of the baselines take


def run_seed(seed: int) -> int:
    """The seed of a training run, or an error."""
    return whole_number('seed', seed, 0, LAST_RUN_SEED)


def training_start(run_seed: int) -> int:
    """The first training episode of a run."""
    return TRAINING + run_seed * TRAINING_RANGE


def settling_start(run_seed: int) -> int:
    """The first episode of those that its critic settles on, which its policy has not learnt from."""
    return training_start(run_seed) + TRAINING_RANGE // 2
