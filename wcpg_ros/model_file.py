"""The model file: a trained policy and everything needed to run it, in one safetensors file, never a pickle.

Tensors, all float32: `normaliser.mean`, `normaliser.std`, and a weight [outputs, inputs] and a bias [outputs] for
every layer of the networks below, as `actor.h1.weight`, `critic.out.bias`, with `twin` also `critic2.…`, and for a
categorical critic `atoms`, the returns (in units of `return_scale`) that its outputs are the logits of.
Everything else is `ModelInfo`.

    python -m wcpg_ros.model_file show models/left_turn.safetensors
    python -m wcpg_ros.model_file card models/left_turn.safetensors
    python -m wcpg_ros.model_file onnx models/left_turn.safetensors left_turn.onnx
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from sim_node.observation import VERSIONS as LAYOUT_VERSIONS
from sim_node.observation import Layout
from wcpg_ros.dial import DialError, check_dial
from wcpg_ros.risk import HIGHEST_LEVEL, risk_measure, tail_share

FORMAT_VERSION = 4     # raised whenever an old file would be read but mean something else

# The networks of the paper's table "WCPG actor and critic networks": each layer and what it reads.
ACTOR_LAYERS = {'h1': ('observation',), 'h2': ('alpha',), 'h3': ('h1', 'h2'), 'out': ('h3',)}
CRITIC_LAYERS = {'h1': ('observation',), 'h2': ('alpha',), 'h3': ('h1', 'h2', 'action'), 'h4': ('h3',), 'out': ('h4',)}
CRITICS = ('gaussian', 'quantile', 'categorical')

# All metadata in one JSON string: safetensors writes several keys in no fixed order, and equal models shall be
# equal files.
_KEY = 'wcpg_ros'
_TYPES: dict[str, Any] = {'str': str, 'int': int, 'float': (int, float), 'bool': bool, 'dict[str, Any]': dict,
                          'list[list[float]]': list}

Tensors = Mapping[str, NDArray[np.float32]]


class ModelError(ValueError):
    """A model that cannot be used; the message names it, what is wrong and what to do."""


@dataclass(frozen=True)
class ModelInfo:
    """What a policy must be told about itself, and where it came from."""

    scenario: str               # what it learnt to drive, for instance left_turn
    layout_version: int         # of the observation
    vehicles: int               # other vehicles in the observation
    time_feature: bool          # whether the observation ends with the time since the episode began
    observation_size: int
    normaliser_clip: float      # normalised observations are cut to ± this
    action_bound: float         # m/s²; the action is this times tanh
    alpha_min: float            # the ends of its dial or, without one, of its trained levels
    alpha_max: float
    dial: list[list[float]]     # pairs of alpha and the trained level for it, see wcpg_ros.dial; if empty, alpha itself
    risk_measure: str           # what the actor maximised, see wcpg_ros.risk
    critic: str                 # gaussian, quantile or categorical
    twin: bool                  # whether there is a second critic
    return_scale: float         # a return is the critic's output times this
    gamma: float                # discount per decision
    decision_interval: float    # s
    action_repeat: int          # simulation steps per decision
    recipe: dict[str, Any]      # the whole training configuration
    seed: int
    episodes: int               # trained for
    code_version: str

    @property
    def layout(self) -> Layout:
        """The observation's layout, to build observations with."""
        return Layout(self.layout_version, self.vehicles, self.time_feature)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kind = _TYPES[str(field.type)]
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise ModelError(f'{field.name} = {value!r} is not of type {field.type}')
            if isinstance(value, float) and not math.isfinite(value):
                raise ModelError(f'{field.name} = {value!r} is not a finite number')
        for holds, name, rule in (
            (self.scenario, 'scenario', 'must be named'),
            (self.layout_version in LAYOUT_VERSIONS, 'layout_version',
             f'is another observation layout, this software speaks {LAYOUT_VERSIONS}'),
            (self.vehicles > 0, 'vehicles', 'must be > 0'),
            (self.observation_size == self.layout.size, 'observation_size', f'does not fit {self.layout}'),
            (self.normaliser_clip > 0.0, 'normaliser_clip', 'must be > 0'),
            (self.action_bound > 0.0, 'action_bound', 'must be > 0 m/s²'),
            (0.0 < self.alpha_min <= self.alpha_max, 'alpha_min', f'must be > 0 and <= alpha_max = {self.alpha_max}'),
            (self.alpha_max <= (1.0 if self.dial else HIGHEST_LEVEL), 'alpha_max', 'is above every alpha'),
            (self.critic in CRITICS, 'critic', f'is unknown: choose one of {", ".join(CRITICS)}'),
            (self.return_scale > 0.0, 'return_scale', 'must be > 0'),
            (0.0 <= self.gamma <= 1.0, 'gamma', 'must be within [0, 1]'),
            (self.decision_interval > 0.0, 'decision_interval', 'must be > 0 s'),
            (self.action_repeat > 0, 'action_repeat', 'must be > 0'),
            (self.seed >= 0, 'seed', 'must be >= 0'),
            (self.episodes >= 0, 'episodes', 'must be >= 0'),
        ):
            if not holds:
                raise ModelError(f'{name} = {getattr(self, name)!r} {rule}')
        try:
            check_dial(self.dial)
            if self.dial and [self.dial[0][0], self.dial[-1][0]] != [self.alpha_min, self.alpha_max]:
                raise DialError(f'does not go from alpha_min = {self.alpha_min} to alpha_max = {self.alpha_max}')
        except DialError as error:
            raise ModelError(f'dial: {error}') from error
        try:
            measure = risk_measure(self.risk_measure)
            if self.dial and measure.name != 'cvar':
                raise ValueError(f'risk measure {self.risk_measure!r}: a calibrated dial is for cvar')
            if self.critic == 'categorical' and measure.name != 'cvar':
                raise ValueError(f'risk measure {self.risk_measure!r}: a categorical critic knows cvar only')
            if self.critic == 'quantile':
                measure.quantile_weights(tail_share(self.alpha_max), 1)
        except ValueError as error:
            raise ModelError(str(error)) from error


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A whole model. Making one checks it, so that none that is wrong can be written or used."""

    info: ModelInfo
    tensors: Tensors

    def __post_init__(self) -> None:
        expected = _expected_shapes(self.info, self.tensors)
        unknown = sorted(self.tensors.keys() - expected.keys())
        if unknown:
            raise ModelError(f'tensor {unknown[0]} does not belong to a model with a {self.info.critic} critic')
        for name, shape in expected.items():
            tensor = _tensor(self.tensors, name)
            if tensor.dtype != np.float32:
                raise ModelError(f'tensor {name} is {tensor.dtype}, not float32')
            if tensor.shape != shape:
                raise ModelError(f'tensor {name} has shape {list(tensor.shape)}, not {list(shape)}')
            if not np.isfinite(tensor).all():
                raise ModelError(f'tensor {name} holds NaN or infinity')
        if not (self.tensors['normaliser.std'] > 0.0).all():
            raise ModelError('tensor normaliser.std must be > 0 everywhere')

    @property
    def networks(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """The networks in the file, each with its layers and what they read."""
        return _networks(self.info)

    def layer(self, network: str, layer: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight [outputs, inputs] and bias of a layer, for instance of ('actor', 'h1')."""
        return self.tensors[f'{network}.{layer}.weight'], self.tensors[f'{network}.{layer}.bias']

    def save(self, path: str | Path) -> None:
        """Write the file, atomically; equal models give equal bytes."""
        write_atomically(path, pack(asdict(self.info), self.tensors))

    @classmethod
    def load(cls, path: str | Path) -> ModelFile:
        """Read and check a file; a ModelError says what is wrong with it."""
        info, tensors = unpack(Path(path))
        if 'algorithm' in info:
            raise ModelError(f'{path}: a baseline ({info["algorithm"]}), without dial and critic: only `evaluate`, '
                             '`record` and `render` drive it; give a model that `train` wrote')
        try:
            return cls(_info(info), tensors)
        except ModelError as error:
            advice = 'train again, or install the version of wcpg_ros that wrote it'
            raise ModelError(f'{path}: {error}; {advice}') from error


def _networks(info: ModelInfo) -> dict[str, dict[str, tuple[str, ...]]]:
    critics = ('critic', 'critic2') if info.twin else ('critic',)
    return {'actor': ACTOR_LAYERS, **dict.fromkeys(critics, CRITIC_LAYERS)}


def _tensor(tensors: Tensors, name: str) -> NDArray[np.float32]:
    if name not in tensors:
        raise ModelError(f'tensor {name} is missing')
    return tensors[name]


def _expected_shapes(info: ModelInfo, tensors: Tensors) -> dict[str, tuple[int, ...]]:
    """Every tensor's name and shape. Layers may have any width: each weight's rows fix what later layers read."""
    size = info.observation_size
    shapes: dict[str, tuple[int, ...]] = {'normaliser.mean': (size,), 'normaliser.std': (size,)}
    for network, layers in _networks(info).items():
        widths = {'observation': size, 'alpha': 1, 'action': 1}
        for layer, reads in layers.items():
            name = f'{network}.{layer}'
            rows = _tensor(tensors, f'{name}.weight').shape[:1]
            widths[layer] = rows[0] if rows else 0
            if layer == 'out':
                _check_outputs(info, network, name, widths[layer])
                if info.critic == 'categorical':
                    shapes['atoms'] = (widths[layer],)
            shapes[f'{name}.weight'] = (widths[layer], sum(widths[source] for source in reads))
            shapes[f'{name}.bias'] = (widths[layer],)
    return shapes


def _check_outputs(info: ModelInfo, network: str, name: str, outputs: int) -> None:
    if network == 'actor':
        right, rule = outputs == 1, '1, the acceleration'
    elif info.critic == 'gaussian':
        right, rule = outputs == 2, '2 for a gaussian critic: mean and variance logit'
    elif info.critic == 'categorical':
        right, rule = outputs >= 2, 'at least 2 for a categorical critic'
    else:
        right, rule = outputs >= 2, 'at least 2 for a quantile critic: tail and rest, perhaps the mean'
    if not right:
        raise ModelError(f'tensor {name}.weight has {outputs} outputs, not {rule}')


def _digest(info: dict[str, Any], tensors: Tensors) -> str:
    """SHA-256 of everything that counts: a flipped byte in a weight would otherwise drive the car."""
    digest = hashlib.sha256(_json(info).encode())
    for name in sorted(tensors):
        digest.update(f'{name} {tensors[name].dtype} {tensors[name].shape} '.encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def _json(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f'recipe cannot be written as JSON: {error}') from error


def pack(info: dict[str, Any], tensors: Tensors) -> bytes:
    """A safetensors file of ours: metadata with a checksum over everything, and tensors."""
    contents = {'format_version': FORMAT_VERSION, 'sha256': _digest(info, tensors), 'model': info}
    # safetensors writes memory as it lies: a transposed view would come back wrong
    dense = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return safetensors.numpy.save(dense, metadata={_KEY: _json(contents)})


def unpack(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Metadata and tensors as they were packed, or a ModelError; whether they make a model is not looked at."""
    if not path.is_file():
        what = 'is a directory, not a model file' if path.is_dir() else 'no such model file'
        raise ModelError(f'{path}: {what}; give the path of a .safetensors file')
    try:
        with safetensors.safe_open(path, framework='numpy') as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}   # noqa: SIM118 (it is no dict)
    except Exception as error:   # whatever a reader in another language raises on bytes that are not a model
        raise ModelError(f'{path}: not a safetensors file, or cut short or corrupted ({error}); '
                         'fetch it again') from error
    if _KEY not in metadata:
        raise ModelError(f'{path}: a safetensors file, but not one of wcpg_ros; give a model that `train` wrote')
    try:
        contents = json.loads(metadata[_KEY])
        version, digest, info = contents['format_version'], contents['sha256'], dict(contents['model'])
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f'{path}: its metadata cannot be read ({type(error).__name__}: {error}); '
                         'fetch it again') from error
    if version != FORMAT_VERSION:
        raise ModelError(f'{path}: model format {version}, this software reads {FORMAT_VERSION}; '
                         'install the version of wcpg_ros that wrote it, or train again')
    if digest != _digest(info, tensors):
        raise ModelError(f'{path}: its contents do not match its checksum, it was corrupted or edited; fetch it again')
    return info, tensors


def _info(values: dict[str, Any]) -> ModelInfo:
    names = {field.name for field in fields(ModelInfo)}
    for what, wrong in (('lacks', names - values.keys()), ('has unknown', values.keys() - names)):
        if wrong:
            raise ModelError(f'its metadata {what} {", ".join(sorted(wrong))}')
    return ModelInfo(**values)


def write_atomically(path: str | Path, contents: bytes) -> None:
    """Write a file so that a reader, or whoever comes after a power cut, sees the old one or the new one, whole."""
    path = Path(path)
    partial = path.with_name(f'.{path.name}.{os.getpid()}.partial')
    try:
        partial.touch()
    except OSError as error:     # say it of the file that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with open(partial, 'wb') as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)   # the new name too must reach the disk
    finally:
        os.close(directory)


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='python -m wcpg_ros.model_file', description='Look into a model file.')
    commands = parser.add_subparsers(dest='command', required=True)
    for command, text in (('show', 'print its metadata'), ('card', 'write its model card beside it'),
                          ('onnx', 'export its actor for other runtimes')):
        commands.add_parser(command, help=text).add_argument('path', type=Path, help='the .safetensors file')
    commands.choices['onnx'].add_argument('out', type=Path, help='the .onnx file to write')
    options = parser.parse_args(args)
    try:
        model = ModelFile.load(options.path)
        if options.command == 'show':
            from wcpg_ros.model_card import describe
            print(describe(model))
        elif options.command == 'card':
            from wcpg_ros.model_card import write_model_card
            print(write_model_card(options.path))
        else:
            from wcpg_ros.onnx_export import export_onnx
            export_onnx(model, options.out)
            print(options.out)
    except (ModelError, OSError, ImportError) as error:
        print(f'model_file: {error}', file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    # The imported module's main, so that there is one ModelError, not two.
    from wcpg_ros.model_file import main as imported_main
    sys.exit(imported_main())
