"""The README's table: what turning the dial of the shipped models buys, beside DDPG and the rules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim_node.scenario import STEP_SECONDS, load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import critic_check, dial
from wcpg_ros.results.context import Context, markdown, percent, table_rows, with_row

MARKS = 'results'     # that it stands between


def _columns(context: Context, scenario: str) -> dict[str, list[Drive]]:
    """By name, a drive of the `train` row per training seed."""
    settings, run = context.evaluation, context.shipped_run(scenario)

    def rule(name: str) -> list[Drive]:
        return [context.drive(scenario, name, episodes=settings.matrix_episodes)]
    return {**{f'α = {alpha:g}': [critic_check.watched(context, run, alpha)] for alpha in settings.alphas},
            'DDPG': [context.drive(scenario, ddpg.file, episodes=settings.matrix_episodes)
                     for ddpg in context.runs('ddpg', scenario)],
            **{f'`{name}`': rule(name)
               for name in (f'predict:{settings.table_margin:g}', f'gap:{settings.table_gap:g}')}}


def _everywhere(found: list[Drive], scenario: str) -> list[list[Drive]]:
    """The same on every row, `train` first."""
    return [[with_row(drive, row) for drive in found] for row in table_rows(scenario)]


def drives(context: Context) -> Iterator[Drive]:
    """Of every column, on every row."""
    for scenario in context.manifest.scenarios:
        for found in _columns(context, scenario).values():
            yield from (drive for row in _everywhere(found, scenario) for drive in row)


def table(context: Context) -> str:
    """Collisions and time to complete, of DDPG the mean over its training seeds; where the dial changes nothing."""
    body: list[list[str]] = []
    columns: dict[str, list[Drive]] = {}
    for scenario in context.manifest.scenarios:
        title, columns = load_scenario(scenario).title, _columns(context, scenario)
        cells = [[[context.cell(drive) for drive in row] for row in _everywhere(found, scenario)]
                 for found in columns.values()]
        rates = [[float(np.mean([cell.collisions / cell.n for cell in row])) for row in column] for column in cells]
        seconds = (np.mean([STEP_SECONDS * cell.steps.value for cell in column[0]]) for column in cells)
        body += [[f'{title}: collisions, %', *(percent(train, 2) for train, *_ in rates)],
                 ['the same on the worst other row', *(percent(max(others), 2) for _, *others in rates)],
                 ['seconds to complete', *('–' if np.isnan(value) else f'{value:.1f}' for value in seconds)]]
    return '\n'.join([*markdown(['', *columns], body), *(
        f'- {load_scenario(scenario).title}: {dial.resting(context, scenario)}'
        for scenario in context.manifest.scenarios)])
