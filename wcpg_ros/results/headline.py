"""The README's table: what turning the dial of the shipped models buys, beside DDPG and the gap rule."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim_node.scenario import STEP_SECONDS, load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import critic_check
from wcpg_ros.results.context import Context, markdown, percent

MARKS = 'results'     # that it stands between


def _columns(context: Context, scenario: str) -> dict[str, list[Drive]]:
    """By name, a drive per training seed."""
    run, gap, episodes = (context.shipped_run(scenario), f'gap:{context.evaluation.table_gap:g}',
                          context.evaluation.matrix_episodes)
    return {**{f'α = {alpha:g}': [critic_check.watched(context, run, alpha)] for alpha in context.evaluation.alphas},
            'DDPG': [context.drive(scenario, ddpg.file, episodes=episodes) for ddpg in context.runs('ddpg', scenario)],
            f'`{gap}`': [context.drive(scenario, gap, episodes=episodes)]}


def drives(context: Context) -> Iterator[Drive]:
    """Of every column."""
    for scenario in context.manifest.scenarios:
        for found in _columns(context, scenario).values():
            yield from found


def table(context: Context) -> str:
    """Collisions and time to complete; of DDPG the mean over its training seeds."""
    body: list[list[str]] = []
    columns: dict[str, list[Drive]] = {}
    for scenario in context.manifest.scenarios:
        title, columns = load_scenario(scenario).title, _columns(context, scenario)
        cells = [[context.cell(drive) for drive in found] for found in columns.values()]
        rates = (np.mean([cell.collisions / cell.n for cell in found]) for found in cells)
        seconds = (np.mean([STEP_SECONDS * cell.steps.value for cell in found]) for found in cells)
        body += [[f'{title}: collisions, %', *(percent(float(rate), 2) for rate in rates)],
                 [f'{title}: seconds to complete', *(f'{value:.1f}' for value in seconds)]]
    return '\n'.join(markdown(['', *columns], body)).rstrip()
