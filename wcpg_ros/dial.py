"""The dial: which trained risk level serves the user's alpha.

A policy trained at level l maximises, in every state, CVaR at l of what may come *from there on*. What a user means by
alpha is the worst alpha share of *episodes*. The two differ: a risk already survived counts no more in later states,
so the policy of l drives episodes as somebody does who looks at another share of them. After training every level is
driven on the validation seeds, and each alpha is given the level whose episodes have the best CVaR at alpha. Around
its best CVaR is flat, and which level happens to win is luck: the episodes are resampled, and every level that wins
is as good. Among them whoever turns the dial down means a careful one, whoever turns it up a quick one: the winners'
quantile is taken from their lowest tenth (alpha = 0.01) over the middle (0.1) to their highest (1). The pairs travel
in the model file; between them the dial is linear.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wcpg_ros.resampling import bootstrap_cvars
from wcpg_ros.risk import HIGHEST_LEVEL

# The alphas that are calibrated.
KNOTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
RESAMPLES = 200

Pairs = Sequence[Sequence[float]]     # (alpha, level), rising


class DialError(ValueError):
    """Pairs that make no dial."""


def check_dial(pairs: Pairs) -> None:
    """A DialError unless alphas rise, levels do not fall, and all are within their bounds."""
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(end, (int, float)) and 0.0 < end <= highest
                                     for end, highest in zip(pair, (1.0, HIGHEST_LEVEL), strict=True)):
            raise DialError(f'{pair!r} is not an alpha within (0, 1] and a level within (0, {HIGHEST_LEVEL:g}]')
    if len(pairs) == 1:
        raise DialError('one pair makes no dial: give two or more, or none')
    for (alpha, level), (higher_alpha, higher_level) in itertools.pairwise(pairs):
        if not (alpha < higher_alpha and level <= higher_level):
            raise DialError(f'after {[alpha, level]} comes {[higher_alpha, higher_level]}: '
                            'alphas must rise and levels must not fall')


def levels_of(pairs: Pairs, alpha: ArrayLike) -> NDArray[np.float32]:
    """The trained level for each alpha; no pairs, no change."""
    array = np.asarray(alpha, np.float32)
    if not pairs:
        return array
    alphas, levels = np.asarray(pairs, np.float32).T     # in the precision of alpha: at a pair, its level exactly
    return np.interp(array, alphas, levels).astype(np.float32)


def spread_levels(minimum: float, maximum: float, count: int) -> NDArray[np.float32]:
    """Levels to drive, spread evenly over log level."""
    return np.geomspace(minimum, maximum, count).astype(np.float32).clip(np.float32(minimum), np.float32(maximum))


def calibrate(levels: NDArray, returns: NDArray, knots: Sequence[float] = KNOTS) -> list[list[float]]:
    """Pairs for `knots`, from the returns [levels, episodes] that rising levels had in the same episodes."""
    _, drawn = bootstrap_cvars(returns, knots, RESAMPLES)
    winners = np.argmax(_smooth(drawn), axis=1)                  # [resamples, knots]
    places = np.clip(0.9 + 0.4 * np.log10(knots), 0.1, 0.9)
    log_levels = np.log(levels.astype(np.float64))
    chosen = [np.exp(np.quantile(log_levels[won], place))
              for won, place in zip(winners.T, places, strict=True)]
    return [[alpha, float(f'{level:.4g}')]
            for alpha, level in zip(knots, np.maximum.accumulate(chosen), strict=True)]


def _smooth(values: NDArray) -> NDArray:
    """Each value with those of the neighbouring levels (axis 1), twice: one lucky level must not win."""
    for _ in range(2):
        padded = np.pad(values, ((0, 0), (1, 1), (0, 0)), mode='edge')
        values = 0.25 * padded[:, :-2] + 0.5 * padded[:, 1:-1] + 0.25 * padded[:, 2:]
    return values
