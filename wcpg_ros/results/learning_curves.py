"""How everybody learnt: validation during training, every seed a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Context, markdown, mean_of
from wcpg_ros.results.manifest import Run

PICTURE = 'learning.png'
LOWEST, HIGHEST = 0, -1     # of the risk levels that WCPG is validated at
CURVES: dict[tuple[str, int], tuple[str, str, Any, str]] = {     # run and level: label, colour, line, marker
    ('ours', LOWEST): ('WCPG, lowest level', charts.BLUE, '-', 'o'),
    ('ours', HIGHEST): ('WCPG, highest level', charts.SKY, '-', '^'),
    ('ddpg', HIGHEST): ('DDPG', charts.RED, '--', 's'), ('d4pg', HIGHEST): ('D4PG', charts.ORANGE, '-.', 'P'),
    ('c51', HIGHEST): ('C51', charts.GREEN, (0, (5, 1, 1, 1)), 'D'),
    ('ppo_long', HIGHEST): ('PPO, long', charts.PURPLE, ':', 'v')}


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
        for (name, place), (label, colour, line, marker) in CURVES.items():
            curves = [curve for run in context.runs(name, scenario) if (curve := read(run, place))[0]]
            for axis, part in ((returns, 1), (collisions, 2)):
                drawn = [(curve[0], [charts.collision_percent(each / 100) for each in curve[2]] if part == 2
                          else curve[1]) for curve in curves]
                for decisions, values in drawn:
                    axis.plot(decisions, values, color=colour, linewidth=0.6, alpha=0.35)
                if drawn:
                    axis.plot(*_middle(drawn), color=colour, linestyle=line, linewidth=1.8, marker=marker,
                              markersize=6, label=label, zorder=4 if name == 'ours' else 3)
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
            'On the validation seeds, without exploration; thin lines are training seeds, thick ones their median. The '
            'best checkpoint of each run '
            'is measured here (baselines: by mean return; WCPG: by CVaR at every level, averaged). A level is what the '
            'network is told; the dial says which serves which α.', '',
            context.link(PICTURE, 'Mean return and collisions during training'), '', *_costs(context)]


def _middle(curves: Sequence[tuple[list[float], list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """The median of curves at a few places that all of them have, evenly over the logarithm."""
    first, last = max(decisions[0] for decisions, _ in curves), min(decisions[-1] for decisions, _ in curves)
    at = np.geomspace(first, last, 8)
    return at, np.median([np.interp(at, decisions, values) for decisions, values in curves], axis=0)


def quarters(decisions: Sequence[float], returns: Sequence[float]) -> tuple[float, float]:
    """The mean return in the third quarter of a run and in its last: who has converged gains no more."""
    at, values = np.array(decisions) / decisions[-1], np.array(returns)
    return mean_of(values[(at > 0.5) & (at <= 0.75)]), mean_of(values[at > 0.75])


def convergence(runs: Sequence[Run]) -> tuple[float, float]:
    """The same, mean of runs (WCPG: at its highest level)."""
    third, last = np.mean([quarters(*read(run)[:2]) for run in runs], axis=0)
    return float(third), float(last)


def _costs(context: Context) -> list[str]:
    body = []
    for scenario in context.manifest.scenarios:
        for name in context.manifest.runs:
            runs = [run for run in context.runs(name, scenario) if run.read_log()]
            if runs:
                last = [run.read_log()[-1] for run in runs]
                third, fourth = convergence(runs)
                gain = '–' if np.isnan(third) else f'{third:.1f} → {fourth:.1f}'
                body.append([f'{load_scenario(scenario).title}: `{name}`', len(last),
                             _range(float(row['decisions']) / 1000 for row in last),
                             _range(float(row['episodes']) / 1000 for row in last),
                             f'{median(float(row["seconds"]) for row in last) / 60:.0f}', gain])
    return ['Minutes are those until the last validation, on machines that were not all as quick.', '',
            *(_dial_costs(context, scenario) for scenario in context.manifest.scenarios), '',
            'The last column tells whether a run had converged: its mean return (WCPG: at its highest level) over the '
            'validations of the third quarter of its decisions, and over those of the last, mean of the seeds.', '',
            *markdown(['runs of', 'seeds', 'decisions, thousands', 'episodes, thousands', 'minutes of one core, median',
                       'third quarter → last'], body)]


def _dial_costs(context: Context, scenario: str) -> str:
    """What the dial takes, of which no actor learns anything."""
    dial = context.shipped_run(scenario).recipe().dial
    return (f'- {load_scenario(scenario).title}: on top, `ours` drives {dial.levels} levels through '
            f'{dial.episodes:,} episodes each to calibrate its dial, and settles its critic by '
            f'{dial.critic_updates:,} updates. Its actor learns nothing from either.')


def _range(values: Iterable[float]) -> str:
    low, high = min(found := list(values)), max(found)
    return f'{low:.1f}' if f'{low:.1f}' == f'{high:.1f}' else f'{low:.1f}–{high:.1f}'
