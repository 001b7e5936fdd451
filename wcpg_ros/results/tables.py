"""The paper's two extrapolation tables, its numbers beside ours; every training seed by itself in a second page."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim_node.scenario import load_scenario
from sim_node.state import COLLISION
from wcpg_ros.episode_store import Drive
from wcpg_ros.results.context import (
    Context,
    markdown,
    mean_of,
    number_interval,
    paper_tables,
    percent,
    percent_interval,
    table_rows,
    with_row,
)
from wcpg_ros.results.intervals import holm, mcnemar_exact

BLOCKS = {'ours': 'the shipped models', 'paper': "the paper's values, `config/paper.yaml`"}
BASELINES = {'ddpg': 'DDPG', 'ppo': 'PPO', 'ppo_long': 'PPO, long', 'c51': 'C51', 'd4pg': 'D4PG'}
CAUTIOUS = 0.02


@dataclass(frozen=True)
class Column:
    """A controller of the table: one drive per training seed (a rule has none, and one drive)."""

    label: str
    paper: int | None              # its place in the paper's table
    drives: dict[int | None, Drive]     # on the train row, by training seed


def columns(context: Context, scenario: str, block: str) -> list[Column]:
    """Every alpha, every baseline, the gap rule."""
    names = paper_tables()['columns']
    found = []
    for alpha in context.evaluation.alphas:
        found.append(Column(f'α = {alpha:g}', _place(names, alpha), {
            run.seed: context.drive(scenario, run.file, alpha) for run in context.runs(block, scenario)}))
    for name, label in BASELINES.items():
        found.append(Column(label, names.index(label) if label in names else None, {
            run.seed: context.drive(scenario, run.file) for run in context.runs(name, scenario)}))
    gap = context.evaluation.table_gap
    return [*found, Column(f'gap {gap:g} s', None, {None: context.drive(scenario, f'gap:{gap:g}')})]


def _place(names: list[str], alpha: float) -> int | None:
    values = [float(name) if name[0].isdigit() else None for name in names]
    return values.index(alpha) if alpha in values else None


def drives(context: Context) -> Iterator[Drive]:
    """Every cell of both tables."""
    for scenario in context.manifest.scenarios:
        for block in BLOCKS:
            for column in columns(context, scenario, block):
                for drive in column.drives.values():
                    yield from (with_row(drive, row) for row in table_rows(scenario))


def lines(context: Context) -> list[str]:
    """The tables, and the comparisons."""
    seeds, n = len(context.runs('ours', context.manifest.scenarios[0])), context.evaluation.episodes
    paper_length = f'{context.runs("paper", context.manifest.scenarios[0])[0].episodes:,}'
    text = ['## Extrapolation', '',
            f'Trained on the `train` row only. Each cell: collisions in %, mean of {seeds} training seeds (lowest–'
            f'highest seed), {n:,} episodes each; then success / time-outs in %; then mean steps of successes; then, '
            'in italics, the paper\'s collisions and success (one seed, 100 episodes). Every seed by itself, as k of n '
            'with Wilson\'s intervals, steps and returns, and every α against the baselines: '
            f'[{context.page.stem}_cells.md]({context.page.stem}_cells.md). Both blocks show the same baselines, with '
            'as many decisions and networks as large as the shipped models; the models of the paper\'s values are '
            f'smaller and trained for {paper_length} episodes.', '']
    for scenario in context.manifest.scenarios:
        for block, name in BLOCKS.items():
            text += [f'### {load_scenario(scenario).title}: {name}', '', *_table(context, scenario, block)]
        text += [*_comparisons(context, scenario, CAUTIOUS), *_shifts(context, scenario)]
    _write_details(context)
    return text


def _table(context: Context, scenario: str, block: str) -> list[str]:
    shown = columns(context, scenario, block)
    body = []
    for row in table_rows(scenario):
        cells = [row]
        for column in shown:
            found = [context.cell(with_row(drive, row)) for drive in column.drives.values()]
            rates = [cell.collisions / cell.n for cell in found]
            spread = f' ({percent(min(rates))}–{percent(max(rates))})' if len(rates) > 1 else ''
            success, late = (float(np.mean([getattr(cell, name) / cell.n for cell in found]))
                             for name in ('successes', 'timeouts'))
            paper = paper_tables()[scenario][row][column.paper] if column.paper is not None else None
            steps = [cell.steps.value for cell in found if cell.successes]
            cells.append(f'**{percent(float(np.mean(rates)))}**{spread}<br>{percent(success)} / {percent(late)}<br>'
                         + (f'{np.mean(steps):.0f} steps' if steps else '–')
                         + (f'<br>*{paper[0]}, {paper[1]}*' if paper else ''))
        body.append(cells)
    return markdown(['row', *(column.label for column in shown)], body)


def _shifts(context: Context, scenario: str) -> list[str]:
    """How many of the train row's episodes a row changes at all."""
    neutral = context.drive(scenario, context.shipped(scenario), context.evaluation.alphas[-1])
    before = context.rows(neutral)
    shares = []
    for row in table_rows(scenario):
        if row != neutral.row:
            after = context.rows(with_row(neutral, row))
            other = (after['outcome'] != before['outcome']) | (after['steps'] != before['steps'])
            shares.append(f'`{row}` {percent(mean_of(other), 0)}%')
    return [f'How far a row is from `train`: of the shipped model\'s episodes at α = {neutral.alpha:g}, so many end '
            f'with another outcome or at another step: {", ".join(shares)}. A platoon comes on every row, '
            'so that spawn rates alone change little.', '']


def _comparisons(context: Context, scenario: str, alpha: float) -> list[str]:
    """McNemar's test of the policy of an alpha against all baselines and the rule, seed by seed."""
    policy, *others = [column for column in columns(context, scenario, 'ours')
                       if column.label == f'α = {alpha:g}' or not column.label.startswith('α')]
    places, p_values, better = [], [], []
    for row in table_rows(scenario):
        for column in others:
            for drive, rival in zip(policy.drives.values(), itertools.cycle(column.drives.values()), strict=False):
                first, second = (context.rows(with_row(each, row))['outcome'] == COLLISION for each in (drive, rival))
                places.append((row, column.label))
                p_values.append(mcnemar_exact(first, second))
                better.append(first.sum() < second.sum())
    significant = np.array(holm(p_values)) < 0.05
    body = []
    for row in table_rows(scenario):
        cells = [row]
        for column in others:
            here = np.array([place == (row, column.label) for place in places])
            safer, less = (int(np.sum(here & significant & sign)) for sign in (np.array(better), ~np.array(better)))
            found = [f'{count} {word}' for count, word in ((safer, 'safer'), (less, 'less safe')) if count]
            cells.append(', '.join(found) or '–')
        body.append(cells)
    return [f'**α = {alpha:g} against the others**, seed by seed on the same episodes: in how many of '
            f'{len(policy.drives)} training seeds it collides less often, or more often, McNemar\'s exact test, p < '
            f'0.05 after Holm\'s correction over all {len(p_values)} comparisons of this table; – where no seed '
            'differs significantly.', '',
            *markdown(['row', *(column.label for column in others)], body)]


def _write_details(context: Context) -> None:
    header = ['controller', 'seed', 'n', 'collisions', '%, Wilson', 'successes', 'time-outs', 'steps', 'return']
    text = ['# Every cell of the tables', '', f'Made with [{context.page.name}]({context.page.name}), which says how. '
            'Collisions + successes + time-outs = n. Steps of 0.1 s, mean of successes; steps and returns with '
            'bootstrap intervals; all intervals 95%.', '']
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(['block', 'scenario', 'row', 'controller', 'training_seed', 'n', 'collisions', 'successes',
                     'timeouts', 'collision_low', 'collision_high', 'steps', 'steps_low', 'steps_high', 'return',
                     'return_low', 'return_high'])
    for scenario in context.manifest.scenarios:
        for block, name in BLOCKS.items():
            for row in table_rows(scenario):
                text += [f'## {load_scenario(scenario).title}, {row}: {name}', '']
                body = []
                for column in columns(context, scenario, block):
                    for seed, drive in column.drives.items():
                        cell = context.cell(with_row(drive, row))
                        body.append([column.label, '–' if seed is None else seed, cell.n, cell.collisions,
                                     percent_interval(cell.collision_rate, 2), cell.successes, cell.timeouts,
                                     number_interval(cell.steps), number_interval(cell.mean_return, 2)])
                        trained = column.label.startswith('α')
                        if trained or block == 'ours':     # the others are the same in both
                            writer.writerow([block if trained else 'others', scenario, row, column.label, seed, cell.n,
                                             cell.collisions, cell.successes, cell.timeouts, *cell.collision_rate[1:],
                                             *cell.steps, *cell.mean_return])
                text += markdown(header, body)
        text += [f'## {load_scenario(scenario).title}: {BLOCKS["ours"]} against the baselines', '']
        for alpha in context.evaluation.alphas:
            text += _comparisons(context, scenario, alpha)
    stem = f'{context.page.stem}_cells'
    context.made(f'{stem}.md').write_text('\n'.join(text) + '\n')
    context.made(f'{stem}.csv').write_text(sheet.getvalue(), newline='')
