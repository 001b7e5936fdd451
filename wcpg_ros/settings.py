"""Training settings: frozen dataclasses filled from YAML. The defaults are the paper's values."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from wcpg_ros.risk import risk_measure

T = TypeVar('T')


class SettingsError(ValueError):
    """A setting that is unknown, of the wrong type, or out of range."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingsError(message)


@dataclass(frozen=True)
class NetworkSettings:
    """Sizes of the hidden layers, in the order of the paper's table; the second is the alpha branch."""

    actor_hidden: tuple[int, int, int] = (32, 16, 32)
    critic_hidden: tuple[int, int, int, int] = (64, 64, 64, 64)
    # orthogonal: gain sqrt(2) for hidden layers, 0.01 for the actor's output, 1 for the critic's; the alpha
    # branch's units bend at levels spread over [0, 1].
    # printed: the sigma column of the paper's table as the gain, sqrt(2) everywhere in the actor, 0.01 in the critic.
    initialisation: Literal['orthogonal', 'printed'] = 'orthogonal'

    def __post_init__(self) -> None:
        _require(min(self.actor_hidden + self.critic_hidden) >= 1, 'hidden sizes must be at least 1')


# Pairs of variance target and loss that are wrong by design, and why. docs/deviations.md has the figures.
REFUSED_PAIRS = {
    ('td_error', 'wasserstein'):
        'Eq. 8 compares roots, and the mean root of a squared TD error is far below the standard deviation '
        '(1.6 where 8 is right): use variance_loss squared or likelihood, or variance_target paper',
    ('paper', 'likelihood'):
        'one sample of Eq. 6 is often negative, and no variance has a negative sample likely: '
        'use variance_loss wasserstein or squared, or variance_target td_error',
}


@dataclass(frozen=True)
class CriticSettings:
    """Which distribution of returns the critic learns, and how."""

    kind: Literal['gaussian', 'quantile'] = 'gaussian'
    variance_target: Literal['paper', 'td_error'] = 'paper'    # gaussian: Eq. 6 as printed, or through the TD error
    variance_loss: Literal['wasserstein', 'squared', 'likelihood'] = 'wasserstein'   # gaussian: Eq. 8 or another
    quantiles: int = 32            # quantile: K, the number of levels below alpha, and again above it
    kappa: float = 1.0             # quantile: half width of the Huber loss's round bottom, in units of return
    twin: bool = False             # two critics, of which the smaller risk value counts
    return_scale: float = 1.0      # the critic's outputs times this are returns
    learning_rate: float = 1e-4

    def __post_init__(self) -> None:
        reason = REFUSED_PAIRS.get((self.variance_target, self.variance_loss)) if self.kind == 'gaussian' else None
        _require(reason is None, f'variance_target {self.variance_target} with variance_loss {self.variance_loss} '
                                 f'does not work: {reason}')
        _require(self.quantiles >= 1, f'quantiles = {self.quantiles}: at least 1')
        _require(self.kappa >= 0.0, f'kappa = {self.kappa:g}: at least 0')
        _require(self.return_scale > 0.0, f'return_scale = {self.return_scale:g}: more than 0')
        _require(self.learning_rate > 0.0, f'learning_rate = {self.learning_rate:g}: more than 0')


@dataclass(frozen=True)
class ActorSettings:
    """What the actor maximises."""

    risk: str = 'cvar'               # see risk.py; `paper` is the printed coefficient
    learning_rate: float = 1e-4
    pre_tanh_penalty: float = 0.0    # times the mean square of the output before tanh; keeps tanh from saturating
    behaviour_cloning: float = 0.0   # weight of (a - a_data)² beside the risk value scaled to 1, as in TD3+BC

    def __post_init__(self) -> None:
        try:
            risk_measure(self.risk)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        _require(self.learning_rate > 0.0, f'learning_rate = {self.learning_rate:g}: more than 0')
        _require(self.pre_tanh_penalty >= 0.0, f'pre_tanh_penalty = {self.pre_tanh_penalty:g}: at least 0')
        _require(self.behaviour_cloning >= 0.0, f'behaviour_cloning = {self.behaviour_cloning:g}: at least 0')


@dataclass(frozen=True)
class AlphaSettings:
    """Where training's risk levels come from: minimum + (maximum - minimum) * u**power, u uniform."""

    minimum: float = 0.01
    maximum: float = 1.0
    power: float = 1.0        # 1 is uniform, more draws low levels more often
    relabel: bool = False     # fresh levels for every minibatch, instead of the one the episode was driven at

    def __post_init__(self) -> None:
        _require(0.0 < self.minimum <= self.maximum <= 1.0,
                 f'minimum = {self.minimum:g}, maximum = {self.maximum:g}: choose 0 < minimum <= maximum <= 1')
        _require(self.power > 0.0, f'power = {self.power:g}: more than 0')


@dataclass(frozen=True)
class ExplorationSettings:
    """How training's actions differ from the actor's."""

    noise_std: float = 2.0           # m/s², Gaussian, every decision
    random_decisions: int = 2000     # the first decisions are uniform over the action range
    hold_probability: float = 0.0    # chance per decision to start holding full throttle or full braking
    hold_decisions: float = 4.0      # mean length of such a hold

    def __post_init__(self) -> None:
        _require(self.noise_std >= 0.0, f'noise_std = {self.noise_std:g}: at least 0')
        _require(self.random_decisions >= 0, f'random_decisions = {self.random_decisions}: at least 0')
        _require(0.0 <= self.hold_probability <= 1.0, f'hold_probability = {self.hold_probability:g}: between 0 and 1')
        _require(self.hold_decisions >= 1.0, f'hold_decisions = {self.hold_decisions:g}: at least 1')


@dataclass(frozen=True)
class LearningSettings:
    """The update."""

    gamma: float = 0.99                 # per simulation step of 0.1 s, so 0.99**4 per whole decision
    tau: float = 0.005                  # share of the way the target networks move, per update
    batch: int = 512
    replay: int = 1_000_000             # transitions kept
    n_step: int = 1                     # decisions whose rewards a target sums before it bootstraps
    updates_per_decision: float = 1.0   # of one scene; 16 scenes at 0.5 make 8 updates per step of all
    final_rate: float = 1.0             # both learning rates fall linearly to this share of themselves
    observation_clip: float = 5.0       # normalised observations are clipped to ± this

    def __post_init__(self) -> None:
        _require(0.0 <= self.gamma <= 1.0, f'gamma = {self.gamma:g}: between 0 and 1')
        _require(0.0 < self.tau <= 1.0, f'tau = {self.tau:g}: more than 0, at most 1')
        _require(self.batch >= 1, f'batch = {self.batch}: at least 1')
        _require(self.replay >= self.batch, f'replay = {self.replay}: at least the batch, {self.batch}')
        _require(self.n_step >= 1, f'n_step = {self.n_step}: at least 1')
        _require(self.updates_per_decision > 0.0, f'updates_per_decision = {self.updates_per_decision:g}: more than 0')
        _require(0.0 <= self.final_rate <= 1.0, f'final_rate = {self.final_rate:g}: between 0 and 1')
        _require(self.observation_clip > 0.0, f'observation_clip = {self.observation_clip:g}: more than 0')


@dataclass(frozen=True)
class WorldSettings:
    """How the simulator is used."""

    row: str = 'train'        # the scenario's row of traffic parameters
    scenes: int = 16          # driven side by side
    action_repeat: int = 4    # simulation steps per decision

    def __post_init__(self) -> None:
        _require(self.scenes >= 1, f'scenes = {self.scenes}: at least 1')
        _require(self.action_repeat >= 1, f'action_repeat = {self.action_repeat}: at least 1')


@dataclass(frozen=True)
class ValidationSettings:
    """Measuring on seeds kept apart from training and reporting; the best checkpoint is chosen there."""

    interval: int = 500       # training episodes between two validations
    episodes: int = 500       # per risk level
    alphas: tuple[float, ...] = (0.02, 0.1, 0.3, 0.6, 1.0)

    def __post_init__(self) -> None:
        _require(self.interval >= 1, f'interval = {self.interval}: at least 1')
        _require(self.episodes >= 1, f'episodes = {self.episodes}: at least 1')
        _require(bool(self.alphas) and all(0.0 < a <= 1.0 for a in self.alphas),
                 f'alphas = {list(self.alphas)}: at least one, each 0 < alpha <= 1')


@dataclass(frozen=True)
class Recipe:
    """Everything about a training run but the scenario, the seed and its length."""

    networks: NetworkSettings = field(default_factory=NetworkSettings)
    critic: CriticSettings = field(default_factory=CriticSettings)
    actor: ActorSettings = field(default_factory=ActorSettings)
    alpha: AlphaSettings = field(default_factory=AlphaSettings)
    exploration: ExplorationSettings = field(default_factory=ExplorationSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)
    world: WorldSettings = field(default_factory=WorldSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)

    def __post_init__(self) -> None:
        _require(self.critic.kind != 'quantile' or self.actor.risk != 'paper',
                 'actor.risk paper is a formula for Gaussians: with critic.kind quantile use cvar')


def load_recipe(path: Path | str) -> Recipe:
    """The recipe in a YAML file."""
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f'{path}: cannot be read as YAML: {error}') from None
    try:
        return from_mapping(Recipe, content or {})
    except SettingsError as error:
        raise SettingsError(f'{path}: {error}') from None


def to_mapping(settings: Any) -> dict[str, Any]:
    """Plain dictionaries and lists, for YAML and JSON."""
    return dataclasses.asdict(settings, dict_factory=lambda items: {
        key: list(value) if isinstance(value, tuple) else value for key, value in items})


def from_mapping(cls: type[T], content: object, where: str = '') -> T:
    """A settings dataclass from plain dictionaries; unknown keys and wrong types are errors that name the key."""
    if not isinstance(content, Mapping):
        raise SettingsError(f'{where or "the settings"}: expected keys and values, got {content!r}')
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in content.items():
        name = f'{where}.{key}' if where else str(key)
        if key not in hints:
            raise SettingsError(f'unknown key {name!r}: choose one of {", ".join(hints)}')
        values[key] = _convert(hints[key], value, name)
    try:
        return cls(**values)
    except SettingsError as error:
        raise SettingsError(f'{where}: {error}' if where else str(error)) from None


def _convert(kind: Any, value: object, name: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_mapping(typing.cast(type, kind), value, name)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if value not in arguments:
            raise SettingsError(f'{name} = {value!r}: choose one of {", ".join(map(str, arguments))}')
        return value
    if origin is tuple:
        repeated = arguments[-1] is Ellipsis
        if not isinstance(value, list | tuple) or not (repeated or len(value) == len(arguments)):
            count = 'numbers' if repeated else f'{len(arguments)} numbers'
            raise SettingsError(f'{name} = {value!r}: expected a list of {count}')
        return tuple(_convert(arguments[0], item, f'{name}[{i}]') for i, item in enumerate(value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        hint = ' (YAML reads 1e-4 as text: write 1.0e-4)' if kind is float and isinstance(value, str) else ''
        raise SettingsError(f'{name} = {value!r}: expected {kind.__name__}, got {type(value).__name__}{hint}')
    if kind is float and not math.isfinite(typing.cast(float, value)):
        raise SettingsError(f'{name} = {value!r}: expected a finite number')
    return value
