"""A trained baseline as a small file, driven in NumPy alone: no alpha, no critic, one network.

A safetensors file like every model here (see wcpg_ros.model_file), with the tensors `normaliser.mean`,
`normaliser.std` and `layer0.weight` [outputs, inputs], `layer0.bias`, `layer1.…` of a plain network of ReLU layers. Its
last layer gives

    tanh    the acceleration as a share of the bound, through tanh      (DDPG)
    clip    the same, clipped                                           (PPO: the mean of its Gaussian)
    grid    for each of a grid of accelerations (tensor `grid`) the logits of the return's atoms (tensor `atoms`);
            the acceleration with the highest mean is taken             (C51)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim_node.observation import Layout
from wcpg_ros.model_file import ModelError, pack, unpack, write_atomically

Floats = NDArray[np.float32]

OUTPUTS = ('tanh', 'clip', 'grid')

_ZERO = np.zeros((), np.float32)


@dataclass(frozen=True)
class BaselineInfo:
    """What a baseline must be told about itself, and where it came from."""

    algorithm: str              # ddpg, ppo, c51
    output: str                 # what the last layer gives, see above
    scenario: str
    layout_version: int
    vehicles: int
    time_feature: bool
    observation_size: int
    normaliser_clip: float
    action_bound: float         # m/s²
    recipe: dict[str, Any]      # the terms it was trained on
    seed: int
    decisions: int              # trained for
    code_version: str

    @property
    def layout(self) -> Layout:
        """The observation's layout."""
        return Layout(self.layout_version, self.vehicles, self.time_feature)


class Baseline:
    """A baseline at the wheel."""

    def __init__(self, info: BaselineInfo, tensors: Mapping[str, Floats]) -> None:
        self.info, self.tensors = info, tensors
        depth = sum(name.endswith('.weight') for name in tensors)
        try:
            self._layers = [(np.ascontiguousarray(tensors[f'layer{k}.weight'].T), tensors[f'layer{k}.bias'])
                            for k in range(depth)]
            self._mean, self._std = tensors['normaliser.mean'], tensors['normaliser.std']
            self._grid, self._atoms = ((tensors['grid'], tensors['atoms']) if info.output == 'grid'
                                       else (np.ones(1, np.float32), np.ones(1, np.float32)))
        except KeyError as error:
            raise ModelError(f'tensor {error} is missing') from None
        self._check()

    def _check(self) -> None:
        if self.info.output not in OUTPUTS:
            raise ModelError(f'output = {self.info.output!r} is unknown: choose one of {", ".join(OUTPUTS)}')
        if self.info.observation_size != self.info.layout.size:
            raise ModelError(f'observation_size = {self.info.observation_size} does not fit {self.info.layout}')
        for name, tensor in self.tensors.items():
            if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise ModelError(f'tensor {name} is not of finite float32 numbers')
        width = self.info.observation_size
        for k, (weight, bias) in enumerate(self._layers):
            if weight.shape != (width, bias.size):
                raise ModelError(f'tensor layer{k}.weight has shape {list(weight.T.shape)}, not [{bias.size}, {width}]')
            width = bias.size
        if width != self._grid.size * self._atoms.size:
            raise ModelError(f'the last layer has {width} outputs, not {self._grid.size * self._atoms.size}')

    @classmethod
    def load(cls, path: str | Path) -> Baseline:
        """Read and check a file; a ModelError says what is wrong with it."""
        info, tensors = unpack(Path(path))
        names = {field.name for field in fields(BaselineInfo)}
        if names != info.keys():
            raise ModelError(f'{path}: not a baseline of this version of wcpg_ros; train it again')
        try:
            return cls(BaselineInfo(**info), tensors)
        except ModelError as error:
            raise ModelError(f'{path}: {error}; train it again') from error

    def save(self, path: str | Path) -> None:
        """Write the file, atomically; equal baselines give equal bytes."""
        write_atomically(path, pack(asdict(self.info), self.tensors))

    def act(self, observation: ArrayLike) -> Floats:
        """Accelerations (m/s²) for a batch of observations [n, d]: the same bits in any batch (see wcpg_ros.policy)."""
        rows = np.asarray(observation, np.float32).reshape(-1, 1, self.info.observation_size)
        clip = np.float32(self.info.normaliser_clip)
        hidden = np.clip((rows - self._mean) / self._std, -clip, clip)
        for k, (weight, bias) in enumerate(self._layers):
            hidden = hidden @ weight + bias
            if k + 1 < len(self._layers):
                hidden = np.maximum(hidden, _ZERO)
        bound = np.float32(self.info.action_bound)
        if self.info.output == 'grid':
            logits = hidden.reshape(len(rows), self._grid.size, self._atoms.size)
            share = np.exp(logits - logits.max(axis=-1, keepdims=True))
            mean = (share * self._atoms).sum(axis=-1) / share.sum(axis=-1)
            return self._grid[mean.argmax(axis=-1)]
        out = hidden.reshape(-1)
        return (np.tanh(out) if self.info.output == 'tanh' else np.clip(out, -1.0, 1.0)) * bound
