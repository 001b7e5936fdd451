"""Driving the present policy on the validation seeds, at several risk levels side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim_node.observation import Layout
from sim_node.state import COLLISION, SUCCESS, TIMEOUT
from wcpg_ros.learner import Learner
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.risk import empirical_cvar
from wcpg_ros.seeds import VALIDATION


class World(Protocol):
    """What learning knows of the world: sim_node.batch.Batch, or a test's stand-in."""

    n: int
    observation_size: int
    action_bound: float
    layout: Layout

    def reset(self, seeds: NDArray[np.int64], stride: int | None = None) -> NDArray[np.float32]: ...
    def step(self, accelerations: NDArray, repeat: int = 1) -> Any: ...
    def state(self) -> dict[str, NDArray]: ...
    def restore(self, state: dict[str, NDArray]) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class LevelReport:
    """What one risk level gave."""

    alpha: float
    success: float           # share of episodes
    collision: float
    timeout: float
    steps: float             # mean simulation steps of the successful
    mean_return: float       # undiscounted, as reported in tables
    cvar: float              # of the return, at this alpha
    predicted_mean: float    # the critic's, at the first decision, of the discounted return …
    realised_mean: float     # … and what came
    predicted_std: float     # root mean square of the critic's sigma at the first decision …
    realised_std: float      # … and of the distance of what came from the critic's mean: equal if calibrated


def score(reports: list[LevelReport]) -> float:
    """What the best checkpoint has most of: CVaR of the return at each level's own alpha, averaged over levels.

    It is what the policy is trained for, measured: a checkpoint that is careless at alpha = 0.02 or slow at 1 loses.
    """
    return float(np.mean([report.cvar for report in reports]))


def validate(learner: Learner, normaliser: Normaliser, world: World, alphas: tuple[float, ...], repeat: int,
             gamma: float) -> list[LevelReport]:
    """Every level drives the same episodes; `world` has as many scenes for each level."""
    episodes = world.n // len(alphas)
    alpha = np.repeat(np.asarray(alphas, np.float32), episodes)
    clip = learner.recipe.learning.observation_clip
    observation = world.reset(np.tile(VALIDATION + np.arange(episodes), len(alphas)))
    running = np.ones(world.n, np.bool_)
    outcome, steps = np.zeros(world.n, np.int64), np.zeros(world.n, np.int64)
    returns, discounted = np.zeros(world.n), np.zeros(world.n)
    states = normaliser.columns(observation, clip)
    predicted_mean, predicted_std = learner.predict(states, alpha, learner.act(states, alpha))
    while running.any():
        result = world.step(learner.act(normaliser.columns(observation, clip), alpha), repeat)
        returns += np.where(running, result.reward, 0.0)
        discounted += np.where(running, result.reward, 0.0) * gamma ** steps
        steps[running] = result.steps[running]
        outcome[running] = result.outcome[running]
        running &= ~result.done
        observation = result.observation
    reports = []
    for k, level in enumerate(alphas):
        part = slice(k * episodes, (k + 1) * episodes)
        won = outcome[part] == SUCCESS
        reports.append(LevelReport(
            alpha=level, success=float(won.mean()), collision=float((outcome[part] == COLLISION).mean()),
            timeout=float((outcome[part] == TIMEOUT).mean()),
            steps=float(steps[part][won].mean()) if won.any() else float('nan'),
            mean_return=float(returns[part].mean()), cvar=float(empirical_cvar(returns[part], level)),
            predicted_mean=float(predicted_mean[part].mean()), realised_mean=float(discounted[part].mean()),
            predicted_std=float(np.sqrt(np.mean(predicted_std[part] ** 2))),
            realised_std=float(np.sqrt(np.mean((discounted[part] - predicted_mean[part]) ** 2)))))
    return reports
