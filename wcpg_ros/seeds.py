"""Which episodes are for what. An episode is its seed, so ranges that never meet keep uses apart."""

REPORTING = 0                  # what `evaluate` counts up from: never learnt from, never chosen on
VALIDATION = 1_000_000_000     # for choosing checkpoints and recipes
TRAINING = 2_000_000_000       # run `s` learns from TRAINING + s * TRAINING_RANGE onwards
TRAINING_RANGE = 100_000_000


def training_start(run_seed: int) -> int:
    """The first training episode of a run."""
    return TRAINING + run_seed * TRAINING_RANGE
