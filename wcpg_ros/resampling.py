"""CVaR of resampled episodes: how much of a difference between policies is luck."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000


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
