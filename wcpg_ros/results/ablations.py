"""The paper's claims about its own parts, each taken out: on the `train` row, every training seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.resampling import bootstrap_cvars
from wcpg_ros.results.context import Context, markdown, percent
from wcpg_ros.results.intervals import difference

GREEDY_ALPHAS = (0.02, 0.1, 0.3)


def policies(context: Context, name: str, scenario: str, alpha: float | None = None) -> list[Drive]:
    """The runs of a name, a seed each."""
    return [context.drive(scenario, run.file, alpha) for run in context.runs(name, scenario)]


def greedy(context: Context, scenario: str, alpha: float) -> list[Drive]:
    """The same, choosing greedily on their critics."""
    return [context.drive(scenario, f'greedy:{run.file}', alpha) for run in context.runs('ours', scenario)]


def drives(context: Context) -> Iterator[Drive]:
    """Everything compared below."""
    for scenario in context.manifest.scenarios:
        yield from policies(context, 'penalty', scenario)
        yield from policies(context, 'ddpg', scenario)
        for alpha in GREEDY_ALPHAS:
            yield from greedy(context, scenario, alpha)
        for alpha in context.evaluation.alphas:
            for name in ('ours', 'paper', 'printed'):
                yield from policies(context, name, scenario, alpha)
        for alpha, name in _loner_names(context):
            yield from policies(context, name, scenario, alpha)


def _loner_names(context: Context) -> list[tuple[float, str]]:
    """The alphas that have networks of their own, and their runs."""
    named = ((alpha, f'alone_{alpha}') for alpha in context.evaluation.alphas)
    return [(alpha, name) for alpha, name in named if name in context.manifest.runs]


def lines(context: Context) -> list[str]:
    """Four comparisons."""
    text = ['## Ablations', '', f'{context.evaluation.episodes:,} episodes of the `train` row per training seed; '
            'figures are means over seeds (lowest–highest).', '']
    scenarios = context.manifest.scenarios
    return [*text, *_penalties(context, scenarios), *_greedies(context, scenarios), *_loners(context, scenarios),
            *_coefficients(context, scenarios)]


def _outcomes(context: Context, drives: Sequence[Drive]) -> list[str]:
    """Collisions, successes, time-outs in % and steps, over seeds."""
    cells = [context.cell(drive) for drive in drives]
    shares = ([100 * getattr(cell, name) / cell.n for cell in cells]
              for name in ('collisions', 'successes', 'timeouts'))
    return [*(_spread(values) for values in shares), _spread([cell.steps.value for cell in cells])]


def _spread(values: Sequence[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return '–'
    middle = f'{np.mean(known):.1f}'
    return middle if len(known) == 1 else f'{middle} ({min(known):.1f}–{max(known):.1f})'


OUTCOMES = ['collisions %', 'success %', 'time-outs %', 'steps']


def _penalties(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = [[f'{load_scenario(scenario).title}: {label}', *_outcomes(context, policies(context, name, scenario))]
            for scenario in scenarios for name, label in (('ddpg', 'DDPG, −50'), ('penalty', 'DDPG, −1000'))]
    longer, shorter = (context.manifest.runs[name].decisions for name in ('ddpg', 'penalty'))
    return ['### A collision that costs 1000', '',
            'The paper\'s first attempt at safety: a penalty of −1000 in place of −50 for a learner of means. It '
            'reports policies that often do not even attempt the maneuver. Trained for '
            f'{shorter:,} decisions, with −50 for {longer:,}.', '', *markdown(['', *OUTCOMES], body)]


def _greedies(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = []
    for scenario in scenarios:
        for alpha in GREEDY_ALPHAS:
            title = f'{load_scenario(scenario).title}, α = {alpha:g}'
            body += [[f'{title}: policy', *_outcomes(context, policies(context, 'ours', scenario, alpha))],
                     [f'{title}: greedy', *_outcomes(context, greedy(context, scenario, alpha))]]
    return ['### Greedy on a fixed critic', '',
            'The paper argues that choosing, at every decision, the action with the best CVaR by a critic of *another* '
            'policy must fail. Here: the acceleration with the best CVaR at α by the critic of the risk-neutral policy '
            '(α = 1), against the policy of α itself.', '', *markdown(['', *OUTCOMES], body)]


def _loners(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = []
    for scenario in scenarios:
        for alpha, name in _loner_names(context):
            of_all = {run.seed: run.file for run in context.runs('ours', scenario)}
            values: list[list[float]] = [[], []]
            wins = losses = 0
            for run in context.runs(name, scenario):
                conditioned, alone = (context.rows(context.drive(scenario, file, alpha))['return']
                                      for file in (of_all[run.seed], run.file))
                value, drawn = bootstrap_cvars(np.stack([conditioned, alone]), [alpha])
                for kept, each in zip(values, value[:, 0], strict=True):
                    kept.append(float(each))
                _, p = difference(value[0, 0] - value[1, 0], drawn[:, 0, 0] - drawn[:, 1, 0])
                wins += p < 0.05 and values[0][-1] > values[1][-1]
                losses += p < 0.05 and values[0][-1] < values[1][-1]
            body.append([f'{load_scenario(scenario).title}, α = {alpha:g}', _spread(values[0]), _spread(values[1]),
                         f'{wins} better, {losses} worse'])
    return ['### One network for all α, or one for each', '',
            'The empirical CVaR at α of the episode\'s return: one network conditioned on α, against networks trained '
            'for that α alone, as the state\'s own CVaR, without a dial calibrated on episodes; seed by seed on the '
            'same episodes (bootstrap, p < 0.05, uncorrected).', '',
            *markdown(['', 'conditioned', 'alone', 'conditioned is, in seeds'], body)]


def _coefficients(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = []
    for scenario in scenarios:
        for name, label in (('paper', 'exact'), ('printed', 'printed')):
            cells = [[context.cell(drive) for drive in policies(context, name, scenario, alpha)]
                     for alpha in context.evaluation.alphas]
            body.append([f'{load_scenario(scenario).title}: {label}',
                         *(f'{percent(float(np.mean([cell.collisions / cell.n for cell in at])))}, '
                           f'{np.nanmean([cell.steps.value for cell in at]):.0f}' for at in cells)])
    return ['### The printed coefficient and the exact one', '',
            'φ(α)/Φ(α) as in Eq. 9, against φ(Φ⁻¹(α))/α; both with the paper\'s values. Collisions in %, steps; means '
            'over seeds.', '', *markdown(['', *(f'α = {alpha:g}' for alpha in context.evaluation.alphas)], body)]
