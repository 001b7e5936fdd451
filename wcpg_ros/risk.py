"""Risk measures: what a distribution of returns is worth at risk level alpha.

A return is a reward: large is good, and the risk lies in the lower tail. alpha in (0, 1] is the share of
worst cases looked at; alpha = 1 is risk-neutral for CVaR and Wang.

| name       | value of a Gaussian N(mu, sigma²)               | reads |
|------------|-------------------------------------------------|-------|
| `cvar`     | mu - sigma * phi(z) / alpha, z = Phi⁻¹(alpha)    | mean of the worst alpha share (Eq. 4), exact |
| `paper`    | mu - sigma * phi(alpha) / Phi(alpha)            | the same as Eq. 9 prints it; Gaussians only |
| `var`      | mu + sigma * Phi⁻¹(alpha)                       | the alpha quantile |
| `wang`     | mu + sigma * Phi⁻¹(alpha / 2)                   | Wang's transform: every level shifted to worse |
| `mean_std` | mu - k * sigma, k = 1, or `mean_std:k`          | alpha plays no part |

Every measure of a Gaussian is mu - c(alpha) * sigma, and `coefficient` gives c. For a quantile critic it is
a weighted sum of the quantiles, and `quantile_weights` gives the weights.

NumPy only: what drives the car imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Added to the Gaussian critic's variance, softplus(logit): logits below -88 occur and would make it zero.
VARIANCE_FLOOR = 1e-6

# A Gaussian's VaR at alpha = 1 is infinite; a dial that ends at 1 needs a number there.
VAR_MAX_LEVEL = 0.99

# Of trained levels: up to 1 they are shares of futures, from there on they move the cap on returns.
HIGHEST_LEVEL = 2.0


def second_critic_share(alpha: NDArray, caution: float, first: NDArray, second: NDArray) -> NDArray:
    """How much the second of two critics counts, by their risk values: where alpha is small, the worse has `caution`.

    At alpha = 1 it has no more than the other: what two critics disagree about is a risk too, but to fear it at every
    alpha would make the risk-neutral end careful. A caution of 0.5 is none.
    """
    worse = caution - (caution - 0.5) * alpha
    return np.where(second < first, worse, 1.0 - worse)


def with_mean(value: Array, alpha: ArrayLike, mean: Array, quantile_mean: Array) -> Array:
    """A quantile critic's risk value, and a share alpha of what its quantiles' own mean lacks of its mean.

    Nothing where the quantiles are right. At alpha = 1 it is the mean; at small alpha, whose value lies in few slices,
    the quantiles alone.
    """
    return value + np.asarray(alpha) * (mean - quantile_mean)


def _by_power(numerator: tuple[float, ...], denominator: tuple[float, ...]) -> Array:
    return np.array([numerator, denominator]).T[..., None]


# Wichura, Algorithm AS 241 (PPND16): numerator and denominator, highest power first, of the three rational
# approximations of Phi⁻¹, accurate to about 1 part in 10¹⁶.
_CENTRE = _by_power(
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
_TAIL = _by_power(
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)
_FAR_TAIL = _by_power(
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)

_erfc = np.frompyfunc(math.erfc, 1, 1)


def check_alpha(alpha: ArrayLike) -> Array:
    """alpha as float64, or a ValueError if any of it lies outside (0, 1]."""
    levels = np.asarray(alpha, dtype=np.float64)
    bad = ~((levels > 0.0) & (levels <= 1.0))   # written so that NaN is bad
    if bad.any():
        raise ValueError(f'alpha = {levels[bad].flat[0]:g} is not a risk level: choose 0 < alpha <= 1')
    return levels


def normal_pdf(x: ArrayLike) -> Array:
    """phi(x), the standard normal density."""
    x = np.asarray(x, dtype=np.float64)
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def normal_cdf(x: ArrayLike) -> Array:
    """Phi(x), the standard normal distribution function (below Eq. 9), accurate in the lower tail too."""
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(0.5 * _erfc(-x / math.sqrt(2.0)), dtype=np.float64)[()]


def _rational(coefficients: Array, t: Array) -> Array:
    """Both polynomials at once, in place (Horner): this runs for every minibatch."""
    value = np.repeat(coefficients[0], t.size, axis=-1)
    for coefficient in coefficients[1:]:
        value *= t
        value += coefficient
    return value[0] / value[1]


def normal_quantile(p: ArrayLike) -> Array:
    """Phi⁻¹(p): -inf at 0, inf at 1, NaN outside [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    q = p - 0.5
    tail = np.minimum(p, 1.0 - p)
    with np.errstate(divide='ignore', invalid='ignore'):
        r = np.sqrt(-np.log(tail))
    centre = np.abs(q) <= 0.425
    z = np.where(tail == 0.0, np.inf, np.nan)
    for coefficients, where, argument in (
        (_CENTRE, centre, 0.180625 - q * q),
        (_TAIL, ~centre & (r <= 5.0), r - 1.6),
        (_FAR_TAIL, (r > 5.0) & (r < np.inf), r - 5.0),
    ):
        if where.any():
            z[where] = _rational(coefficients, argument[where])
    return np.where(centre, q * z, np.copysign(z, q))[()]


def quantile_edges(alpha: ArrayLike, count: int) -> Array:
    """The shares 0, ..., alpha, ..., 1 between which a quantile critic's 2*count outputs lie, last axis.

    The first `count` slices divide [0, alpha], so that even alpha = 0.02 is `count` numbers. They widen from 0 on,
    as squares: at alpha = 1, too, a loss that one of a thousand futures brings has slices of its own.
    """
    alpha = np.asarray(alpha, dtype=np.float64)[..., None]
    share = np.arange(count + 1) / count
    return np.concatenate([alpha * share ** 2, alpha + (1.0 - alpha) * share[1:]], axis=-1)


def quantile_probabilities(alpha: ArrayLike, count: int) -> Array:
    """Probability of each of a quantile critic's 2*count outputs, last axis."""
    return np.diff(quantile_edges(alpha, count), axis=-1)


def quantile_levels(alpha: ArrayLike, count: int) -> Array:
    """Levels of a quantile critic's 2*count outputs, last axis: the midpoints of its slices."""
    edges = quantile_edges(alpha, count)
    return 0.5 * (edges[..., 1:] + edges[..., :-1])


@dataclass(frozen=True)
class RiskMeasure:
    """One measure. For a Gaussian: mu - coefficient(alpha) * sigma. For a quantile critic's outputs z:
    sum(quantile_weights * z) - std_weight * std(z)."""

    name: str
    _coefficient: Callable[[Array], Array]
    _distortion: Callable[[Array, Array], Array] | None   # g(u, alpha): worth of the worst u share, g(1) = 1
    std_weight: float = 0.0

    def coefficient(self, alpha: ArrayLike) -> Array:
        """c(alpha) of Eq. 9's form, for Gaussian returns."""
        return self._coefficient(check_alpha(alpha))[()]

    def quantile_weights(self, alpha: ArrayLike, count: int) -> Array:
        """Weights on a critic's 2*count quantiles (see quantile_levels), summing to 1 along the last axis."""
        if self._distortion is None:
            raise ValueError(f'risk measure {self.name!r} is a Gaussian formula: with a quantile critic use `cvar`')
        alpha = check_alpha(alpha)
        return np.diff(self._distortion(quantile_edges(alpha, count), alpha[..., None]), axis=-1)

    def of_gaussian(self, mean: ArrayLike, std: ArrayLike, alpha: ArrayLike) -> Array:
        """The value of N(mean, std²) at level alpha."""
        return np.asarray(mean) - self.coefficient(alpha) * np.asarray(std)

    def of_quantiles(self, values: ArrayLike, alpha: ArrayLike) -> Array:
        """The value of a quantile critic's outputs (last axis) at level alpha, for one alpha or one per row."""
        values = np.asarray(values, dtype=np.float64)
        count = _half(values)
        value = np.sum(self.quantile_weights(alpha, count) * values, axis=-1)
        if self.std_weight:
            value = value - self.std_weight * quantile_mean_std(values, alpha)[1]
        return value


def _half(values: Array) -> int:
    if values.ndim == 0 or values.shape[-1] % 2 or not values.shape[-1]:
        raise ValueError(f'quantile values of shape {values.shape}: the last axis must hold 2*count values')
    return values.shape[-1] // 2


def quantile_mean_std(values: ArrayLike, alpha: ArrayLike) -> tuple[Array, Array]:
    """Mean and standard deviation of a quantile critic's outputs, as atoms with their probabilities."""
    values = np.asarray(values, dtype=np.float64)
    probability = quantile_probabilities(check_alpha(alpha), _half(values))
    mean = np.sum(probability * values, axis=-1)
    return mean, np.sqrt(np.sum(probability * (values - mean[..., None]) ** 2, axis=-1))


def _exact(alpha: Array) -> Array:
    return normal_pdf(normal_quantile(alpha)) / alpha


def _printed(alpha: Array) -> Array:
    return normal_pdf(alpha) / normal_cdf(alpha)


def _var_level(alpha: Array) -> Array:
    return np.minimum(alpha, VAR_MAX_LEVEL)


def _wang_shift(alpha: Array) -> Array:
    """Half of alpha, so that the shift is 0 at alpha = 1 and grows without bound towards 0."""
    return -normal_quantile(0.5 * alpha)


def _mean_std(k: float) -> RiskMeasure:
    return RiskMeasure('mean_std', lambda alpha: np.full_like(alpha, k), lambda u, alpha: u, std_weight=k)


_MEASURES = {
    'cvar': RiskMeasure('cvar', _exact, lambda u, alpha: np.minimum(u / alpha, 1.0)),
    'paper': RiskMeasure('paper', _printed, None),
    'var': RiskMeasure('var', lambda alpha: -normal_quantile(_var_level(alpha)),
                       lambda u, alpha: (u >= _var_level(alpha)).astype(np.float64)),
    'wang': RiskMeasure('wang', _wang_shift, lambda u, alpha: normal_cdf(normal_quantile(u) + _wang_shift(alpha))),
    'mean_std': _mean_std(1.0),
}
RISK_MEASURES = tuple(_MEASURES)


def risk_measure(name: str) -> RiskMeasure:
    """The measure of that name; `mean_std:0.5` sets k."""
    base, _, parameter = name.partition(':')
    if base == 'mean_std' and parameter:
        try:
            k = float(parameter)
        except ValueError:
            k = math.nan
        if not (math.isfinite(k) and k >= 0.0):
            raise ValueError(f'risk measure {name!r}: k must be a number >= 0, as in mean_std:0.5')
        return _mean_std(k)
    if name not in _MEASURES:
        raise ValueError(f'unknown risk measure {name!r}: choose one of {", ".join(RISK_MEASURES)} or mean_std:k')
    return _MEASURES[name]


def tail_share(level: ArrayLike) -> NDArray:
    """The share of futures that a trained level looks at: the level itself up to 1, above it all of them."""
    return np.minimum(level, np.float32(1.0))


def return_cap(level: ArrayLike, lowest: float, highest: float) -> Array:
    """What returns above it count as at a trained level: the lowest up to 1, rising to the highest at HIGHEST_LEVEL.

    The policy whose episodes have the best CVaR at alpha is the one with the best mean of min(return, q), q being its
    own alpha-quantile (Rockafellar and Uryasev 2000): it does not hurry beyond q, and once it cannot do better than q
    any more it minds risk no longer. CVaR of what may come from each state on knows neither.
    """
    place = np.log(np.maximum(np.asarray(level, dtype=np.float64), 1.0)) / math.log(HIGHEST_LEVEL)
    return lowest * (highest / lowest) ** place


def empirical_cvar(returns: ArrayLike, alpha: float) -> Array:
    """Eq. 4 on samples (last axis): the mean of the worst alpha share, the sample on its edge counted in part."""
    ordered = np.sort(np.asarray(returns, dtype=np.float64), axis=-1)
    if ordered.ndim == 0 or not ordered.shape[-1]:
        raise ValueError('empirical CVaR of no returns: give at least one')
    share = float(check_alpha(alpha)) * ordered.shape[-1]
    weights = np.clip(share - np.arange(ordered.shape[-1]), 0.0, 1.0)
    return np.sum(weights * ordered, axis=-1) / share


def atoms_cvar(values: ArrayLike, probabilities: ArrayLike, alpha: ArrayLike) -> Array:
    """Eq. 4 on atoms with their probabilities (last axis): the mean of the worst alpha share, one or one per row."""
    values = np.asarray(values, dtype=np.float64)
    order = np.argsort(values, axis=-1)
    worst = np.take_along_axis(values, order, axis=-1)
    share = np.take_along_axis(np.broadcast_to(probabilities, values.shape), order, axis=-1)
    level = check_alpha(alpha)[..., None]
    counted = np.clip(level - (np.cumsum(share, axis=-1) - share), 0.0, share)
    return np.sum(counted * worst, axis=-1) / np.sum(counted, axis=-1)
