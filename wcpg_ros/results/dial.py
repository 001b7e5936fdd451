"""The dial: the CVaR matrix of every seed, and the safe end on every row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from sim_node.batch import Batch
from sim_node.geometry import build_geometry
from sim_node.scenario import load_scenario
from sim_node.seeds import episode_seed
from wcpg_ros.controllers import prepare
from wcpg_ros.episode_store import Drive
from wcpg_ros.policy import Policy
from wcpg_ros.results import critic_check
from wcpg_ros.results.context import Context, markdown, number_interval, percent, percent_interval, table_rows
from wcpg_ros.results.cvar_matrix import NEIGHBOURS_DIFFER, Matrix, judge, markdown_matrix
from wcpg_ros.results.intervals import clopper_pearson
from wcpg_ros.results.manifest import Run

SAFE_END = (0.02, 0.1)
NEAR = 20.0     # m
APART = 0.1     # m/s²: the least that is a difference


def _matrix_drives(context: Context, run: Run) -> list[Drive]:
    return [critic_check.watched(context, run, alpha) for alpha in context.evaluation.alphas]


def safe_drive(context: Context, scenario: str, alpha: float, row: str) -> Drive:
    """The shipped model on a row."""
    return context.drive(scenario, context.shipped(scenario), alpha, row, context.evaluation.curve_episodes)


def drives(context: Context) -> Iterator[Drive]:
    """Every seed's matrix, and the shipped model's safe end."""
    for scenario in context.manifest.scenarios:
        for run in context.runs('ours', scenario):
            yield from _matrix_drives(context, run)
        for row in table_rows(scenario):
            yield from (safe_drive(context, scenario, alpha, row) for alpha in SAFE_END)


@cache
def matrices(context: Context, scenario: str) -> dict[int, Matrix]:
    """By training seed."""
    return {run.seed: judge([context.rows(drive) for drive in _matrix_drives(context, run)], context.evaluation.alphas)
            for run in context.runs('ours', scenario)}


def lines(context: Context) -> list[str]:
    """Both scenarios' matrices, dials and safe ends."""
    text = ['## The dial', '',
            f'The policy of each α against the empirical CVaR of the episode\'s return at each level, '
            f'{context.evaluation.matrix_episodes:,} paired episodes per policy on the `train` row, with 95% bootstrap '
            'intervals; the best of a column in bold. A column holds if the policy of its α is the best, within the '
            'interval of the difference, and beats the policies two settings away (bootstrap of paired episodes, Holm '
            'p < 0.05). One model: `python -m wcpg_ros.results.cvar_matrix`.', '']
    for scenario in context.manifest.scenarios:
        shipped = context.shipped_run(scenario).seed
        found = matrices(context, scenario)
        text += [f'### {load_scenario(scenario).title}', '',
                 f'Seed {shipped}, the shipped one, the median of all on the validation seeds:', '',
                 *markdown_matrix(found[shipped]), 'Every training seed:', '', *_dials(found),
                 *_same_states(context, scenario), *_safe_end(context, scenario)]
    return text


def near_conflict(scenario_name: str, model: str, seed: int) -> np.ndarray:
    """Observations of ego within 20 m before the conflict zone, driven by the model at α = 0.3."""
    scenario, controller = prepare(scenario_name, 'train', model, 0.3)
    conflict = build_geometry(scenario).conflict_enter + scenario.vehicle.front_axle     # of ego's front axle
    batch = Batch(scenario, 200)
    observation = batch.reset(episode_seed(seed, 0) + np.arange(batch.n))
    found = []
    for _ in range(scenario.max_steps // scenario.action_repeat):
        place = batch.scenes['s'] - conflict
        found.append(observation[(place > -NEAR) & (place < 0.0)].copy())
        observation = batch.step(controller.act(batch, observation), scenario.action_repeat).observation
    return np.concatenate(found)


@cache
def actions_near_conflict(context: Context, scenario: str) -> np.ndarray:
    """The shipped model's accelerations in the same states, a row for every alpha."""
    model = context.shipped(scenario)
    states = near_conflict(scenario, model, context.evaluation.seed)
    return np.stack([Policy.load(model).act(states, alpha) for alpha in context.evaluation.alphas])


def right_direction(actions: np.ndarray) -> tuple[float, float]:
    """Shares of the states in which acceleration rises with alpha from end to end, and in which it falls (m/s²)."""
    change = actions[-1] - actions[0]
    return float(np.mean(change > APART)), float(np.mean(change < -APART))


def _same_states(context: Context, scenario: str) -> list[str]:
    actions = actions_near_conflict(context, scenario)
    rises, falls = right_direction(actions)
    means = ', '.join(f'{row.mean(dtype=float):.2f} at α = {alpha:g}'
                      for alpha, row in zip(context.evaluation.alphas, actions, strict=True))
    return [f'In the same {actions.shape[1]:,} states within {NEAR:.0f} m of the conflict, the shipped model\'s mean '
            f'acceleration in m/s² is {means}. From the lowest α to the highest it rises by more than {APART:g} in '
            f'{percent(rises, 0)}% of the states and falls by more in {percent(falls, 0)}%.', '']


def _dials(found: dict[int, Matrix]) -> list[str]:
    body = []
    for seed, matrix in found.items():
        apart = [pair for pair in matrix.neighbours if pair.quicker.value >= NEIGHBOURS_DIFFER]
        saved = 1.0 - matrix.steps[-1] / matrix.steps[0]
        body.append([seed, f'{sum(column.holds for column in matrix.columns)} of {len(matrix.columns)}',
                     ' '.join(f'{steps:.0f}' for steps in matrix.steps), percent(saved, 0),
                     ' '.join(percent(count / matrix.episodes, 2) for count in matrix.collisions),
                     f'{len(apart)} of {len(matrix.neighbours)}',
                     'yes' if all(pair.quicker.high >= 0.0 and pair.collisions_rise for pair in matrix.neighbours)
                     else 'no'])
    return markdown(['training seed', 'columns that hold', 'steps from the lowest α to the highest',
                     '% saved from end to end', 'collisions, %', f'neighbours ≥ {100 * NEIGHBOURS_DIFFER:.0f}% apart',
                     'monotone'], body)


def _safe_end(context: Context, scenario: str) -> list[str]:
    body = []
    for row in table_rows(scenario):
        for alpha in SAFE_END:
            cell = context.cell(safe_drive(context, scenario, alpha, row))
            body.append([f'{row}, α = {alpha:g}', f'{cell.collisions} of {cell.n:,}',
                         percent_interval(clopper_pearson(cell.collisions, cell.n), 2),
                         percent(cell.successes / cell.n), percent(cell.timeouts / cell.n),
                         number_interval(cell.steps)])
    return ['The safe end of the shipped model, with Clopper–Pearson intervals:', '',
            *markdown(['row', 'collisions', '% [95%]', 'success %', 'time-out %', 'steps'], body)]
