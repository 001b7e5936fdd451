"""A trained policy at the wheel: observation and alpha in, acceleration out, in NumPy alone.

`act` gives the same bits for an observation alone or anywhere in a batch, so an episode driven over ROS equals the
same episode in a batch of thousands. A matrix product of a whole batch does not: BLAS sums in another order for
another number of rows. Here every row is its own stack [1, inputs] in `np.matmul`, one BLAS call of one fixed shape
per row; everything else is elementwise. Weights and rows are contiguous, since NumPy chooses the call by strides too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wcpg_ros.dial import levels_of
from wcpg_ros.model_file import CRITIC_LAYERS, ModelFile, ModelInfo
from wcpg_ros.risk import (
    VARIANCE_FLOOR,
    atoms_cvar,
    normal_cdf,
    normal_quantile,
    quantile_levels,
    quantile_mean_std,
    quantile_probabilities,
    risk_measure,
    tail_share,
    with_mean,
)

Floats = NDArray[np.float32]
Layers = dict[str, tuple[Floats, Floats]]

_ZERO = np.zeros((), np.float32)


@dataclass(frozen=True)
class Risk:
    """The critic's view of the return to come, in units of reward: floats for one row, arrays for a batch."""

    mean: Any
    std: Any
    cvar: Any   # at the alpha asked for, by the model's own risk measure


class Policy:
    """The actor and the critics of one model file. Actions are accelerations in m/s²."""

    def __init__(self, model: ModelFile) -> None:
        self.info: ModelInfo = model.info
        self._mean, self._std = (_as_row(model.tensors[f'normaliser.{name}']) for name in ('mean', 'std'))
        self._high = np.asarray(model.info.normaliser_clip, np.float32)
        self._low = -self._high
        self._dial = np.array([model.info.alpha_min, model.info.alpha_max], np.float32).tolist()
        self._bound = _not_above(model.info.action_bound)
        self._critics = [_layers(model, name) for name in model.networks if name != 'actor']
        self._atoms = np.asarray(model.tensors.get('atoms', ()), np.float64)
        actor = _layers(model, 'actor')
        self._h1, self._out = actor['h1'], actor['out']
        self._h2 = _as_row(actor['h2'][0]), actor['h2'][1]
        # h3 reads h1 and the alpha branch h2: in two parts, so that the second is kept while the dial rests.
        weight, self._h3_bias = actor['h3']
        width = self._h1[1].shape[-1]
        self._h3_from_h1, self._h3_from_h2 = weight[:width].copy(), weight[width:].copy()
        self._resting: tuple[float, Floats] = (math.nan, _ZERO)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy in a model file; a ModelError says what is wrong with the file."""
        return cls(ModelFile.load(path))

    def act(self, observation: ArrayLike, alpha: ArrayLike) -> Any:
        """Acceleration (m/s²) for one observation [d], as a float, or for a batch [n, d], as float32 [n].
        alpha is one number or, in a batch, one for each row."""
        rows, single = self._rows(observation)
        hidden = np.maximum(rows @ self._h1[0] + self._h1[1], _ZERO)
        hidden = np.maximum(hidden @ self._h3_from_h1 + self._alpha_branch(alpha, len(rows), single), _ZERO)
        action = np.tanh(hidden @ self._out[0] + self._out[1]) * self._bound
        return action.item() if single else action.reshape(-1)

    def risk(self, observation: ArrayLike, action: ArrayLike, alpha: ArrayLike) -> Risk:
        """Mean, standard deviation and CVaR (Eq. 9, or the quantiles') of the return after `action` (m/s², one or
        one for each row). Of two critics the one with the smaller CVaR speaks."""
        alphas, levels, output, (mean, std, cvar) = self._judgement(observation, action, alpha)
        single = np.ndim(observation) == 1
        if self.info.dial:     # the policy of one level, looked at with another
            cvar = self._tail(output, mean, std, levels, alphas)
        mean, std, cvar = np.stack([mean, std, cvar]) * self.info.return_scale
        return Risk(mean.item(), std.item(), cvar.item()) if single else Risk(mean, std, cvar)

    def probability(self, observation: ArrayLike, action: ArrayLike, alpha: ArrayLike, value: ArrayLike
                    ) -> NDArray[np.float64]:
        """The critic's probability of a return of at most `value`, for each row of a batch."""
        _, levels, output, (mean, std, _) = self._judgement(observation, action, alpha)
        scaled = np.broadcast_to(np.asarray(value, np.float64) / self.info.return_scale, len(output))
        if self.info.critic == 'gaussian':
            return normal_cdf((scaled - mean) / std)
        if self.info.critic == 'categorical':
            return np.sum(_softmax(output) * (self._atoms <= scaled[:, None]), axis=-1)
        return np.array([np.interp(at, values, shares, left=0.0, right=1.0)
                         for at, (shares, values) in zip(scaled, _curves(output, levels), strict=True)])

    def quantile(self, observation: ArrayLike, action: ArrayLike, alpha: ArrayLike, share: ArrayLike
                 ) -> NDArray[np.float64]:
        """The return below which the critic sees this share of what may come, for each row of a batch."""
        _, levels, output, (mean, std, _) = self._judgement(observation, action, alpha)
        wanted = np.broadcast_to(np.asarray(share, np.float64), len(output))
        if self.info.critic == 'gaussian':
            scaled = mean + std * normal_quantile(wanted)
        elif self.info.critic == 'categorical':
            below = np.cumsum(_softmax(output), axis=-1)
            scaled = self._atoms[np.minimum(np.sum(below < wanted[:, None], axis=-1), len(self._atoms) - 1)]
        else:
            scaled = np.array([np.interp(at, shares, values)
                               for at, (shares, values) in zip(wanted, _curves(output, levels), strict=True)])
        return scaled * self.info.return_scale

    def tail(self, observation: ArrayLike, action: ArrayLike, alpha: ArrayLike, level: float) -> NDArray[np.float64]:
        """CVaR at `level` of what the critic expects after `action` if the policy of `alpha` drives on, per row."""
        _, levels, output, (mean, std, _) = self._judgement(observation, action, alpha)
        return self._tail(output, mean, std, levels, level) * self.info.return_scale

    def _tail(self, output: Floats, mean: NDArray, std: NDArray, levels: Floats, at: ArrayLike) -> NDArray[np.float64]:
        """CVaR at other levels than the critic's own."""
        if self.info.critic == 'gaussian':
            return risk_measure('cvar').of_gaussian(mean, std, at)
        if self.info.critic == 'categorical':
            return atoms_cvar(np.broadcast_to(self._atoms, output.shape), _softmax(output), at)
        quantiles = _quantiles(output)
        tail = atoms_cvar(quantiles, quantile_probabilities(levels, quantiles.shape[-1] // 2), at)
        return with_mean(tail, at, mean, quantile_mean_std(quantiles, levels)[0])

    def _judgement(self, observation: ArrayLike, action: ArrayLike, alpha: ArrayLike
                   ) -> tuple[Floats, Floats, Floats, NDArray[np.float64]]:
        """Alphas, trained tail shares [n], outputs [n, k] and statistics [3, n] of the critic that speaks."""
        rows, single = self._rows(observation)
        alphas, levels = self._alphas_and_levels(alpha, len(rows), single)
        return alphas, tail_share(levels), *self._speaker(rows, levels, self._actions(action, len(rows), single))

    def _speaker(self, rows: Floats, levels: Floats, actions: NDArray[np.float64]
                 ) -> tuple[Floats, NDArray[np.float64]]:
        """Outputs [n, k] and statistics [3, n] of the critic, or of the mean of two: caution was for training."""
        inputs = {'observation': rows, 'alpha': _column(levels), 'action': _column(actions / self.info.action_bound)}
        agreed = np.mean([_forward(layers, inputs)[:, 0] for layers in self._critics], axis=0)
        return agreed, self._statistics(agreed, tail_share(levels))

    def _statistics(self, output: Floats, levels: Floats) -> NDArray[np.float64]:
        """Mean, standard deviation and risk value [3, n] of a critic's outputs [n, k]."""
        measure = risk_measure(self.info.risk_measure)
        values = output.astype(np.float64)
        if self.info.critic == 'gaussian':
            mean = values[:, 0]
            std = np.sqrt(np.logaddexp(0.0, values[:, 1]) + VARIANCE_FLOOR)   # softplus of the variance logit
            return np.stack([mean, std, measure.of_gaussian(mean, std, levels)])
        if self.info.critic == 'categorical':
            share = _softmax(values)
            mean = np.sum(share * self._atoms, axis=-1)     # not by BLAS, see above
            std = np.sqrt(np.sum(share * (self._atoms - mean[:, None]) ** 2, axis=-1))
            return np.stack([mean, std, atoms_cvar(np.broadcast_to(self._atoms, share.shape), share, levels)])
        quantiles = _quantiles(values)
        quantile_mean, std = quantile_mean_std(quantiles, levels)
        mean = values[:, -1] if values.shape[-1] % 2 else quantile_mean
        value = with_mean(measure.of_quantiles(quantiles, levels), levels, mean, quantile_mean)
        return np.stack([mean, std, value])

    def _rows(self, observation: ArrayLike) -> tuple[Floats, bool]:
        """Normalised observations [n, 1, d], and whether it was a single one."""
        array = np.ascontiguousarray(observation, dtype=np.float32)
        size = self.info.observation_size
        if array.ndim not in (1, 2) or array.shape[-1] != size:
            raise ValueError(f'observation of shape {array.shape}: this policy reads [{size}] or [n, {size}]')
        # The sum of squares is a quick sieve: NaN and infinity never pass it. What it stops is looked at closely.
        flat = array.ravel()
        if not math.isfinite(flat.dot(flat)) and not np.isfinite(array).all():
            where = np.argwhere(~np.isfinite(array))[0].tolist()
            raise ValueError(f'observation{where} is {array[tuple(where)]}: every number must be finite')
        rows = (flat.reshape(-1, 1, size) - self._mean) / self._std
        return np.minimum(np.maximum(rows, self._low), self._high), array.ndim == 1

    def _alphas(self, alpha: ArrayLike, count: int, single: bool) -> Floats:
        """alpha as a number or one for each row, checked in the precision it is used in: 0.01 is inside [0.01, 1]."""
        array = np.asarray(alpha, dtype=np.float32)
        _check_shape('alpha', array, count, single)
        low, high = self._dial
        for value in array.ravel().tolist():
            if not low <= value <= high:   # written so that NaN is refused
                raise ValueError(f'alpha = {value:g}: the dial of this policy goes from {low:g} to {high:g}')
        return array

    def _alphas_and_levels(self, alpha: ArrayLike, count: int, single: bool) -> tuple[Floats, Floats]:
        """The dial's alpha and the trained level for it, one of each for every row."""
        alphas = np.broadcast_to(self._alphas(alpha, count, single), count)
        return alphas, levels_of(self.info.dial, alphas)

    def _actions(self, action: ArrayLike, count: int, single: bool) -> NDArray[np.float64]:
        array = np.asarray(action, dtype=np.float64)
        _check_shape('action', array, count, single)
        wrong = ~(np.abs(array) <= self.info.action_bound)
        if wrong.any():
            raise ValueError(f'action = {array[wrong].flat[0]:g}: the critic knows ±{self.info.action_bound:g} m/s²')
        return np.broadcast_to(array, count)

    def _alpha_branch(self, alpha: ArrayLike, count: int, single: bool) -> Floats:
        """What alpha adds to h3: [1, 1, width], or [n, 1, width] for an alpha for each row."""
        rests_at, branch = self._resting   # read once: another thread may turn the dial
        if isinstance(alpha, float) and alpha == rests_at:
            return branch
        array = levels_of(self.info.dial, self._alphas(alpha, count, single))
        weight, bias = self._h2
        branch = np.maximum(_column(array) * weight + bias, _ZERO) @ self._h3_from_h2 + self._h3_bias
        if isinstance(alpha, float):
            self._resting = (alpha, branch)
        return branch


def _layers(model: ModelFile, network: str) -> Layers:
    """Weights [inputs, outputs] and biases of a network's layers."""
    return {layer: (np.ascontiguousarray(weight.T), _as_row(bias))
            for layer in model.networks[network] for weight, bias in [model.layer(network, layer)]}


def _forward(layers: Layers, inputs: dict[str, Floats]) -> Floats:
    """A critic's outputs [n, 1, k]."""
    values = dict(inputs)
    for layer, reads in CRITIC_LAYERS.items():
        weight, bias = layers[layer]
        total = np.concatenate([values[name] for name in reads], axis=-1) @ weight + bias
        values[layer] = total if layer == 'out' else np.maximum(total, _ZERO)
    return values['out']


def _quantiles(output: NDArray[Any]) -> NDArray[Any]:
    """Of a quantile critic's outputs those that are quantiles: if they are odd in number, the last is the mean."""
    return output[:, :output.shape[-1] // 2 * 2]


def _curves(output: Floats, levels: Floats) -> Iterator[tuple[NDArray[np.float64], Floats]]:
    """For each row, shares and the quantiles there, rising. From level 1 on, the slices above it have no width: they
    learn nothing, and may say anything."""
    quantiles = _quantiles(output)
    count = quantiles.shape[-1] // 2
    for row, shares, width in zip(quantiles, quantile_levels(levels, count), quantile_probabilities(levels, count),
                                  strict=True):
        yield shares[width > 0.0], np.sort(row[width > 0.0])


def _softmax(logits: Floats | NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.exp(logits - logits.max(axis=-1, keepdims=True), dtype=np.float64)
    return share / share.sum(axis=-1, keepdims=True)


def _as_row(values: Floats) -> Floats:
    """[1, 1, width], since NumPy is twice as quick on operands of as many axes."""
    return values.reshape(1, 1, -1).copy()


def _column(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float32).reshape(-1, 1, 1)


def _check_shape(name: str, array: NDArray[Any], count: int, single: bool) -> None:
    if array.ndim and (single or array.shape != (count,)):
        wanted = 'one number' if single else f'one number or [{count}]'
        raise ValueError(f'{name} of shape {array.shape}: give {wanted}')


def _not_above(bound: float) -> Floats:
    """The float32 nearest to the bound that does not exceed it."""
    nearest = np.asarray(bound, np.float32)
    return nearest if float(nearest) <= bound else np.nextafter(nearest, _ZERO)
