"""The dial: the CVaR matrix of every seed, and the safe end on every row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.model_file import ModelFile
from wcpg_ros.results import critic_check, same_state
from wcpg_ros.results.context import Context, markdown, number_interval, percent, percent_interval, table_rows
from wcpg_ros.results.cvar_matrix import NEIGHBOURS_DIFFER, Matrix, judge, markdown_matrix
from wcpg_ros.results.intervals import clopper_pearson
from wcpg_ros.results.manifest import Run

SAFE_END = (0.02, 0.1)


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


def resting(context: Context, scenario: str) -> str:
    """Where turning the shipped model's dial changes nothing."""
    pairs = ModelFile.load(context.shipped(scenario)).info.dial
    spans = [[alpha for alpha, _ in group] for _, group in itertools.groupby(pairs, key=lambda pair: pair[1])]
    same = [f'{span[0]:g} to {span[-1]:g}' for span in spans if len(span) > 1]
    return f'one policy for α from {", and one from ".join(same)}.' if same else 'another policy for every α.'


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
                 *markdown_matrix(found[shipped]), f'On the whole dial there is {resting(context, scenario)}', '',
                 'Every training seed:', '', *_dials(found),
                 *same_state.lines(context, scenario), *_safe_end(context, scenario)]
    return text


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
    return ['Monotone: steps fall and collisions rise from each α to the next, or stay within the interval.', '',
            *markdown(['training seed', 'columns that hold', 'steps from the lowest α to the highest',
                       '% saved from end to end', 'collisions, %', f'neighbours ≥ {100 * NEIGHBOURS_DIFFER:.0f}% apart',
                       'monotone'], body)]


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
