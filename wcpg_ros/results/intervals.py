"""What counts and means are worth: intervals and paired tests, all at 95%.

Two controllers meet the same episodes, so they are compared episode by episode (McNemar, bootstraps of whole episodes),
and many comparisons at once are corrected by Holm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from wcpg_ros.resampling import RESAMPLES

LEVEL = 0.95


class Interval(NamedTuple):
    """A value and the interval around it."""

    value: float
    low: float
    high: float


def wilson(count: int, n: int) -> Interval:
    """A share, with Wilson's score interval: right on average."""
    interval = stats.binomtest(count, n).proportion_ci(LEVEL, method='wilson')
    return Interval(count / n, float(interval.low), float(interval.high))


def clopper_pearson(count: int, n: int) -> Interval:
    """A share, with the exact interval: never too narrow, for claims of safety."""
    interval = stats.binomtest(count, n).proportion_ci(LEVEL, method='exact')
    return Interval(count / n, float(interval.low), float(interval.high))


def bootstrap_mean(values: NDArray, seed: int = 0) -> Interval:
    """A mean, with the percentile interval of resampled means (NaN of nothing)."""
    if not len(values):
        return Interval(float('nan'), float('nan'), float('nan'))
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    blocks = (values[rng.integers(0, len(values), (RESAMPLES // 20, len(values)))] for _ in range(20))
    return _percentiles(float(values.mean()), np.concatenate([block.mean(axis=1) for block in blocks]))


def difference(value: float, drawn: NDArray[np.float64]) -> tuple[Interval, float]:
    """A difference with its bootstrap interval, and the two-sided p-value that it is none."""
    beyond = min(np.mean(drawn <= 0.0), np.mean(drawn >= 0.0))
    return _percentiles(value, drawn), float(min(1.0, 2.0 * (beyond * len(drawn) + 1.0) / (len(drawn) + 1.0)))


def paired_difference(first: NDArray, second: NDArray, statistic: Callable[[NDArray], float] = np.mean,
                      seed: int = 0) -> tuple[Interval, float]:
    """statistic(first) - statistic(second) over the same episodes, resampled alike, and its p-value."""
    rng = np.random.default_rng(seed)
    n = len(first)
    picks = (rng.integers(0, n, n) for _ in range(RESAMPLES))
    drawn = np.array([statistic(first[pick]) - statistic(second[pick]) for pick in picks])
    return difference(statistic(first) - statistic(second), drawn)


def mcnemar_exact(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """p-value that two controllers fail equally often, from the same episodes: only those that differ count."""
    table = [[np.sum(first & second), np.sum(first & ~second)], [np.sum(~first & second), np.sum(~first & ~second)]]
    return float(mcnemar(table, exact=True).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several comparisons, corrected so that one error among all of them stays as rare."""
    return [float(p) for p in multipletests(p_values, method='holm')[1]] if len(p_values) else []


def _percentiles(value: float, drawn: NDArray[np.float64]) -> Interval:
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(value, float(low), float(high))
