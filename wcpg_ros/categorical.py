"""A critic of probabilities over fixed returns (Bellemare et al. 2017): with n-step targets and alpha = 1 it is D4PG's.

Its outputs are logits of the atoms, equally spaced returns. It learns by the cross-entropy to the target r + gamma z',
whose probabilities go to the neighbouring atoms, and is worth CVaR_alpha: the mean of the worst alpha share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wcpg_ros.networks import ZERO, Array, compiled


@compiled
def softmax(logits: Array, probability: Array) -> None:
    """Of one column."""
    largest = logits.max()
    total = ZERO
    for i in range(logits.size):
        probability[i] = np.exp(logits[i] - largest)
        total += probability[i]
    for i in range(logits.size):
        probability[i] /= total


@compiled
def project(reward: float, bootstrap: float, low: float, step: float, next_probability: Array, target: Array) -> None:
    """target = the distribution of reward + bootstrap * z' on the atoms; what lies beyond the last goes to the last."""
    last = target.size - 1
    target[:] = ZERO
    for i in range(next_probability.size):
        place = (reward + bootstrap * (low + i * step) - low) / step
        if np.isnan(place):     # no atom's number can be made of it; the loss will be NaN and is noticed
            target[:] = np.nan
            return
        place = min(max(place, 0.0), float(last))
        below = min(int(place), last - 1)
        above_share = np.float32(place - below)
        target[below] += next_probability[i] * (np.float32(1.0) - above_share)
        target[below + 1] += next_probability[i] * above_share


@compiled
def tail(probability: Array, alpha: float, low: float, step: float, slope: Array) -> float:
    """CVaR_alpha of the atoms; `slope` is its derivative by the probabilities, up to a constant.

    More probability on a bad atom displaces as much at the edge of the tail, whose atom is q: (z - q) / alpha.
    """
    seen, total, edge = 0.0, 0.0, probability.size - 1
    for i in range(probability.size):
        share = float(probability[i])
        total += min(share, alpha - seen) * (low + i * step)
        seen += share
        if seen >= alpha:
            edge = i
            break
    total += max(alpha - seen, 0.0) * (low + edge * step)     # what rounding has left over
    for i in range(probability.size):
        slope[i] = (i - edge) * step / alpha if i < edge else 0.0
    return total / alpha


@compiled
def _loss(out: Array, next_out: Array, reward: Array, bootstrap: Array, low: float, step: float,
          gradient: Array) -> float:
    atoms, size = out.shape
    probability, following, target = np.empty(atoms, np.float32), np.empty(atoms, np.float32), np.empty(
        atoms, np.float32)
    total = 0.0
    for j in range(size):
        softmax(out[:, j], probability)
        softmax(next_out[:, j], following)
        project(reward[j], bootstrap[j], low, step, following, target)
        for i in range(atoms):
            total -= target[i] * np.log(probability[i] + np.float32(1e-12))
            gradient[i, j] = (probability[i] - target[i]) / np.float32(size)
    return total / size


@compiled
def _risk(out: Array, alpha: Array, low: float, step: float, value: Array, gradient: Array) -> None:
    atoms, size = out.shape
    probability, slope = np.empty(atoms, np.float32), np.empty(atoms, np.float32)
    for j in range(size):
        softmax(out[:, j], probability)
        value[j] = tail(probability, alpha[j], low, step, slope)
        mean_slope = ZERO
        for i in range(atoms):
            mean_slope += probability[i] * slope[i]
        for i in range(atoms):
            gradient[i, j] = probability[i] * (slope[i] - mean_slope)


class CategoricalHead:
    """Logits of atoms from `low` to `high`, in scaled returns."""

    def __init__(self, atoms: int, low: float, high: float) -> None:
        self.outputs = atoms
        self.atoms = np.linspace(low, high, atoms).astype(np.float32)
        self._low, self._step = low, (high - low) / (atoms - 1)
        self._alpha = np.zeros(0, np.float32)

    def prepare(self, alpha: Array) -> None:
        self._alpha = alpha

    def risk(self, out: Array, value: Array, gradient: Array) -> None:
        _risk(out, self._alpha, self._low, self._step, value, gradient)

    def loss(self, out: Array, next_out: Array, reward: Array, bootstrap: Array, gradient: Array) -> float:
        return _loss(out, next_out, reward, bootstrap, self._low, self._step, gradient)

    def moments(self, out: Array, alpha: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        probability = np.exp(out.astype(np.float64) - out.max(axis=0))
        probability /= probability.sum(axis=0)
        mean = self.atoms @ probability
        return mean, np.sqrt(np.maximum(self.atoms ** 2 @ probability - mean ** 2, 0.0))
