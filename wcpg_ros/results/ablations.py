"""The paper's claims about its own parts, each taken out: on the `train` row, every training seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.resampling import bootstrap_cvars
from wcpg_ros.results.context import Context, markdown
from wcpg_ros.results.intervals import difference, holm

GREEDY_ALPHAS = (0.02, 0.1, 0.3, 1.0)     # the last is the control


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
            yield from (drive for pair in _loner_pairs(context, scenario, alpha, name) for drive in pair)


def _loner_names(context: Context) -> list[tuple[float, str]]:
    """The alphas that have networks of their own, and their runs."""
    named = ((alpha, f'alone_{alpha}') for alpha in context.evaluation.alphas)
    return [(alpha, name) for alpha, name in named if name in context.manifest.runs]


def lines(context: Context) -> list[str]:
    """Four comparisons."""
    text = ['## Ablations', '', f'{context.evaluation.episodes:,} episodes of the `train` row per training seed; '
            'figures are means over the training seeds that both sides have (lowest–highest).', '']
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


def _paired(context: Context, scenario: str, names: tuple[str, str], alpha: float | None = None) -> list[list[Drive]]:
    """Of the training seeds that both have: one list for each name."""
    found = [{run.seed: context.drive(scenario, run.file, alpha) for run in context.runs(name, scenario)}
             for name in names]
    return [[drives[seed] for seed in found[0] if seed in found[1]] for drives in found]


def _penalties(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = []
    for scenario in scenarios:
        pair = _paired(context, scenario, ('ddpg', 'penalty'))
        for name, label, drives in zip(('ddpg', 'penalty'), ('−50', '−1000'), pair, strict=True):
            body.append([f'{load_scenario(scenario).title}: DDPG, {label}, {len(drives)} seeds, '
                         f'{context.runs(name, scenario)[0].decisions:,} decisions', *_outcomes(context, drives)])
    return ['### A collision that costs 1000', '',
            'The paper\'s first attempt at safety: a penalty of −1000 in place of −50 for a learner of means. It '
            'reports policies that often do not even attempt the maneuver.', '', *markdown(['', *OUTCOMES], body)]


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
            '(α = 1), against the policy of α itself. Greedy at α = 1 is the control: it counts on the policy that the '
            'critic is of, and should do about as well.', '', *markdown(['', *OUTCOMES], body)]


def _loner_pairs(context: Context, scenario: str, alpha: float, name: str) -> list[tuple[Drive, Drive]]:
    """The paper's networks at alpha, and those that were trained for it alone."""
    return list(zip(*_paired(context, scenario, ('paper', name), alpha), strict=True))


@dataclass(frozen=True)
class Loners:
    """One network for all alphas against one of its own, in CVaR at alpha."""

    scenario: str
    alpha: float
    values: np.ndarray     # [pairs of training seeds, conditioned and alone]
    better: int            # significantly, pairs
    worse: int

    @property
    def pairs(self) -> int:
        """How many were compared."""
        return len(self.values)


def loners(context: Context, scenario: str) -> list[Loners]:
    """A scenario's comparisons, alpha by alpha."""
    return [each for each in _all_loners(context) if each.scenario == scenario]


@cache
def _all_loners(context: Context) -> list[Loners]:
    compared = [(scenario, alpha, [[context.rows(drive)['return'] for drive in pair]
                                   for pair in _loner_pairs(context, scenario, alpha, name)])
                for scenario in context.manifest.scenarios for alpha, name in _loner_names(context)]
    cvars = [(*bootstrap_cvars(np.stack(pair), [alpha]), place)
             for place, (_, alpha, pairs) in enumerate(compared) for pair in pairs]
    p_values = holm([difference(value[0, 0] - value[1, 0], drawn[:, 0, 0] - drawn[:, 1, 0])[1]
                     for value, drawn, _ in cvars])
    found = []
    for place, (scenario, alpha, _) in enumerate(compared):
        values = np.array([value[:, 0] for value, _, at in cvars if at == place])
        sure = np.array([p < 0.05 for p, (_, _, at) in zip(p_values, cvars, strict=True) if at == place])
        better = int(np.sum(sure & (values[:, 0] > values[:, 1])))
        found.append(Loners(scenario, alpha, values, better, int(sure.sum()) - better))
    return found


def _loners(context: Context, scenarios: Sequence[str]) -> list[str]:
    body = [[f'{load_scenario(scenario).title}, α = {each.alpha:g}', *map(_spread, each.values.T),
             f'{each.better} better, {each.worse} worse']
            for scenario in scenarios for each in loners(context, scenario)]
    return ['### One network for all α, or one for each', '',
            'The empirical CVaR at α of the episode\'s return: one network conditioned on α, with the paper\'s values, '
            'against networks trained for this α alone, for as many episodes; pairs of training seeds on the same '
            'episodes (bootstrap, p < 0.05 after Holm\'s correction over this table).', '',
            *markdown(['', 'conditioned', 'alone', 'conditioned is, in seeds'], body)]


def _coefficient_pairs(context: Context, scenario: str) -> list[list[list[Drive]]]:
    """By alpha, the runs with the exact coefficient and those with the printed one."""
    return [_paired(context, scenario, ('paper', 'printed'), alpha) for alpha in context.evaluation.alphas]


def rises(context: Context, scenario: str) -> list[list[float]]:
    """How many points collisions rise from the lowest alpha to the highest, a training seed each: exact, printed."""
    lowest, *_, highest = _coefficient_pairs(context, scenario)
    return [[100 * (context.cell(last).collisions - context.cell(first).collisions) / context.cell(first).n
             for first, last in zip(*sides, strict=True)] for sides in zip(lowest, highest, strict=True)]


def _coefficients(context: Context, scenarios: Sequence[str]) -> list[str]:
    body, dials = [], []
    for scenario in scenarios:
        pairs = _coefficient_pairs(context, scenario)
        saved = []
        for side, (label, points) in enumerate(zip(('exact', 'printed'), rises(context, scenario), strict=True)):
            cells = [[context.cell(drive) for drive in pair[side]] for pair in pairs]
            body.append([f'{load_scenario(scenario).title}: {label}, {len(cells[0])} seeds',
                         *(f'{_spread([100 * cell.collisions / cell.n for cell in at])}<br>'
                           f'{_spread([cell.mean_return.value for cell in at])}' for at in cells)])
            saved.append(f'by {_spread(points)} points with the {label} one')
        dials.append(f'{load_scenario(scenario).title}: {", ".join(saved)}.')
    return ['### The printed coefficient and the exact one', '',
            'φ(α)/Φ(α) as in Eq. 9, against φ(Φ⁻¹(α))/α; both with the paper\'s values. Collisions in %, then the mean '
            'return. From the lowest α to the highest, collisions rise so:', '', *(f'- {line}' for line in dials), '',
            *markdown(['', *(f'α = {alpha:g}' for alpha in context.evaluation.alphas)], body)]
