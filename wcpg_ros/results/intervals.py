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

LEVEL = 0.95
RESAMPLES = 2000


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


def bootstrap_cvars(returns: NDArray, alphas: Sequence[float], resamples: int = RESAMPLES, seed: int = 0
                    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Empirical CVaR of each policy's returns [policies, episodes] at each alpha, and the same of resampled episodes.

    The episodes are drawn alike for every policy: they meet the same traffic. Gives [policies, alphas] and
    [resamples, policies, alphas].
    """
    policies, n = returns.shape
    order = np.argsort(returns, axis=1)
    ordered = np.take_along_axis(np.asarray(returns, np.float64), order, axis=1)
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, policies, len(alphas)))
    for k in range(resamples):
        times = np.bincount(rng.integers(0, n, n), minlength=n)
        for i in range(policies):
            drawn[k, i] = _cvars(ordered[i], times[order[i]], alphas)
    once = np.ones(n, np.int64)
    return np.array([_cvars(row, once, alphas) for row in ordered]), drawn


def _cvars(ordered: NDArray[np.float64], times: NDArray[np.int64], alphas: Sequence[float]) -> list[float]:
    """CVaR of sorted values, each counted so many times."""
    counted, total = np.cumsum(times), np.cumsum(times * ordered)
    shares = [alpha * len(ordered) for alpha in alphas]
    edges = [min(int(np.searchsorted(counted, share)), len(ordered) - 1) for share in shares]
    # What lies below the edge, less what of its own value is beyond.
    return [float(total[k] - (counted[k] - share) * ordered[k]) / share
            for k, share in zip(edges, shares, strict=True)]


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
