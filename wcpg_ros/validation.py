"""Driving the present policy on the validation seeds, at several risk levels side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sim_node.observation import Layout
from sim_node.state import COLLISION, SUCCESS, TIMEOUT
from wcpg_ros.learner import Learner
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.risk import empirical_cvar, tail_share
from wcpg_ros.seeds import VALIDATION


class World(Protocol):
    """What learning knows of the world: sim_node.batch.Batch, or a test's stand-in."""

    n: int
    observation_size: int
    action_bound: float
    layout: Layout
    auto_reset: bool     # whether another episode follows one that has ended, or the scene stands still

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
    cvar: float              # of the return, at this alpha (at 1 for higher levels)
    predicted_mean: float    # the critic's, at the first decision, of the discounted return …
    realised_mean: float     # … and what came
    predicted_std: float     # root mean square of the critic's sigma at the first decision …
    realised_std: float      # … and of the distance of what came from the critic's mean: equal if calibrated


class Drives(NamedTuple):
    """How every level drove the same episodes, [levels, episodes] each."""

    outcome: NDArray[np.int64]
    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    discounted: NDArray[np.float64]

    def part(self, level: int) -> Drives:
        """Of one level, by its place."""
        return Drives(self.outcome[level], self.steps[level], self.returns[level], self.discounted[level])


def drive(act: Callable[[NDArray], NDArray], world: World, levels: int, repeat: int, gamma: float = 1.0) -> Drives:
    """The validation episodes, once for each level: as many of the world's scenes, in the order of the levels."""
    episodes = world.n // levels
    world.auto_reset = False
    observation = world.reset(np.tile(VALIDATION + np.arange(episodes), levels))
    running = np.ones(world.n, np.bool_)
    outcome, steps = np.zeros(world.n, np.int64), np.zeros(world.n, np.int64)
    returns, discounted = np.zeros(world.n), np.zeros(world.n)
    while running.any():
        result = world.step(act(observation), repeat)
        returns += np.where(running, result.reward, 0.0)
        discounted += np.where(running, result.reward, 0.0) * gamma ** steps
        steps[running] = result.steps[running]
        outcome[running] = result.outcome[running]
        running &= ~result.done
        observation = result.observation
    shape = (levels, episodes)
    return Drives(outcome.reshape(shape), steps.reshape(shape), returns.reshape(shape), discounted.reshape(shape))


def validate(learner: Learner, normaliser: Normaliser, world: World, repeat: int) -> tuple[list[LevelReport], float]:
    """A report of each level, and the score: what the best checkpoint has most of.

    The score is the mean over validation's alphas of the CVaR at alpha of the returns: of the policy of that level or,
    if the dial will be calibrated, of the level that has most of it. It is what the policy is for, measured: a
    checkpoint that is careless at alpha = 0.02 or slow at 1 loses.
    """
    recipe = learner.recipe
    alphas, clip = recipe.validation.alphas, recipe.learning.observation_clip
    levels = recipe.validation.levels or alphas
    alpha = np.repeat(np.asarray(levels, np.float32), world.n // len(levels))
    first: list[tuple[NDArray, NDArray]] = []     # states and actions of the first decision

    def act(observation: NDArray) -> NDArray:
        states = normaliser.columns(observation, clip)
        action = learner.act(states, alpha)
        if not first:
            first.append((states, action))
        return action

    drives = drive(act, world, len(levels), repeat, recipe.learning.gamma)
    predicted_mean, predicted_std = (each.reshape(len(levels), -1)
                                     for each in learner.predict(first[0][0], alpha, first[0][1]))
    reports = [_report(level, drives.part(k), predicted_mean[k], predicted_std[k]) for k, level in enumerate(levels)]
    if recipe.dial.episodes:
        return reports, float(np.mean([np.max(empirical_cvar(drives.returns, level)) for level in alphas]))
    return reports, float(np.mean([report.cvar for report in reports]))


def _report(level: float, drives: Drives, predicted_mean: NDArray, predicted_std: NDArray) -> LevelReport:
    won = drives.outcome == SUCCESS
    return LevelReport(
        alpha=level, success=float(won.mean()), collision=float((drives.outcome == COLLISION).mean()),
        timeout=float((drives.outcome == TIMEOUT).mean()),
        steps=float(drives.steps[won].mean()) if won.any() else float('nan'),
        mean_return=float(drives.returns.mean()), cvar=float(empirical_cvar(drives.returns, float(tail_share(level)))),
        predicted_mean=float(predicted_mean.mean()), realised_mean=float(drives.discounted.mean()),
        predicted_std=float(np.sqrt(np.mean(predicted_std ** 2))),
        realised_std=float(np.sqrt(np.mean((drives.discounted - predicted_mean) ** 2))))
