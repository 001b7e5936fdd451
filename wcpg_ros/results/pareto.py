"""Collisions against time: what each controller pays for safety."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.scenario import STEP_SECONDS, load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Cell, Context, markdown, percent, table_rows
from wcpg_ros.results.manifest import Run
from wcpg_ros.results.tables import BASELINES, CAUTIOUS

RULES = ('gap', 'predict')
BEHIND_PREDICT = 0.05     # of the steps: how much slower than the predictive rule the safe end may be


def families(context: Context, run: Run, row: str) -> dict[str, dict[float, Drive]]:
    """The curves: a model over alpha, the rules over their seconds."""
    settings = context.evaluation

    def drive(controller: str | Path, alpha: float | None = None) -> Drive:
        return context.drive(run.scenario, controller, alpha, row, settings.curve_episodes)
    alphas = sorted({*settings.curve_alphas, *settings.alphas})
    return {'wcpg': {alpha: drive(run.file, alpha) for alpha in alphas},
            'gap': {gap: drive(f'gap:{gap:g}') for gap in settings.gaps},
            'predict': {margin: drive(f'predict:{margin:g}') for margin in settings.margins}}


def _baselines(context: Context, scenario: str, row: str) -> dict[str, list[Drive]]:
    return {name: [context.drive(scenario, run.file, row=row) for run in context.runs(name, scenario)]
            for name in BASELINES}


def drives(context: Context) -> Iterator[Drive]:
    """Every curve and every point, on every row."""
    for scenario in context.manifest.scenarios:
        for row in table_rows(scenario):
            for run in context.runs('ours', scenario):
                yield from (drive for family in families(context, run, row).values() for drive in family.values())
            for points in _baselines(context, scenario, row).values():
                yield from points


def lines(context: Context) -> list[str]:
    """A chart of the train row for each scenario, and one of all the other rows."""
    text = ['## Safety against time', '',
            'Further left is quicker, further down is safer. One curve for the shipped model over α, one for each rule '
            f'over its seconds, {context.evaluation.curve_episodes:,} episodes per point with 95% intervals (Wilson; '
            '"none" was found in the grey strip); a point for each training seed of a baseline, '
            f'{context.evaluation.episodes:,} episodes.', '']
    for scenario in context.manifest.scenarios:
        title = load_scenario(scenario).title
        made, axes = charts.figure(7.2, 4.6)
        _draw(context, scenario, 'train', axes[0, 0], labels=True)
        axes[0, 0].set(title=f'{title}, train row', xlabel='mean time to complete (s)', ylabel='collisions (%)')
        charts.legend_below(made, axes[0, 0], 4)
        charts.save(made, context.picture(f'pareto_{scenario}.png'))
        others = [row for row in table_rows(scenario) if row != 'train']
        made, axes = charts.figure(10.0, 6.0, 2, 3, sharex=True, sharey=True)
        for axis, row in zip(axes.flat, others, strict=True):
            _draw(context, scenario, row, axis, labels=False)
            axis.set(title=row)
        for axis in axes[-1]:
            axis.set(xlabel='mean time to complete (s)')
        for axis in axes[:, 0]:
            axis.set(ylabel='collisions (%)')
        charts.legend_below(made, axes[0, 0], 8)
        made.suptitle(f'{title}: rows that nobody was trained on')
        charts.save(made, context.picture(f'pareto_{scenario}_rows.png'))
        text += [context.link(f'pareto_{scenario}.png', f'{title}: collisions against time'), '',
                 context.link(f'pareto_{scenario}_rows.png', f'{title}: the same on the other rows'), '',
                 *_against_rules(context, scenario)]
    return text


def steps_at(rate: float, family: list[Cell]) -> float | None:
    """The steps a rule needs for a collision rate, between its neighbouring members; None where none is so safe.

    Members that collide more often than another and are no quicker do not count; where all of them collide less often
    than asked, the quickest is as good.
    """
    front: list[tuple[float, float]] = []
    for point in sorted((cell.collision_rate.value, cell.steps.value) for cell in family if cell.successes):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    if not front or rate < front[0][0]:
        return None
    rates, steps = zip(*front, strict=True)
    return float(np.interp(rate, rates, steps))


def slower_than_rules(context: Context, run: Run, row: str) -> dict[str, dict[float, float | None]]:
    """By rule and alpha, the share of steps by which a model is slower where both collide as often."""
    members = families(context, run, row)
    found: dict[str, dict[float, float | None]] = {}
    for rule in RULES:
        family = [context.cell(drive) for drive in members[rule].values()]
        found[rule] = {}
        for alpha, drive in members['wcpg'].items():
            mine = context.cell(drive)
            steps = steps_at(mine.collision_rate.value, family)
            found[rule][alpha] = None if steps is None else mine.steps.value / steps - 1.0
    return found


def not_slower(rule: str, slower: dict[float, float | None]) -> bool:
    """On one row, at every alpha where they can be compared, of which there must be one."""
    compared = {alpha: value for alpha, value in slower.items() if value is not None}
    return bool(compared) and all(value <= (BEHIND_PREDICT if rule == 'predict' and alpha < 0.3 else 0.0)
                                  for alpha, value in compared.items())


def rows_not_slower(context: Context, run: Run) -> dict[str, list[str]]:
    """By rule, the rows on which a model is nowhere slower."""
    slower = {row: slower_than_rules(context, run, row) for row in table_rows(run.scenario)}
    return {rule: [row for row, found in slower.items() if not_slower(rule, found[rule])] for rule in RULES}


def _against_rules(context: Context, scenario: str) -> list[str]:
    """How much slower each alpha is than a rule that collides as often."""
    body, cautious = [], []
    for row in table_rows(scenario):
        slower = slower_than_rules(context, context.shipped_run(scenario), row)
        if (share := slower['predict'][CAUTIOUS]) is not None:
            cautious.append(100 * share)
        body.append([row, *(', '.join('–' if (value := slower[rule][alpha]) is None else f'{100 * value:+.0f}'
                                      for rule in RULES) for alpha in slower[RULES[0]])])
    return ['Steps of the shipped model against those of the gap rule and of the predictive rule where they collide as '
            'often (between neighbouring points of their curves; where the model collides more often than all of them, '
            'against the quickest), in %: below zero the model is quicker; – where the rule collides more often with '
            'every number of seconds.',
            '', *markdown(['row', *(f'α = {alpha:g}' for alpha in slower[RULES[0]])], body),
            *([f'So the safe end, α = {CAUTIOUS:g}, is {min(cautious):+.0f} to {max(cautious):+.0f}% slower than a '
               'hand-written predictive rule that collides as often.', ''] if cautious else []),
            'The rows on which each training seed is nowhere slower (than the predictive rule below α = 0.3: by no '
            f'more than {percent(BEHIND_PREDICT, 0)}%).', '',
            *markdown(['training seed', *(f'`{rule}`' for rule in RULES)], (
                [run.seed, *(', '.join(rows) or 'none' for rows in rows_not_slower(context, run).values())]
                for run in context.runs('ours', scenario)))]


def _draw(context: Context, scenario: str, row: str, axis: Any, labels: bool) -> None:
    charts.collision_axis(axis)
    styles = {'wcpg': (charts.BLUE, 'o', 'WCPG over α'), 'gap': (charts.GREY, '.', 'gap rule over T'),
              'predict': (charts.BLACK, '.', 'predictive rule over M')}
    for name, members in families(context, context.shipped_run(scenario), row).items():
        colour, marker, label = styles[name]
        cells = [context.cell(drive) for drive in members.values()]
        axis.errorbar([_seconds(cell) for cell in cells],
                      [charts.collision_percent(cell.collision_rate.value) for cell in cells],
                      yerr=_bars(cells), color=colour, marker=marker, markersize=5, elinewidth=0.8, capsize=2,
                      linewidth=1.8 if name == 'wcpg' else 1, label=label, zorder=4 if name == 'wcpg' else 3)
        if labels and name == 'wcpg':
            for place, alphas in _labels(context.evaluation.alphas, members, cells).items():
                axis.annotate(alphas, place, xytext=(6, 5), textcoords='offset points', fontsize=8, color=colour,
                              zorder=5, path_effects=[charts.HALO])
    for name, points in _baselines(context, scenario, row).items():
        colour, marker = charts.BASELINE_STYLES[name]
        cells = [cell for cell in map(context.cell, points) if cell.successes]
        axis.plot([_seconds(cell) for cell in cells],
                  [charts.collision_percent(cell.collision_rate.value) for cell in cells], linestyle='none',
                  color=colour, marker=marker, markersize=6, markerfacecolor='none' if name == 'ppo' else colour,
                  label=BASELINES[name], zorder=2)


def _labels(alphas: Sequence[float], members: Iterable[float], cells: Iterable[Cell]) -> dict[tuple[float, float], str]:
    """The alphas at each place, from the lowest to the highest where policies are one; nothing beside the others."""
    found: dict[tuple[float, float], list[float]] = {}
    for alpha, cell in zip(members, cells, strict=True):
        found.setdefault((_seconds(cell), charts.collision_percent(cell.collision_rate.value)), []).append(alpha)
    return {place: '–'.join(dict.fromkeys(f'{end:g}' for end in (here[0], here[-1])))
            for place, here in found.items() if set(here) & set(alphas)}


def _seconds(cell: Cell) -> float:
    return STEP_SECONDS * cell.steps.value


def _bars(cells: list[Cell]) -> list[list[float]]:
    """How far each interval reaches below and above where the rate is drawn."""
    drawn = [charts.collision_percent(cell.collision_rate.value) for cell in cells]
    ends = [[charts.collision_percent(end) for end in cell.collision_rate[1:]] for cell in cells]
    return [[at - low for at, (low, _) in zip(drawn, ends, strict=True)],
            [high - at for at, (_, high) in zip(drawn, ends, strict=True)]]
