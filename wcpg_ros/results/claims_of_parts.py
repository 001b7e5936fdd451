"""The paper's claims about its own parts: a penalty instead of CVaR, greedy choices, one network, Eq. 9."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.fast_slow import switch_alpha
from wcpg_ros.results import ablations, learning_curves
from wcpg_ros.results.claim import Claim, span
from wcpg_ros.results.context import Cell, Context, percent

CONVERGED = 0.5     # of the mean return, gained in the last quarter of a training


def about(context: Context, scenario: str) -> Iterator[Claim]:
    """Every claim about a scenario."""
    yield _penalty(context, scenario)
    yield _greedy(context, scenario)
    yield _one_network(context, scenario)
    yield _equation(context, scenario)
    yield _convergence(context, scenario)


def _penalty(context: Context, scenario: str) -> Claim:
    runs = context.runs('penalty', scenario)
    timeouts = [cell.timeouts / cell.n for cell in (context.cell(context.drive(scenario, run.file)) for run in runs)]
    validations = [float(row['timeouts']) / float(row['n']) for run in runs for row in run.read_log()]
    idle = sum(share >= 0.2 for share in validations)
    return Claim('With a penalty of −1000, policies often do not even attempt the maneuver.',
                 load_scenario(scenario).title,
                 f'time-outs in {span(timeouts)}% of the episodes over the seeds; during training at least 20% in '
                 f'{idle} of {len(validations)} validations', float(np.mean(timeouts)) >= 0.2,
                 'Success pays at least its bonus however late it comes, waiting is safe here, and late in an episode '
                 'the road is empty: even a driver who fears collisions most gains by going then. The policies that do '
                 'not, early in training, are not chosen: the best on the validation seeds is. The paper does not '
                 'choose.')


def _greedy(context: Context, scenario: str) -> Claim:
    """Against a control: choosing by the mean, greedily on the risk-neutral policy's own critic, must not fail."""
    def fails(own: Sequence[Cell], chosen: Sequence[Cell]) -> bool:
        return (_share(chosen, 'collisions') >= 2 * _share(own, 'collisions') + 0.005
                or _share(chosen, 'successes') <= _share(own, 'successes') - 0.05)
    alpha, neutral = ablations.GREEDY_ALPHAS[0], context.evaluation.alphas[-1]
    own, chosen, plain, control = (
        [context.cell(drive) for drive in drives] for level in (alpha, neutral) for drives in
        (ablations.policies(context, 'ours', scenario, level), ablations.greedy(context, scenario, level)))
    return Claim('Choosing actions greedily by CVaR on a fixed critic fails, as each choice counts on another policy.',
                 load_scenario(scenario).title,
                 f'at α = {alpha:g}, {percent(_share(chosen, "collisions"))}% collisions, against '
                 f'{percent(_share(own, "collisions"))}% of the policy of that α; but the control, greedy at α = '
                 f'{neutral:g} on the critic of that very policy, has {percent(_share(control, "collisions"))}% '
                 f'against {percent(_share(plain, "collisions"))}%', fails(own, chosen) and not fails(plain, control),
                 'Where the control fails too, the reason is another: the best of many actions by a critic is often '
                 'where the critic errs, as it has seen few actions but the policy\'s. So this is no test of the '
                 'paper\'s reason.', later=True)


def _share(cells: Sequence[Cell], outcome: str) -> float:
    return float(np.mean([getattr(cell, outcome) / cell.n for cell in cells]))


def _one_network(context: Context, scenario: str) -> Claim:
    found = ablations.loners(context, scenario)
    better, worse = (sum(getattr(each, name) for each in found) for name in ('better', 'worse'))
    return Claim('One network conditioned on α does what one network for each α does.',
                 f'{load_scenario(scenario).title}, the paper\'s values',
                 f'in CVaR at its α it is significantly better in {better} and worse in {worse} of '
                 f'{sum(each.pairs for each in found)} pairs of training seeds', worse == 0,
                 'It shares its capacity and its 5,000 episodes among all α.', later=True)


def _equation(context: Context, scenario: str) -> Claim:
    exact, printed = (float(np.mean(rises)) for rises in ablations.rises(context, scenario))
    return Claim('With CVaR as printed in Eq. 9, α is a dial: collisions rise with it at least half as much as with '
                 'the exact one.', f'{load_scenario(scenario).title}, the paper\'s values',
                 f'by {printed:.1f} points from the lowest α to the highest, with the exact one by {exact:.1f}',
                 printed >= 0.5 * exact and printed > 0.0,
                 'The printed coefficient φ(α)/Φ(α) hardly varies with α, and never becomes 0.', later=True)


def _convergence(context: Context, scenario: str) -> Claim:
    third, last = learning_curves.convergence(context.runs('paper', scenario))
    return Claim('Training converges within 5,000 episodes.', f'{load_scenario(scenario).title}, the paper\'s values',
                 f'mean return of the third quarter of a training {third:.1f}, of the last {last:.1f}',
                 last - third <= CONVERGED, 'It still rises; our recipes train ten times as long.', later=True)


def about_lanes() -> Iterator[Claim]:
    """The fast-slow lanes, by both readings of N(2, 4)."""
    for reading, word in (('variance', 'variance'), ('std', 'standard deviation')):
        for measure, how in (('cvar', 'exact'), ('paper', 'printed')):
            switch = switch_alpha(measure, reading)
            yield Claim('In the fast-slow lanes, the best policy changes from the slow lane to the fast one with α.',
                        f'4 as a {word}, {how} coefficient',
                        'it never takes the slow lane' if switch is None else f'at α = {switch:.3f}',
                        switch is not None, 'The printed coefficient is never large enough.', later=True)
