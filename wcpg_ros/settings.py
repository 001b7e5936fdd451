"""Training settings: frozen dataclasses filled from YAML. The defaults are the paper's values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim_node.settings import Group, SettingsError, bounded, check, from_mapping, read_yaml
from wcpg_ros.risk import risk_measure


@dataclass(frozen=True)
class NetworksSettings(Group):
    """Sizes of the hidden layers, in the order of the paper's table; the second is the alpha branch."""

    actor_hidden: tuple[int, int, int] = bounded((32, 16, 32), '[1, inf)')
    critic_hidden: tuple[int, int, int, int] = bounded((64, 64, 64, 64), '[1, inf)')
    # orthogonal: gain sqrt(2) for hidden layers, 0.01 for the actor's output, 1 for the critic's; the alpha
    # branch's units bend at levels spread over log alpha.
    # printed: the sigma column of the paper's table as the gain, sqrt(2) everywhere in the actor, 0.01 in the critic.
    initialisation: Literal['orthogonal', 'printed'] = 'orthogonal'


# Pairs of variance target and loss that are wrong by design, and why. docs/deviations.md has the figures.
REFUSED_PAIRS = {
    ('td_error', 'wasserstein'):
        'Eq. 8 compares roots, and the mean root of a squared TD error is far below the standard deviation '
        '(1.6 where 8 is right): use variance_loss squared or likelihood, or variance_target paper',
    ('paper', 'likelihood'):
        'one sample of Eq. 6 is often negative, and no variance makes a negative sample likely: '
        'use variance_loss wasserstein or squared, or variance_target td_error',
}


@dataclass(frozen=True)
class CriticSettings(Group):
    """Which distribution of returns the critic learns, and how."""

    kind: Literal['gaussian', 'quantile', 'categorical'] = 'gaussian'
    variance_target: Literal['paper', 'td_error'] = 'paper'    # gaussian: Eq. 6 as printed, or through the TD error
    variance_loss: Literal['wasserstein', 'squared', 'likelihood'] = 'wasserstein'   # gaussian: Eq. 8 or another
    quantiles: int = bounded(32, '[1, inf)')           # quantile: K, the number of levels below alpha, and above it
    kappa: float = bounded(1.0, '[0, inf)')            # quantile: half width of Huber's round bottom, in returns
    mean: bool = False                                 # quantile: also an output for the mean, which corrects theirs
    atoms: int = bounded(51, '[2, inf)')               # categorical: the number of returns, over the range
    return_range: tuple[float, float] = (-50.0, 80.0)  # categorical and quantile: no target lies outside
    twin: bool = False                                 # two critics; the smaller risk value counts more
    caution: float = bounded(1.0, '[0.5, 1]')          # twin: share of the smaller at the lowest alpha; 0.5 at alpha 1
    return_scale: float = bounded(1.0, '(0, inf)')     # the critic's outputs times this are returns
    learning_rate: float = bounded(1e-4, '(0, inf)')

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.return_range[0] < self.return_range[1], 'critic.return_range',
              f'expected the lower end first, got {list(self.return_range)}')
        reason = REFUSED_PAIRS.get((self.variance_target, self.variance_loss)) if self.kind == 'gaussian' else None
        check(reason is None, 'variance_target', f'{self.variance_target} with variance_loss {self.variance_loss} '
                                                 f'does not work: {reason}')


@dataclass(frozen=True)
class ActorSettings(Group):
    """What the actor maximises."""

    risk: str = 'cvar'                                     # see risk.py; `paper` is the printed coefficient
    learning_rate: float = bounded(1e-4, '(0, inf)')
    pre_tanh_penalty: float = bounded(0.0, '[0, inf)')     # times out², keeps tanh from saturating
    behaviour_cloning: float = bounded(0.0, '[0, inf)')    # times (a - a_data)², risk values scaled to 1 (TD3+BC)
    cloning_filter: bool = False     # clone only what the critic values above the actor's own action (Nair et al. 2018)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            risk_measure(self.risk)
        except ValueError as error:
            raise SettingsError(f'risk: {error}') from None


@dataclass(frozen=True)
class AlphaSettings(Group):
    """Where training's risk levels come from, u uniform.

    linear   minimum + (maximum - minimum) * u**power
    log      maximum * (minimum / maximum)**(u**power)
    """

    minimum: float = bounded(0.01, '(0, 2]')
    maximum: float = bounded(1.0, '(0, 2]')   # above 1 they move the cap on returns
    caps: tuple[float, ...] = bounded((), '(0, inf)')   # the lowest and the highest, see risk.return_cap
    spacing: Literal['linear', 'log'] = 'linear'
    power: float = bounded(1.0, '(0, inf)')   # 1 is even; more draws low levels more often, high ones if log
    relabel: float = bounded(0.0, '[0, 1]')   # share of a minibatch with fresh levels instead of the episodes' own

    def __post_init__(self) -> None:
        super().__post_init__()
        check(not self.caps or (len(self.caps) == 2 and self.caps[0] < self.caps[1]), 'alpha.caps',
              f'expected none, or the lowest and the highest, got {list(self.caps)}')
        check(self.minimum <= self.maximum, 'minimum', f'expected at most the maximum, {self.maximum:g}, '
                                                       f'got {self.minimum:g}')


@dataclass(frozen=True)
class ExplorationSettings(Group):
    """How training's actions differ from the actor's."""

    noise_std: float = bounded(2.0, '[0, inf)')          # m/s², Gaussian, every decision
    random_decisions: int = bounded(2000, '[0, inf)')    # the first decisions are uniform over the action range
    hold_probability: float = bounded(0.0, '[0, 1]')     # per decision, to start holding full throttle or braking
    hold_decisions: float = bounded(4.0, '[1, inf)')     # mean length of such a hold
    spread: bool = False     # of the scenes side by side the first hardly explores, the last as much as said above


@dataclass(frozen=True)
class LearningSettings(Group):
    """The update."""

    gamma: float = bounded(0.99, '[0, 1]')                   # per simulation step of 0.1 s
    tau: float = bounded(0.005, '(0, 1]')                    # share of the way the targets move, per update
    batch: int = bounded(512, '[1, inf)')
    replay: int = bounded(1_000_000, '[1, inf)')             # transitions kept
    n_step: int = bounded(1, '[1, inf)')                     # decisions whose rewards a target sums
    updates_per_decision: float = bounded(1.0, '(0, inf)')   # a decision is one scene's
    final_rate: float = bounded(1.0, '[0, 1]')               # learning rates fall linearly to this share of themselves
    observation_clip: float = bounded(5.0, '(0, inf)')       # normalised observations are clipped to ± this

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.batch <= self.replay, 'batch', f'expected at most what replay keeps, {self.replay}, '
                                                  f'got {self.batch}')


@dataclass(frozen=True)
class OfflineSettings(Group):
    """Learning from recorded drives (`train --from-bag`), before any driving."""

    updates: int = bounded(20_000, '[1, inf)')
    interval: int = bounded(4_000, '[1, inf)')     # updates between two validations


@dataclass(frozen=True)
class WorldSettings(Group):
    """How the simulator is used."""

    scenario: str = ''                        # what the recipe is made for: train's default
    episodes: int = bounded(5000, '[1, inf)')     # length of a run, unless train is told another
    row: str = 'train'                        # the scenario's row of traffic parameters
    scenes: int = bounded(16, '[1, inf)')     # driven side by side
    changes: dict[str, Any] = field(default_factory=dict)   # to the scenario, by dotted names: `layout.time: true`


@dataclass(frozen=True)
class ValidationSettings(Group):
    """Measuring on seeds kept apart from training and reporting; the best checkpoint is chosen there."""

    interval: int = bounded(500, '[1, inf)')    # training episodes between two validations
    episodes: int = bounded(1000, '[1, inf)')   # per risk level
    alphas: tuple[float, ...] = bounded((0.02, 0.1, 0.3, 0.6, 1.0), '(0, 1]')
    levels: tuple[float, ...] = bounded((), '(0, 2]')     # trained levels to drive, if the dial is calibrated

    def __post_init__(self) -> None:
        super().__post_init__()
        check(bool(self.alphas), 'alphas', 'expected at least one level')


@dataclass(frozen=True)
class DialSettings(Group):
    """Calibrating the best checkpoint at the end of a run, its critic (settling.py) and its dial (dial.py)."""

    episodes: int = bounded(0, '[0, inf)')     # validation episodes per level; 0 leaves alpha the trained level
    levels: int = bounded(24, '[2, inf)')      # trained levels to choose from, over all that were trained
    critic_updates: int = bounded(0, '[0, inf)')     # of the critic alone, on new drives, before that


@dataclass(frozen=True)
class Recipe:
    """Everything about a training run but its seed; the scenario and the length may be given apart."""

    networks: NetworksSettings = field(default_factory=NetworksSettings)
    critic: CriticSettings = field(default_factory=CriticSettings)
    actor: ActorSettings = field(default_factory=ActorSettings)
    alpha: AlphaSettings = field(default_factory=AlphaSettings)
    exploration: ExplorationSettings = field(default_factory=ExplorationSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)
    offline: OfflineSettings = field(default_factory=OfflineSettings)
    world: WorldSettings = field(default_factory=WorldSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    dial: DialSettings = field(default_factory=DialSettings)

    def __post_init__(self) -> None:
        check(self.critic.kind != 'quantile' or self.actor.risk != 'paper', 'actor.risk',
              'paper is a formula for Gaussians: with critic.kind quantile use cvar')
        check(self.critic.kind != 'categorical' or self.actor.risk == 'cvar', 'actor.risk',
              f'a categorical critic knows cvar only, got {self.actor.risk}')
        check(not self.alpha.caps or self.learning.n_step == 1, 'alpha.caps',
              'what several decisions bring together cannot be capped: set learning.n_step to 1, or leave it out')
        check(self.alpha.maximum <= 1.0 or bool(self.alpha.caps and self.dial.episodes), 'alpha.maximum',
              'levels above 1 move a cap and are no alphas: set alpha.caps and dial.episodes, or leave it at 1')
        check(not self.dial.episodes or self.actor.risk == 'cvar', 'dial.episodes',
              f'a dial is calibrated for cvar, not for actor.risk {self.actor.risk}: leave it at 0')
        check(not self.dial.episodes or self.alpha.minimum < self.alpha.maximum, 'dial.episodes',
              'with one level there is nothing to calibrate: leave it at 0')
        check(bool(self.dial.episodes) or not self.dial.critic_updates, 'dial.critic_updates',
              'calibrating is off: set dial.episodes too, or leave it at 0')
        levels = self.validation.levels or (() if self.dial.episodes else self.validation.alphas)
        check(all(self.alpha.minimum <= level <= self.alpha.maximum for level in levels),
              'validation.levels' if self.validation.levels else 'validation.alphas',
              f'expected levels that are trained, [{self.alpha.minimum:g}, {self.alpha.maximum:g}], got {list(levels)}')
        check(bool(self.dial.episodes) or not self.validation.levels, 'validation.levels',
              'without a calibrated dial the levels are validation.alphas: set dial.episodes, or leave it out')


def load_recipe(path: Path | str) -> Recipe:
    """The recipe in a YAML file. Its key `base` names another file beside it that it changes."""
    try:
        return from_mapping(Recipe, _read(Path(path)), 'recipe')
    except SettingsError as error:
        raise SettingsError(f'{path}: {error}') from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path.read_text(), 'recipe') or {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f'cannot be read: {error}') from None
    check(isinstance(content, dict), 'recipe', f'expected settings (key: value), got {content!r}')
    if 'base' not in content:
        return content
    return _changed(_read(path.parent / str(content.pop('base'))), content)


def _changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A mapping with some of its values changed, at any depth."""
    return {**base, **{name: _changed(base[name], value)
                       if isinstance(value, dict) and isinstance(base.get(name), dict) else value
                       for name, value in changes.items()}}


def to_mapping(settings: Any) -> dict[str, Any]:
    """Plain dictionaries and lists, for YAML and JSON."""
    return dataclasses.asdict(settings, dict_factory=lambda items: {
        key: list(value) if isinstance(value, tuple) else value for key, value in items})
