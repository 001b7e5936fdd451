"""What the critic's outputs mean: heads, a part you swap.

| head          | outputs                              | learns by                 | CVaR                           |
|---------------|--------------------------------------|---------------------------|--------------------------------|
| `gaussian`    | mean Q, logit of the variance Y      | Eq. 6 target, Eq. 8 loss  | Q - c(alpha) sqrt(Y), Eq. 9    |
| `quantile`    | 2K quantiles, K below alpha (; mean) | quantile Huber (; squared)| the first K (, corrected)      |
| `categorical` | logits of fixed returns              | cross-entropy             | worst atoms, categorical.py    |

Y is the paper's Upsilon. All see returns divided by `return_scale`, one sample per column, and write into
arrays they are given. The equations are functions of single numbers: read, tested and compiled into the loops.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wcpg_ros.categorical import CategoricalHead
from wcpg_ros.networks import ONE, ZERO, Array, compiled
from wcpg_ros.risk import VARIANCE_FLOOR, quantile_edges, quantile_mean_std, risk_measure
from wcpg_ros.settings import CriticSettings

SMALLEST_LEVEL = np.float32(1e-4)    # whose weight is the largest
MEAN_WEIGHT = np.float32(0.1)        # of the squared error: at 1 the layers before it serve the mean, not the far tail
LOSS_CODES = {'wasserstein': 0, 'squared': 1, 'likelihood': 2}


class Head(Protocol):
    """What the learner needs to know of a critic's outputs."""

    outputs: int

    def prepare(self, alpha: Array) -> None:
        """Compute what depends on the minibatch's alphas alone; the calls below use it."""

    def risk(self, out: Array, value: Array, gradient: Array) -> None:
        """value = the risk measure of each column of `out`; gradient = its derivative by `out`."""

    def loss(self, out: Array, next_out: Array, reward: Array, bootstrap: Array, gradient: Array) -> float:
        """The mean loss of `out` against the target made of reward + bootstrap * next_out; its derivative by `out`."""

    def moments(self, out: Array, alpha: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of the return each column of `out` describes, in scaled units."""


def make_head(settings: CriticSettings, risk: str) -> Head:
    """The head the settings ask for."""
    if settings.kind == 'gaussian':
        return GaussianHead(settings.variance_target, settings.variance_loss, risk)
    low, high = (end / settings.return_scale for end in settings.return_range)
    if settings.kind == 'categorical':
        return CategoricalHead(settings.atoms, low, high)
    return QuantileHead(settings.quantiles, settings.kappa / settings.return_scale, risk, (low, high),
                        mean=settings.mean)


@compiled
def softplus(x: float) -> float:
    """log(1 + exp(x)) without overflow."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@compiled
def sigmoid(x: float) -> float:
    """The derivative of softplus."""
    return 1.0 / (1.0 + np.exp(-x))


@compiled
def mean_target(reward: float, bootstrap: float, next_mean: float) -> float:
    """Bellman's equation for the mean, one sample: r + gamma Q'. `bootstrap` is gamma, or 0 at a terminal."""
    return reward + bootstrap * next_mean


@compiled
def variance_target_paper(reward: float, bootstrap: float, next_mean: float, next_variance: float,
                          mean: float) -> float:
    """Eq. 6, one sample: r² + 2 gamma r Q' + gamma² Y' + gamma² Q'² - Q². Right on average, often negative."""
    return mean_target(reward, bootstrap, next_mean) ** 2 + bootstrap ** 2 * next_variance - mean ** 2


@compiled
def variance_target_td_error(reward: float, bootstrap: float, next_mean: float, next_variance: float,
                             mean: float) -> float:
    """(r + gamma Q' - Q)² + gamma² Y': equals Eq. 6 on average once Q is right, and cannot be negative."""
    return (mean_target(reward, bootstrap, next_mean) - mean) ** 2 + bootstrap ** 2 * next_variance


@compiled
def wasserstein(mean: float, std: float, other_mean: float, other_std: float) -> float:
    """Eq. 8 for one-dimensional Gaussians: (mu1 - mu2)² + (sigma1 - sigma2)²."""
    return (mean - other_mean) ** 2 + (std - other_std) ** 2


@compiled
def variance_loss(code: int, variance: float, target: float) -> tuple[float, float]:
    """The loss on the variance and its derivative.

    wasserstein  (sqrt(Y) - sqrt(T))², the second term of Eq. 8; T is clamped, a negative one has no root
    squared      (Y - T)², whose minimum is the mean of T
    likelihood   (log Y + T / Y) / 2, whose minimum is the mean of T too, whatever the scale of returns
    """
    if code == 0:
        std, target_std = np.sqrt(variance), np.sqrt(max(target, 0.0))
        return wasserstein(0.0, std, 0.0, target_std), 1.0 - target_std / std
    if code == 1:
        return (variance - target) ** 2, 2.0 * (variance - target)
    return 0.5 * (np.log(variance) + target / variance), 0.5 * (1.0 - target / variance) / variance


@compiled
def _gaussian_loss(out: Array, next_out: Array, reward: Array, bootstrap: Array, td_error: bool, code: int,
                   gradient: Array) -> float:
    size = out.shape[1]
    total = 0.0
    for j in range(size):
        mean, logit = float(out[0, j]), float(out[1, j])
        variance = softplus(logit) + VARIANCE_FLOOR
        next_mean, next_variance = float(next_out[0, j]), softplus(float(next_out[1, j])) + VARIANCE_FLOOR
        arguments = (float(reward[j]), float(bootstrap[j]), next_mean, next_variance, mean)
        target = variance_target_td_error(*arguments) if td_error else variance_target_paper(*arguments)
        error = mean - mean_target(reward[j], bootstrap[j], next_mean)
        value, slope = variance_loss(code, variance, target)
        total += error * error + value
        gradient[0, j] = 2.0 * error / size
        gradient[1, j] = slope * sigmoid(logit) / size
    return total / size


@compiled
def _gaussian_risk(out: Array, coefficient: NDArray[np.float64], value: Array, gradient: Array) -> None:
    for j in range(out.shape[1]):
        std = np.sqrt(softplus(float(out[1, j])) + VARIANCE_FLOOR)
        value[j] = out[0, j] - coefficient[j] * std
        gradient[0, j] = 1.0
        gradient[1, j] = -coefficient[j] * sigmoid(float(out[1, j])) / (2.0 * std)


class GaussianHead:
    """N(Q, Y) with Y = softplus(logit) + floor."""

    outputs = 2

    def __init__(self, variance_target: str, variance_loss: str, risk: str) -> None:
        self._td_error = variance_target == 'td_error'
        self._code = LOSS_CODES[variance_loss]
        self._measure = risk_measure(risk)
        self._coefficient = np.zeros(0)

    def prepare(self, alpha: Array) -> None:
        self._coefficient = self._measure.coefficient(alpha)

    def risk(self, out: Array, value: Array, gradient: Array) -> None:
        """Eq. 9, or another measure of the same form, with the derivatives Eq. 12 needs."""
        _gaussian_risk(out, self._coefficient, value, gradient)

    def loss(self, out: Array, next_out: Array, reward: Array, bootstrap: Array, gradient: Array) -> float:
        return _gaussian_loss(out, next_out, reward, bootstrap, self._td_error, self._code, gradient)

    def moments(self, out: Array, alpha: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        variance = np.logaddexp(0.0, out[1].astype(np.float64)) + VARIANCE_FLOOR
        return out[0].astype(np.float64), np.sqrt(variance)


@compiled
def quantile_huber(error: np.float32, level: np.float32, kappa: np.float32) -> tuple[np.float32, np.float32]:
    """|level - 1{error < 0}| * Huber_kappa(error) / kappa, and its derivative by the error."""
    clipped = min(max(error / kappa, np.float32(-1.0)), ONE)
    slope = (ONE - level if error < ZERO else level) * clipped
    return slope * (error - np.float32(0.5) * kappa * clipped), slope


@compiled
def _edge(shares: Array, alpha: np.float32, k: int) -> np.float32:
    """An edge of the slices, linear in alpha."""
    return shares[0, k] + alpha * (shares[1, k] - shares[0, k])


@compiled
def _quantile_loss(out: Array, next_out: Array, alpha: Array, shares: Array, reward: Array, bootstrap: Array,
                   kappa: np.float32, low: np.float32, high: np.float32, weighted: bool, gradient: Array) -> float:
    """The mean over samples and levels of the expected `quantile_huber` under the target's atoms, kept in [low, high].

    A low level t is weighted by 1 / sqrt(t): at its optimum every one's gradient then has the same variance.
    Unweighted, the far tail pulls so weakly that a rare loss is not learnt (docs/deviations.md).
    `shares` are the edges of the slices at alpha = 0 and 1, from which those of every alpha follow.
    """
    outputs, size = out.shape
    atoms = np.empty(outputs, np.float32)
    weights = np.empty(outputs, np.float32)
    total = 0.0
    for b in range(size):
        for j in range(outputs):
            atom = reward[b] + bootstrap[b] * next_out[j, b]
            atoms[j] = low if atom < low else high if atom > high else atom   # this way round a NaN stays one
            weights[j] = _edge(shares, alpha[b], j + 1) - _edge(shares, alpha[b], j)
        used = outputs
        if bootstrap[b] == ZERO:   # after a terminal every atom is the reward: one of weight 1 says the same
            used = 1
            weights[0] = ONE
        for i in range(outputs):
            level = np.float32(0.5) * (_edge(shares, alpha[b], i) + _edge(shares, alpha[b], i + 1))
            expected_loss = ZERO
            expected_slope = ZERO
            for j in range(used):
                loss, slope = quantile_huber(atoms[j] - out[i, b], level, kappa)
                expected_loss += weights[j] * loss
                expected_slope += weights[j] * slope
            weight = ONE / np.sqrt(max(level, SMALLEST_LEVEL)) if weighted else ONE
            gradient[i, b] = -weight * expected_slope / np.float32(size * outputs)
            total += weight * expected_loss
    return total / (size * outputs)


@compiled
def _mean_loss(out: Array, next_out: Array, reward: Array, bootstrap: Array, low: np.float32, high: np.float32,
               gradient: Array) -> float:
    """The weighted mean squared error of the means against Bellman's equation, kept in [low, high]."""
    size = out.size
    total = 0.0
    for b in range(size):
        target = mean_target(reward[b], bootstrap[b], next_out[b])
        error = out[b] - (low if target < low else high if target > high else target)
        total += MEAN_WEIGHT * error * error
        gradient[b] = np.float32(2.0) * MEAN_WEIGHT * error / np.float32(size)
    return total / size


@compiled
def _quantile_risk(out: Array, alpha: Array, shares: Array, weights: Array, std_weight: float, value: Array,
                   gradient: Array) -> None:
    outputs, size = out.shape
    value[:] = ZERO
    for i in range(outputs):
        for b in range(size):
            value[b] += weights[i, b] * out[i, b]
            gradient[i, b] = weights[i, b]
    if std_weight == 0.0:
        return
    for b in range(size):
        mean, square = 0.0, 0.0
        for i in range(outputs):
            probability = _edge(shares, alpha[b], i + 1) - _edge(shares, alpha[b], i)
            mean += probability * out[i, b]
            square += probability * out[i, b] ** 2
        std = np.sqrt(max(square - mean * mean, VARIANCE_FLOOR))
        value[b] -= std_weight * std
        for i in range(outputs):
            probability = _edge(shares, alpha[b], i + 1) - _edge(shares, alpha[b], i)
            gradient[i, b] -= std_weight * probability * (out[i, b] - mean) / std


@compiled
def _correct_by_mean(out: Array, alpha: Array, shares: Array, value: Array, gradient: Array) -> None:
    """Add a share alpha of what the quantiles' own mean lacks of the mean: risk.with_mean."""
    last, size = out.shape[0] - 1, out.shape[1]
    for b in range(size):
        quantile_mean = ZERO
        for i in range(last):
            probability = _edge(shares, alpha[b], i + 1) - _edge(shares, alpha[b], i)
            quantile_mean += probability * out[i, b]
            gradient[i, b] -= alpha[b] * probability
        value[b] += alpha[b] * (out[last, b] - quantile_mean)
        gradient[last, b] = alpha[b]


class QuantileHead:
    """2K quantiles, at the midpoints of K slices of [0, alpha] and K of [alpha, 1]; if asked for, the mean.

    A gamble makes the quantiles a step, and of how likely it is to be lost they tell only which slice the step lies in:
    their own mean is a staircase, flat where an actor looks for a slope. An output for the mean, learnt by squared
    errors, has one.
    """

    def __init__(self, count: int, kappa: float, risk: str, return_range: tuple[float, float],
                 weighted: bool = True, mean: bool = False) -> None:
        self.outputs = 2 * count + mean
        self._low, self._high = (np.float32(end) for end in return_range)
        self._weighted = weighted
        self._count = count
        self._mean = mean
        self._shares = quantile_edges([0.0, 1.0], count).astype(np.float32)
        self._kappa = np.float32(max(kappa, 1e-12))   # 0 is the plain quantile loss
        self._measure = risk_measure(risk)
        self._alpha = np.zeros(0, np.float32)
        self._weights = np.zeros((2 * count, 0), np.float32)

    def prepare(self, alpha: Array) -> None:
        self._alpha = alpha
        # CVaR's weights are the same for every alpha: its levels move instead.
        if self._measure.name != 'cvar' or self._weights.shape[1] != alpha.size:
            weights = self._measure.quantile_weights(alpha, self._count)
            self._weights = np.ascontiguousarray(weights.T, dtype=np.float32)

    def risk(self, out: Array, value: Array, gradient: Array) -> None:
        quantiles = slice(2 * self._count)
        _quantile_risk(out[quantiles], self._alpha, self._shares, self._weights, self._measure.std_weight, value,
                       gradient[quantiles])
        if self._mean:
            _correct_by_mean(out, self._alpha, self._shares, value, gradient)

    def loss(self, out: Array, next_out: Array, reward: Array, bootstrap: Array, gradient: Array) -> float:
        quantiles = slice(2 * self._count)
        loss = _quantile_loss(out[quantiles], next_out[quantiles], self._alpha, self._shares, reward, bootstrap,
                              self._kappa, self._low, self._high, self._weighted, gradient[quantiles])
        if self._mean:
            loss += _mean_loss(out[-1], next_out[-1], reward, bootstrap, self._low, self._high, gradient[-1])
        return loss

    def moments(self, out: Array, alpha: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        mean, std = quantile_mean_std(out[:2 * self._count].T, alpha)
        return out[-1].astype(np.float64) if self._mean else mean, std
