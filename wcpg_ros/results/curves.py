"""Testing performance over alpha, the paper's figure: return with 1st and 99th percentile, time, the critic's σ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim_node.scenario import STEP_SECONDS, load_scenario
from sim_node.state import SUCCESS
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Context, mean_of
from wcpg_ros.results.manifest import Run
from wcpg_ros.results.tables import BLOCKS

PICTURE = 'testing.png'


def drives(context: Context) -> Iterator[Drive]:
    """Every seed at every alpha, the critic watched."""
    for scenario in context.manifest.scenarios:
        for name in BLOCKS:
            for run in context.runs(name, scenario):
                for alpha in context.evaluation.curve_alphas:
                    yield context.drive(scenario, run.file, alpha, watch=True)


def _rows(context: Context, run: Run) -> list[np.ndarray]:
    """Of every alpha."""
    return [context.rows(context.drive(run.scenario, run.file, alpha, watch=True))
            for alpha in context.evaluation.curve_alphas]


def mean_sigma(context: Context, scenario: str, name: str) -> np.ndarray:
    """Along an episode, mean of the episodes, [training seed, alpha]."""
    return np.array([[each['sigma'].mean(dtype=float) for each in _rows(context, run)]
                     for run in context.runs(name, scenario)])


def lines(context: Context) -> list[str]:
    """The figure."""
    scenarios, alphas = context.manifest.scenarios, context.evaluation.curve_alphas
    made, axes = charts.figure(10.0, 3.1 * len(scenarios), len(scenarios), 3, sharex=True)
    for (left, middle, right), scenario in zip(axes, scenarios, strict=True):
        collision = load_scenario(scenario).reward.collision
        shipped = context.shipped(scenario)
        for run in context.runs('ours', scenario):
            rows = _rows(context, run)
            main = str(run.file) == shipped
            style = {'marker': '.', **(
                {'color': charts.BLUE, 'linewidth': 2.2, 'markersize': 9, 'zorder': 3, 'label': 'shipped seed'} if main
                else {'color': charts.GREY, 'linewidth': 1.0, 'markersize': 4, 'label': 'other seeds'})}
            left.plot(alphas, [each['return'].mean(dtype=float) for each in rows], **style)
            if main:
                low, high = np.transpose([np.percentile(each['return'], [1, 99]) for each in rows])
                left.fill_between(alphas, low, high, color=charts.SKY, alpha=0.3, label='1st to 99th percentile',
                                  linewidth=0)
            middle.plot(alphas, [STEP_SECONDS * mean_of(each['steps'][each['outcome'] == SUCCESS]) for each in rows],
                        **style)
            right.plot(alphas, [each['sigma'].mean(dtype=float) for each in rows], **style)
        left.axhline(collision, color=charts.RED, linestyle='--', linewidth=1.2, label='a collision')
        left.set(ylabel=f'{load_scenario(scenario).title}\nreturn of the episode')
        middle.set(ylabel='time to complete (s)')
        right.set(ylabel="the critic's σ of the return")
    for axis in axes[-1]:
        axis.set(xlabel='risk level α', xlim=(0.0, 1.0))
    charts.legend_below(made, axes[0, 0], 4)
    charts.save(made, context.picture(PICTURE))
    return ['## Testing performance over α', '',
            f'On the `train` row, {context.evaluation.episodes:,} episodes per point. Left: mean return, and of the '
            'shipped seed the range between its 1st and 99th percentile. Middle: mean time of successes. Right: the '
            'standard deviation of the return to come that the critic believes in, mean along each episode, then over '
            'them.', '',
            context.link(PICTURE, 'Return, time and the critic\'s σ over α'), '']
