"""What the paper claims, and whether it came out here: each claim is a measurement with a threshold fixed beforehand.

The claims about alpha are held against the shipped models and against those of the paper's own values. `why` is our
best explanation, printed where a claim did not come out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.results import ablations
from wcpg_ros.results.context import Cell, Context, paper_tables, percent, table_rows, with_row
from wcpg_ros.results.intervals import clopper_pearson
from wcpg_ros.results.tables import Column, columns

MODELS = {'ours': 'shipped models', 'paper': "the paper's values"}
# Why α ≤ 0.3 collides.
CAREFUL = {
    'ours': 'CVaR at 0.3 does not forbid collisions: going pays while their chance is below about a fifth of α. A '
            'policy that has learnt to read the traffic uses that room; near zero belongs to the bottom of the dial.',
    'paper': 'By the paper\'s values a run has 5,000 episodes, a low learning rate and noise that is fresh at every '
             'decision: it has not learnt to read the traffic yet, and may stay with full throttle.'}


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper's, held against our figures somewhere."""

    claim: str
    where: str
    found: str
    holds: bool
    why: str


def lines(context: Context) -> list[str]:
    """What did not come out first, then what did; one item for a sentence, wherever it was looked at."""
    claims = list(all_claims(context))
    failed, held = ([claim for claim in claims if claim.holds is holds] for holds in (False, True))
    return ['## What did not reproduce', '',
            *([f'- **{said}** {found} {" ".join(why)}' for said, (found, why) in _by_sentence(failed).items()]
              or ['Nothing that we checked.']), '',
            '## What did', '', *(f'- {said} {found}' for said, (found, _) in _by_sentence(held).items()), '']


def _by_sentence(claims: list[Claim]) -> dict[str, tuple[str, list[str]]]:
    """For each sentence what was found everywhere, and the explanations of it."""
    together: dict[str, list[Claim]] = {}
    for claim in claims:
        together.setdefault(claim.claim, []).append(claim)
    return {said: ('; '.join(f'{claim.where}: {claim.found}' for claim in group) + '.',
                   list(dict.fromkeys(claim.why for claim in group))) for said, group in together.items()}


def all_claims(context: Context) -> Iterator[Claim]:
    """Scenario by scenario."""
    for scenario in context.manifest.scenarios:
        for block, name in MODELS.items():
            shown = {column.label: column for column in columns(context, scenario, block)}
            yield from _about_alpha(context, scenario, shown, f'{load_scenario(scenario).title}, {name}',
                                    CAREFUL[block])
        yield from _about_baselines(context, scenario, shown)
        yield from _about_parts(context, scenario)


def _rates(context: Context, column: Column, scenario: str, outcome: str = 'collisions') -> dict[str, float]:
    """Mean over training seeds, by row."""
    return {row: float(np.mean([getattr(cell, outcome) / cell.n for cell in _cells(context, column, row)]))
            for row in table_rows(scenario)}


def _cells(context: Context, column: Column, row: str) -> list[Cell]:
    """Of every training seed."""
    return [context.cell(with_row(drive, row)) for drive in column.drives.values()]


def _paper(scenario: str, column: Column, part: int) -> tuple[int, int]:
    """The lowest and the highest of the paper's figures for a column: 0 collisions, 1 success."""
    assert column.paper is not None
    values = [row[column.paper][part] for row in paper_tables()[scenario].values()]
    return min(values), max(values)


def _span(shares: Collection[float]) -> str:
    """The lowest and the highest, in %."""
    return '–'.join(dict.fromkeys([percent(min(shares)), percent(max(shares))]))


def _without_dial(context: Context, scenario: str, policies: list[Column]) -> str:
    """Words on the training seeds that fare the same at the lowest and the highest alpha on every row, if any do."""
    def fares(column: Column, seed: int | None) -> list[tuple[int, int, float]]:
        cells = (context.cell(with_row(column.drives[seed], row)) for row in table_rows(scenario))
        return [(cell.collisions, cell.successes, cell.steps.value) for cell in cells]
    lowest, highest = policies[0], policies[-1]
    same = [seed for seed in lowest.drives if fares(lowest, seed) == fares(highest, seed)]
    if not same:
        return ''
    rates = [context.cell(lowest.drives[seed]) for seed in same]
    return (f' (training seed{"s" if len(same) > 1 else ""} {", ".join(map(str, same))}: one policy at every α, with '
            f'{_span([cell.collisions / cell.n for cell in rates])}% on `train`)')


def _about_alpha(context: Context, scenario: str, shown: dict[str, Column], title: str,
                 why_collide: str) -> Iterator[Claim]:
    policies = [column for label, column in shown.items() if label.startswith('α')]
    cautious, neutral = policies[0], policies[-1]
    careful = [(cell, column, row) for column in policies if float(column.label.removeprefix('α = ')) <= 0.3
               for row in table_rows(scenario) for cell in _cells(context, column, row)]
    cell, column, row = max(careful, key=lambda each: each[0].collisions / each[0].n)
    most = clopper_pearson(cell.collisions, cell.n)
    yield Claim('α ≤ 0.3 collides in at most 1% of the episodes, on every row and with every training seed.', title,
                f'at most {percent(most.value)}% (95% Clopper–Pearson: up to {percent(most.high)}%), at {column.label} '
                f'on `{row}`{_without_dial(context, scenario, policies)}', most.value <= 0.01, why_collide)
    low, high = _rates(context, cautious, scenario), _rates(context, neutral, scenario)
    yield Claim('The risk-neutral end collides more often than the cautious end on every row.', title,
                f'{_span(high.values())}% at α = 1, {_span(low.values())}% at {cautious.label}',
                all(high[row] > low[row] for row in low), 'The dial is too narrow there.')
    least, most_neutral = _paper(scenario, neutral, 0)
    yield Claim('α = 1 collides as often as in the paper, within a factor of two.', title,
                f'{_span(high.values())}% (the paper: {least}–{most_neutral}%)',
                min(high.values()) >= least / 200 and max(high.values()) <= most_neutral / 50,
                'How much a risk-neutral driver gambles is a property of the scene, and the paper\'s scenes are not '
                'published. In ours a collision costs about three successes, so that a driver who maximises the mean '
                'stops gambling at a few percent.')
    success = _rates(context, cautious, scenario, 'successes')
    few, _ = _paper(scenario, cautious, 1)
    shifted = [share for row, share in success.items() if row != 'train']
    if few < 50:
        yield Claim('Off the `train` row, α = 0.02 hardly ever completes the maneuver.', title,
                    f'it completes {_span(shifted)}% (the paper: {few}–{paper_tables()[scenario]["+0/2%"][0][1]}%)',
                    max(shifted) <= 0.5,
                    'Ego may stop and wait here, where the paper\'s seems to keep rolling at 5 m/s or more until time '
                    'is over (preset `paper_floor`): who can wait can also finish.')
    else:
        late = _rates(context, cautious, scenario, 'timeouts')
        yield Claim('α = 0.02 completes the maneuver as often as in the paper on every row, within 3 points.', title,
                    f'{_span(success.values())}% (the paper: {few}%)', min(success.values()) >= few / 100 - 0.03,
                    'It waits until time is over.' if sum(late.values()) > sum(low.values()) else 'It collides.')


def _about_baselines(context: Context, scenario: str, shown: dict[str, Column]) -> Iterator[Claim]:
    title = load_scenario(scenario).title
    for label in ('DDPG', 'PPO', 'C51', 'D4PG'):
        column = shown['PPO, long' if label == 'PPO' else label]
        paper = _paper(scenario, shown[label], 0)
        rates = _rates(context, column, scenario)
        known = paper_tables()[scenario]['train'][shown[label].paper][0]
        yield Claim('Baselines collide on the `train` row as often as in the paper, within 2 points.',
                    f'{title}, {column.label}', f'{percent(rates["train"])}% (the paper: {known}%)',
                    abs(rates['train'] - known / 100) <= 0.02,
                    'PPO stays behind the others however long it learns (learning curves below): it uses each decision '
                    'once, and its noise is fresh at every one.' if label == 'PPO' else
                    'Our scenes hold a gamble that no skill removes, so that a learner of the mean return goes on '
                    'taking it; how large it is differs from the paper\'s scenes, which are not published.')
        worst = max((row for row in rates if row != 'train'), key=lambda row: rates[row])
        yield Claim('Baselines get worse off the `train` row, by half or more.', f'{title}, {column.label}',
                    f'{percent(rates["train"])}% on `train`, {percent(rates[worst])}% on `{worst}` (the paper: '
                    f'{known}%, up to {paper[1]}%)',
                    rates[worst] >= 1.5 * rates['train'] and rates[worst] >= 0.01,
                    'Our observation names the vehicles that can still meet ego, and so says little about the density '
                    'of traffic that a policy could overfit to; and our rows raise speeds and spawn rates in a scene '
                    'whose platoon is there on every row.')


def _about_parts(context: Context, scenario: str) -> Iterator[Claim]:
    title = load_scenario(scenario).title
    timeouts = [cell.timeouts / cell.n for cell in
                (context.cell(context.drive(scenario, run.file)) for run in context.runs('penalty', scenario))]
    yield Claim('With a penalty of −1000, policies often do not even attempt the maneuver.', title,
                f'time-outs in {_span(timeouts)}% of the episodes over the seeds',
                float(np.mean(timeouts)) >= 0.2,
                'Success pays at least its bonus however late it comes, waiting is safe here, and late in an episode '
                'the road is empty: even a driver who fears collisions most gains by going then.')
    alpha = ablations.GREEDY_ALPHAS[0]
    own, greedy = ([context.cell(drive) for drive in drives] for drives in
                   (ablations.policies(context, 'ours', scenario, alpha), ablations.greedy(context, scenario, alpha)))
    collided = [float(np.mean([cell.collisions / cell.n for cell in cells])) for cells in (own, greedy)]
    finished = [float(np.mean([cell.successes / cell.n for cell in cells])) for cells in (own, greedy)]
    yield Claim('Choosing actions greedily by CVaR on a fixed critic fails.', title,
                f'at α = {alpha:g}, {percent(collided[1])}% collisions and {percent(finished[1])}% success, against '
                f'{percent(collided[0])}% and {percent(finished[0])}% of the policy of that α',
                collided[1] >= 2 * collided[0] + 0.005 or finished[1] <= finished[0] - 0.05,
                'One decision is 0.4 s: a single cautious action that a bold policy then continues is still some '
                'caution, and repeated at every decision it adds up.')
