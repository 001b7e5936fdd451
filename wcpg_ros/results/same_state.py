"""In the same states near the conflict: what each alpha does, and what comes of it when the dial is turned there.

Acceleration alone does not say who is careful: who can no longer stop is out of harm by hurrying, and who joins other
traffic may wait for a gap by braking less. So the dial is also turned on the way: what follows tells.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sim_node.batch import Batch
from sim_node.geometry import build_geometry
from sim_node.seeds import episode_seed
from sim_node.state import COLLISION, RUNNING, SUCCESS
from wcpg_ros.controllers import Model, prepare
from wcpg_ros.episodes import EPISODE
from wcpg_ros.policy import Policy
from wcpg_ros.results.context import Context, markdown, mean_of, number_interval, percent, percent_interval
from wcpg_ros.results.cvar_matrix import Neighbours, neighbours
from wcpg_ros.results.intervals import bootstrap_mean, clopper_pearson, mcnemar_exact

NEAR = 20.0      # m before the conflict zone
APART = 0.1      # m/s²: the least that is a difference
BEFORE = 0.3     # the alpha that drives until there


class Approach:
    """Episodes of a model, and how far ego's front axle is from the conflict zone in each."""

    def __init__(self, scenario_name: str, model: str, seed: int, episodes: int) -> None:
        self.scenario, controller = prepare(scenario_name, 'train', model, BEFORE)
        assert isinstance(controller, Model)
        self.policy = controller.policy
        self._conflict = build_geometry(self.scenario).conflict_enter + self.scenario.vehicle.front_axle
        self.batch = Batch(self.scenario, episodes, auto_reset=False)
        self.observation = self.batch.reset(episode_seed(seed, 0) + np.arange(episodes))

    @property
    def running(self) -> np.ndarray:
        """Episodes that have not ended."""
        return self.batch.scenes['outcome'] == RUNNING

    @property
    def near(self) -> np.ndarray:
        """Episodes in which ego is just before the conflict zone."""
        return self.running & (self._ahead > 0.0) & (self._ahead < NEAR)

    @property
    def can_stop(self) -> np.ndarray:
        """Episodes in which braking would stop ego before the zone."""
        return self._ahead > self.batch.scenes['speed'] ** 2 / (2.0 * self.batch.action_bound)

    @property
    def _ahead(self) -> np.ndarray:
        return self._conflict - self.batch.scenes['s']

    def act(self, alpha: float) -> np.ndarray:
        """The policy's accelerations now."""
        return self.policy.act(self.observation, alpha).astype(np.float64)

    def step(self, accelerations: np.ndarray) -> None:
        """One decision."""
        self.observation = self.batch.step(accelerations, self.scenario.action_repeat).observation


def near_conflict(scenario_name: str, model: str, seed: int, episodes: int) -> np.ndarray:
    """Observations of ego just before the conflict zone."""
    approach, found = Approach(scenario_name, model, seed, episodes), []
    while approach.running.any():
        found.append(approach.observation[approach.near].copy())
        approach.step(approach.act(BEFORE))
    return np.concatenate(found)


def turned(scenario_name: str, model: str, alpha: float, seed: int, episodes: int) -> np.ndarray:
    """Rows of the episodes in which the dial is turned to alpha as ego comes near the conflict and can still stop.

    They are the same episodes, in the same states until then, whatever the alpha.
    """
    approach = Approach(scenario_name, model, seed, episodes)
    came, counted = (np.zeros(episodes, np.bool_) for _ in range(2))
    while approach.running.any():
        comes = approach.near & ~came
        came |= comes
        counted |= comes & approach.can_stop
        approach.step(np.where(came, approach.act(alpha), approach.act(BEFORE)))
    rows = np.zeros(int(counted.sum()), EPISODE)
    rows['episode'] = np.flatnonzero(counted)
    rows['outcome'], rows['steps'] = (approach.batch.scenes[name][counted] for name in ('outcome', 'step'))
    return rows


@cache
def actions(context: Context, scenario: str) -> np.ndarray:
    """The shipped model's accelerations in the same states, a row for every alpha."""
    model = context.shipped(scenario)
    states = near_conflict(scenario, model, context.evaluation.seed, context.evaluation.episodes)
    return np.stack([Policy.load(model).act(states, alpha) for alpha in context.evaluation.alphas])


@cache
def turns(context: Context, scenario: str) -> list[np.ndarray]:
    """What became of the shipped model's episodes, for every alpha that the dial was turned to."""
    evaluation = context.evaluation
    return [turned(scenario, context.shipped(scenario), alpha, evaluation.seed, evaluation.curve_episodes)
            for alpha in evaluation.alphas]


def right_direction(actions: np.ndarray) -> tuple[float, float]:
    """Shares of the states in which acceleration rises with alpha from end to end, and in which it falls (m/s²)."""
    change = actions[-1] - actions[0]
    return float(np.mean(change > APART)), float(np.mean(change < -APART))


def ends(context: Context, scenario: str) -> tuple[Neighbours, float]:
    """From the lowest alpha to the highest: what turning changes, and the p-value that collisions do not differ."""
    rows, alphas = turns(context, scenario), context.evaluation.alphas
    pair = neighbours([rows[0], rows[-1]], (alphas[0], alphas[-1]))[0]
    return pair, mcnemar_exact(*(each['outcome'] == COLLISION for each in (rows[0], rows[-1])))


def turning_works(context: Context, scenario: str) -> bool:
    """Whether collisions rise and time falls with the alpha that was turned to, and the ends differ in both."""
    rows = turns(context, scenario)
    pair, p_value = ends(context, scenario)
    between = neighbours(rows, context.evaluation.alphas)
    return (all(each.quicker.high >= 0.0 and each.collisions_rise for each in between)
            and pair.quicker.low > 0.0 and pair.collisions_rise and p_value < 0.05)


def lines(context: Context, scenario: str) -> list[str]:
    """Both, for the shipped model."""
    found, alphas = actions(context, scenario), context.evaluation.alphas
    rises, falls = right_direction(found)
    means = ', '.join(f'{row.mean(dtype=float):.2f} at α = {alpha:g}' for alpha, row in zip(alphas, found, strict=True))
    body = []
    for alpha, rows in zip(alphas, turns(context, scenario), strict=True):
        collisions, finished = (rows['outcome'] == kind for kind in (COLLISION, SUCCESS))
        body.append([f'{alpha:g}', f'{collisions.sum()} of {len(rows):,}',
                     percent_interval(clopper_pearson(int(collisions.sum()), len(rows)), 2),
                     percent(mean_of(finished)), number_interval(bootstrap_mean(rows['steps'][finished]))])
    return [f'In the same {found.shape[1]:,} states within {NEAR:.0f} m before the conflict, the shipped model\'s mean '
            f'acceleration in m/s² is {means}. From the lowest α to the highest it rises by more than {APART:g} in '
            f'{percent(rises, 0)}% of the states and falls by more in {percent(falls, 0)}%. That alone does not tell '
            'who is careful: who can no longer stop is out of harm by hurrying, and who joins other traffic may wait '
            'for a gap by braking less.', '',
            f'The dial turned on the way: α = {BEFORE:g} until ego comes within {NEAR:.0f} m of the conflict, another '
            f'α from there on. Of {context.evaluation.curve_episodes:,} episodes, those in which it can still stop '
            'there count, the same ones for every α:', '',
            *markdown(['turned to α =', 'collisions', '% [95%]', 'success %', 'steps'], body)]
