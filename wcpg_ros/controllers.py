"""Controllers by name, wherever a command line takes one: reference rules and model files.

    constant:A   always A m/s²
    brake        always the hardest braking
    gap:T        waits before the conflict zone until everybody is more than T s away from it, then goes
    predict:M    goes when predicted to clear the conflict M s (perhaps negative) before or behind everybody
    FILE         a trained policy, at the risk level alpha, or a trained baseline
    greedy:FILE  the best CVaR at alpha by a trained policy's critic of its risk-neutral self, decision by decision
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim_node.batch import Batch
from sim_node.rules import GAP, PREDICT
from sim_node.rules_batch import rule_batch
from sim_node.scenario import Scenario, load_scenario
from sim_node.settings import SettingsError
from sim_node.state import RUNNING
from wcpg_ros.baselines.baseline_file import Baseline
from wcpg_ros.model_file import unpack
from wcpg_ros.policy import Policy

CHOICES = 'constant:A, brake, gap:T, predict:M, the path of a model file (.safetensors) or greedy:PATH'

GRID = 17     # accelerations that `greedy` chooses among


class Controller(Protocol):
    """Anything that chooses the accelerations of a batch of scenes."""

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""


@dataclass(frozen=True)
class Constant:
    """The same acceleration always."""

    acceleration: float

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""
        return np.full(batch.n, self.acceleration)


@dataclass(frozen=True)
class Rule:
    """A rule of sim_node.rules with its one number of seconds."""

    kind: int
    seconds: float

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""
        accelerations = np.empty(batch.n)
        rule_batch(*batch.seen, self.kind, self.seconds, accelerations)
        return accelerations


@dataclass(frozen=True)
class Model:
    """A trained policy at one risk level."""

    policy: Policy
    alpha: float

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""
        return _where_running(batch, observation, lambda seen: self.policy.act(seen, self.alpha))


@dataclass(frozen=True)
class Trained:
    """A trained baseline: it has no dial."""

    baseline: Baseline

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""
        return _where_running(batch, observation, self.baseline.act)


@dataclass(frozen=True)
class Greedy:
    """What the paper warns of (section 3): CVaR at alpha maximised on a critic of a policy that is not followed."""

    policy: Policy
    alpha: float

    def act(self, batch: Batch, observation: np.ndarray) -> np.ndarray:
        """The acceleration in m/s² for every scene of a batch."""
        return _where_running(batch, observation, self._best)

    def _best(self, observation: np.ndarray) -> np.ndarray:
        info = self.policy.info
        grid = np.linspace(-info.action_bound, info.action_bound, GRID)
        worth = self.policy.tail(np.repeat(observation, GRID, axis=0), np.tile(grid, len(observation)),
                                 info.alpha_max, self.alpha)
        return grid[worth.reshape(-1, GRID).argmax(axis=1)]


def _where_running(batch: Batch, observation: np.ndarray, act: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """What is chosen in the scenes whose episode is not over, by one whose choice does not depend on the others'."""
    running = batch.scenes['outcome'] == RUNNING
    accelerations = np.zeros(batch.n)
    if running.any():
        accelerations[running] = act(observation[running])
    return accelerations


def model_path(controller: str) -> Path | None:
    """The file behind a controller's name, if there is one."""
    return Path(controller.removeprefix('greedy:')) if controller.endswith('.safetensors') else None


def prepare(scenario: str, row: str, controller: str, alpha: float | None = None,
            changes: dict[str, Any] | None = None) -> tuple[Scenario, Controller]:
    """A scenario and a controller as named on a command line; a model file sets the layout it sees."""
    changes = dict(changes or {})
    kind, _, number = controller.partition(':')
    if kind in ('constant', 'gap', 'predict', 'brake'):
        if alpha is not None:
            raise SettingsError(f'alpha: {controller!r} has no dial, only model files do')
        scene = load_scenario(scenario, row, changes)
        limit = scene.vehicle.acceleration_limit
        if kind == 'brake':
            if ':' in controller:
                raise SettingsError(f'controller {controller!r}: brake takes no number; choose {CHOICES}')
            return scene, Constant(-limit)
        value = _number(controller, number)
        if kind == 'gap' and value < 0.0:
            raise SettingsError(f'controller {controller!r}: nobody is less than 0 s away')
        if kind != 'constant':
            return scene, Rule(GAP if kind == 'gap' else PREDICT, value)
        if abs(value) > limit:
            raise SettingsError(f'controller {controller!r}: no vehicle exceeds ±{limit:g} m/s²')
        return scene, Constant(value)
    path = model_path(controller)
    if path is None:
        raise SettingsError(f'controller {controller!r} is unknown; choose {CHOICES}')
    source = Policy.load(path) if kind == 'greedy' else _load(path)
    if isinstance(source, Baseline) and alpha is not None:
        raise SettingsError(f'alpha: {controller} is a baseline ({source.info.algorithm}), it has no dial')
    layout = source.info.layout
    scene = load_scenario(scenario, row, {**layout.changes(), **changes})
    if source.info.scenario != scene.name:
        raise SettingsError(f'{controller}: trained for {source.info.scenario}, not for {scene.name}')
    if scene.layout != layout:
        raise SettingsError(f'{controller}: sees {layout}, but the settings ask for {scene.layout}')
    if isinstance(source, Baseline):
        return scene, Trained(source)
    alpha = 1.0 if alpha is None else alpha
    source.act(np.zeros(layout.size, np.float32), alpha)     # one it was not trained for is refused here
    return scene, (Greedy if kind == 'greedy' else Model)(source, alpha)


def _load(path: Path) -> Baseline | Policy:
    info, _ = unpack(path)
    return Baseline.load(path) if 'algorithm' in info else Policy.load(path)


def _number(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingsError(f'controller {text!r}: expected a finite number after the colon; choose {CHOICES}')
    return value
