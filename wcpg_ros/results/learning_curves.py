"""How everybody learnt: validation during training, every seed a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Context, markdown, mean_of
from wcpg_ros.results.manifest import Run

PICTURE = 'learning.png'
LOWEST, HIGHEST = 0, -1     # of the risk levels that WCPG is validated at
CURVES = {     # run, level, label, colour, line
    ('ours', LOWEST): ('WCPG, lowest level', charts.BLUE, '-'),
    ('ours', HIGHEST): ('WCPG, highest level', charts.SKY, '-'),
    ('ddpg', HIGHEST): ('DDPG', charts.RED, '--'), ('d4pg', HIGHEST): ('D4PG', charts.ORANGE, '--'),
    ('c51', HIGHEST): ('C51', charts.GREEN, '-.'), ('ppo_long', HIGHEST): ('PPO, long', charts.PURPLE, ':')}


def drives(context: Context) -> Iterable[Drive]:
    """Nothing is driven: the logs are beside the models."""
    return ()


def read(run: Run, place: int = HIGHEST) -> tuple[list[float], list[float], list[float]]:
    """Decisions, mean return and collisions in %, a row per validation; empty without a log.

    `place` is that of WCPG's risk level among those of its log; a baseline has only one.
    """
    rows = run.read_log()
    decisions = [float(row['decisions']) for row in rows]
    levels = [name.removeprefix('mean_return@') for name in (rows or [{}])[0] if name.startswith('mean_return@')]
    if levels:
        level = sorted(levels, key=float)[place]
        return (decisions, [float(row[f'mean_return@{level}']) for row in rows],
                [100 * float(row[f'collision@{level}']) for row in rows])
    return (decisions, [float(row['mean_return']) for row in rows],
            [100 * float(row['collisions']) / float(row['n']) for row in rows])


def lines(context: Context) -> list[str]:
    """The figure, and what each run took."""
    scenarios = context.manifest.scenarios
    made, axes = charts.figure(10.0, 3.4 * len(scenarios), len(scenarios), 2, sharex=True)
    for (returns, collisions), scenario in zip(axes, scenarios, strict=True):
        for (name, place), (label, colour, line) in CURVES.items():
            for k, run in enumerate(context.runs(name, scenario)):
                decisions, value, rate = read(run, place)
                ours = name == 'ours'
                style = {'color': colour, 'linestyle': line, 'linewidth': 1.0, 'alpha': 0.8, 'marker': '.',
                         'markersize': 6 if ours else 2, 'label': label if k == 0 else None, 'zorder': 3 if ours else 2}
                returns.plot(decisions, value, **style)
                collisions.plot(decisions, [charts.collision_percent(each / 100) for each in rate], **style)
        charts.collision_axis(collisions)
        returns.set(ylabel=f'{load_scenario(scenario).title}\nmean return')
        collisions.set(ylabel='collisions (%)')
        charts.decisions_axis(returns)
        charts.decisions_axis(collisions)
    for axis in axes[-1]:
        axis.set(xlabel='decisions (0.4 s each) in training')
    charts.legend_below(made, axes[0, 0], 6)
    charts.save(made, context.picture(PICTURE))
    return ['## Learning', '',
            'On the validation seeds, without exploration; a line per training seed. The best checkpoint of each run '
            'is measured here (baselines: by mean return; WCPG: by CVaR at every level, averaged). A level is what the '
            'network is told; the dial says which serves which α.', '',
            context.link(PICTURE, 'Mean return and collisions during training'), '', *_costs(context)]


def quarters(decisions: Sequence[float], returns: Sequence[float]) -> tuple[float, float]:
    """The mean return in the third quarter of a run and in its last: who has converged gains no more."""
    at, values = np.array(decisions) / decisions[-1], np.array(returns)
    return mean_of(values[(at > 0.5) & (at <= 0.75)]), mean_of(values[at > 0.75])


def _costs(context: Context) -> list[str]:
    body = []
    for scenario in context.manifest.scenarios:
        for name in context.manifest.runs:
            runs = [run for run in context.runs(name, scenario) if run.read_log()]
            if runs:
                last = [run.read_log()[-1] for run in runs]
                third, fourth = np.mean([quarters(*read(run)[:2]) for run in runs], axis=0)
                gain = '–' if np.isnan(third) else f'{third:.1f} → {fourth:.1f}'
                body.append([f'{load_scenario(scenario).title}: `{name}`', len(last),
                             _range(float(row['decisions']) / 1000 for row in last),
                             _range(float(row['episodes']) / 1000 for row in last),
                             f'{median(float(row["seconds"]) for row in last) / 60:.0f}', gain])
    return ['Minutes are those until the last validation, on machines that were not all as quick; those that calibrate '
            'the dial and settle the critic come on top.', '',
            'The last column tells whether a run had converged: its mean return (WCPG: at its highest level) over the '
            'validations of the third quarter of its decisions, and over those of the last, mean of the seeds.', '',
            *markdown(['runs of', 'seeds', 'decisions, thousands', 'episodes, thousands', 'minutes of one core, median',
                       'third quarter → last'], body)]


def _range(values: Iterable[float]) -> str:
    low, high = min(found := list(values)), max(found)
    return f'{low:.1f}' if f'{low:.1f}' == f'{high:.1f}' else f'{low:.1f}–{high:.1f}'
