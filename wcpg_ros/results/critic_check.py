"""Can the critic be believed? What it says at the first decision against the discounted returns that come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import charts
from wcpg_ros.results.context import Context, markdown
from wcpg_ros.results.manifest import Run
from wcpg_ros.risk import empirical_cvar

PICTURE = 'calibration.png'
BINS = 10     # of five, one holds all who may go at once and some who may not, and its worst 2% are those


@dataclass(frozen=True)
class Error:
    """How far predictions are from what came, as a share of the 5–95% spread of what came.

    Episodes are put into ten equal bins by their prediction, and within a bin what the critic said of its episodes is
    compared with what came of them. CVaR of many episodes is not the mean of each one's CVaR, so one return is drawn
    from what the critic held possible in each, and CVaR taken of those. A constant, the same figure of all episodes,
    knows no bin from another.
    """

    predicted: float     # of all episodes
    realised: float      # of all episodes
    error: float         # mean over bins
    constant: float      # the same for a constant predictor

    @property
    def believable(self) -> bool:
        """At most a tenth of the spread, and better than a constant."""
        return self.error <= 0.1 and self.error < self.constant


def errors(rows: np.ndarray, alpha: float) -> tuple[Error, Error]:
    """Of the mean and of CVaR at alpha."""
    low, high = np.percentile(rows['discounted'], [5, 95])
    spread = float(high - low) or float('nan')     # where all returns are alike, nothing is a share of their spread
    return (_error(rows['predicted_mean'], rows['predicted_mean'], rows['discounted'], 1.0, spread),
            _error(rows['predicted_cvar'], rows['drawn'], rows['discounted'], alpha, spread))


def _error(order: NDArray, predicted: NDArray, realised: NDArray, alpha: float, spread: float) -> Error:
    bins = np.array_split(np.argsort(order, kind='stable'), BINS)
    constant = float(empirical_cvar(realised, alpha))
    came = [float(empirical_cvar(realised[chosen], alpha)) for chosen in bins]
    said = [float(empirical_cvar(predicted[chosen], alpha)) for chosen in bins]
    return Error(float(empirical_cvar(predicted, alpha)), constant,
                 float(np.mean([abs(a - b) for a, b in zip(said, came, strict=True)])) / spread,
                 float(np.mean([abs(constant - b) for b in came])) / spread)


def watched(context: Context, run: Run, alpha: float) -> Drive:
    """A model with its critic watched."""
    return context.drive(run.scenario, run.file, alpha, episodes=context.evaluation.matrix_episodes, watch=True)


def found_errors(context: Context, run: Run) -> dict[float, tuple[Error, Error]]:
    """By alpha, of the mean and of CVaR."""
    return {alpha: errors(context.rows(watched(context, run, alpha)), alpha) for alpha in context.evaluation.alphas}


def drives(context: Context) -> Iterator[Drive]:
    """Every seed's model, watched."""
    for scenario in context.manifest.scenarios:
        for run in context.runs('ours', scenario):
            yield from (watched(context, run, alpha) for alpha in context.evaluation.alphas)


def lines(context: Context) -> list[str]:
    """The reliability diagram and the errors."""
    scenarios = context.manifest.scenarios
    made, axes = charts.figure(4.4 * len(scenarios), 4.2, 1, len(scenarios), sharey=True)
    colours = (charts.BLUE, charts.SKY, charts.GREEN, charts.ORANGE, charts.RED)
    styles = ('-', '--', '-.', ':', (0, (5, 1, 1, 1)))
    body, others = [], []
    for axis, scenario in zip(axes.flat, scenarios, strict=True):
        axis.plot([0, 1], [0, 1], color=charts.GREY, linewidth=1)
        shipped = context.shipped_run(scenario)
        for run in context.runs('ours', scenario):
            others.append([f'{load_scenario(scenario).title}, seed {run.seed}', *(
                ', '.join(f'{100 * error.error:.1f}' + ('' if error.believable else ' (no)') for error in pair)
                for pair in found_errors(context, run).values())])
        for alpha, colour, style in zip(context.evaluation.alphas, colours, styles, strict=False):
            rows = context.rows(watched(context, shipped, alpha))
            levels = np.linspace(0.0, 1.0, 201)
            axis.plot(levels, np.searchsorted(np.sort(rows['probability']), levels, side='right') / len(rows),
                      color=colour, linestyle=style, linewidth=1.8, label=f'α = {alpha:g}')
            for name, error in zip(('mean', f'CVaR {alpha:g}'), errors(rows, alpha), strict=True):
                body.append([f'{load_scenario(scenario).title}, α = {alpha:g}', name, f'{error.predicted:.2f}',
                             f'{error.realised:.2f}', f'{100 * error.error:.1f}', f'{100 * error.constant:.1f}',
                             'yes' if error.believable else 'no'])
        axis.set(title=load_scenario(scenario).title, xlabel='level of the predicted distribution', xlim=(0, 1),
                 ylim=(0, 1), aspect='equal')
    axes[0, 0].set(ylabel='share of episodes below it')
    charts.legend_below(made, axes[0, 0], 3 * len(scenarios))
    charts.save(made, context.picture(PICTURE))
    return ['## The critic, checked', '',
            f'The shipped models\' critics at the first decision of {context.evaluation.matrix_episodes:,} episodes of '
            'the `train` row, against the discounted returns that came. On the diagonal, the predicted distribution is '
            'right: a share x of the returns lies below its quantile x. Where two α are one policy, so are their '
            'lines.', '',
            context.link(PICTURE, 'Predicted against realised quantiles of the return'), '',
            'Error: the episodes in ten bins by their prediction, mean distance between what was said and what came '
            'in a bin, in % of the 5–95% spread of the returns. For CVaR, what was said is one return per episode, '
            'drawn from the distribution predicted for it. A constant predictor says the same for all. '
            'Believable: at most 10%, and below the constant.', '',
            *markdown(['', 'of', 'predicted', 'realised', 'error %', 'constant %', 'believable'], body),
            'Every training seed: error of the mean and of CVaR in %; (no) where it is not believable.', '',
            *markdown(['', *(f'α = {alpha:g}' for alpha in context.evaluation.alphas)], others)]
