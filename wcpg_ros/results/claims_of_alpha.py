"""The paper's claims about its risk-sensitive policies and their critic, and those about the baselines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import curves, uncertainty
from wcpg_ros.results.claim import SHIFTED_ONLY, Claim, cells, paper_figures, rates, rates_by_seed, span, whole_span
from wcpg_ros.results.context import Context, percent, table_rows, with_row
from wcpg_ros.results.intervals import clopper_pearson, wilson
from wcpg_ros.results.tables import BASELINES, Column, columns

MODELS = {'ours': 'shipped models', 'paper': "the paper's values"}
LONG = {'PPO': 'PPO, long'}     # of two trainings, the one that is judged
UNLEARNT = ('By the paper\'s values a run has 5,000 episodes, a low learning rate and noise that is fresh at every '
            'decision: it has not learnt to read the traffic yet, and may get stuck at full throttle.')
READS = ('Models by our recipes have learnt to read the traffic, and drive on where the paper\'s wait until time is '
         'over: ego may stop here, and the road empties at last.')
# Why α below 1 collides.
CAREFUL = {
    'ours': 'CVaR at α does not forbid collisions: going pays while their chance is below about a fifth of α. A policy '
            'that has learnt to read the traffic uses that room; near zero belongs to the bottom of the dial.',
    'paper': UNLEARNT}
APART = {
    'ours': READS,
    'paper': 'Runs with the paper\'s values end up very different: some wait until time is over, as in the paper, '
             'others never wait.'}
# Why σ does not rise and fall along a left turn.
FALLS = {'ours': 'Where ego can go at once, σ only falls.',
         'paper': 'It hardly falls behind the conflict: the Gaussian critic stays uncertain of what is already won.'}


def about(context: Context, scenario: str) -> Iterator[Claim]:
    """Every claim about a scenario's tables and curves."""
    shown: dict[str, Column] = {}
    for block, name in MODELS.items():
        shown = {column.label: column for column in columns(context, scenario, block)}
        title = f'{load_scenario(scenario).title}, {name}'
        yield from _about_collisions(context, scenario, shown, title, block)
        yield from _about_finishing(context, scenario, shown, title, block)
        yield _about_sigma(context, scenario, block, title)
        if (along := uncertainty.along(context, scenario, block)) is not None:
            yield Claim('Along a left turn the critic\'s σ rises towards the conflict and falls behind it.', title,
                        f'at α = {uncertainty.ALPHA:g} it is {along.begins:.1f} at the first decision, '
                        f'{along.peak:.1f} at its largest and {along.ends:.1f} at the last, on average; in '
                        f'{percent(along.rising, 0)}% of the successes the largest is more than a tenth above both '
                        'ends', along.rising >= 0.5, FALLS[block], later=True)
    yield from _about_baselines(context, scenario, shown)


def _without_dial(context: Context, scenario: str, policies: list[Column]) -> str:
    """Words on the training seeds that drive every episode alike at every alpha, if any do."""
    def alike(drives: list[Drive]) -> bool:
        first, *others = (context.rows(drive) for drive in drives)
        return all(np.array_equal(first[name], rows[name]) for rows in others for name in ('outcome', 'steps'))
    same = [seed for seed in policies[0].drives
            if all(alike([with_row(column.drives[seed], row) for column in policies]) for row in table_rows(scenario))]
    if not same:
        return ''
    found = [context.cell(policies[0].drives[seed]) for seed in same]
    return (f' (training seed{"s" if len(same) > 1 else ""} {", ".join(map(str, same))}: one policy at every α, with '
            f'{span([cell.collisions / cell.n for cell in found])}% on `train`)')


def _about_collisions(context: Context, scenario: str, shown: dict[str, Column], title: str, block: str
                      ) -> Iterator[Claim]:
    policies = [column for label, column in shown.items() if label.startswith('α')]
    cautious, neutral = policies[0], policies[-1]
    no_dial = _without_dial(context, scenario, policies)
    careful = [(cell, column, row) for column in policies if float(column.label.removeprefix('α = ')) <= 0.3
               for row in table_rows(scenario) for cell in cells(context, column, row)]
    cell, column, row = max(careful, key=lambda each: each[0].collisions / each[0].n)
    most = clopper_pearson(cell.collisions, cell.n)
    yield Claim('α ≤ 0.3 collides in at most 1% of the episodes, on every row and with every training seed.', title,
                f'at most {percent(most.value)}% (95% Clopper–Pearson: up to {percent(most.high)}%), at {column.label} '
                f'on `{row}`{no_dial}', most.value <= 0.01, CAREFUL[block])
    bold = shown['α = 0.6']
    found, theirs = rates(context, bold, scenario), paper_figures(scenario, bold, 0)
    yield Claim('α = 0.6 collides in at most 3% of the episodes, on every row.', title,
                f'{span(found.values())}% (the paper: {whole_span(theirs.values())}%)', max(found.values()) <= 0.03,
                CAREFUL[block], later=True)
    by_seed = [rates_by_seed(context, column, scenario) for column in (cautious, neutral)]
    low, high = (rates(context, column, scenario) for column in (cautious, neutral))
    yield Claim('The risk-neutral end collides more often than the cautious end, on every row and with every training '
                'seed.', title,
                f'{span(high.values())}% at α = 1, {span(low.values())}% at {cautious.label}{no_dial}',
                all(first < last for row in low for first, last in zip(*(each[row] for each in by_seed), strict=True)),
                'The dial is too narrow there, or missing.', later=True)
    theirs = paper_figures(scenario, neutral, 0)
    near = [row for row, rate in high.items() if theirs[row] / 200 <= rate <= theirs[row] / 50]
    yield Claim('α = 1 collides as often as in the paper, on every row within a factor of two.', title,
                f'{span(high.values())}% (the paper: {whole_span(theirs.values())}%), within it on {len(near)} of '
                f'{len(high)} rows', len(near) == len(high),
                'How much a risk-neutral driver gambles is a property of the scene, of which the paper publishes the '
                'speeds and rates only.', later=True)
    yield from _robust(context, scenario, shown, low, title, block)


def _robust(context: Context, scenario: str, shown: dict[str, Column], low: dict[str, float], title: str, block: str
            ) -> Iterator[Claim]:
    rivals = {label: rates(context, shown[label], scenario) for label in BASELINES.values()}
    lost = {label: [row for row in low if row != 'train' and low[row] >= found[row]] for label, found in rivals.items()}
    against = '; '.join(f'{label} on {", ".join(rows) if len(rows) < len(low) - 1 else "every one"}'
                        for label, rows in lost.items() if rows)
    least = min(rate for found in rivals.values() for row, rate in found.items() if row != 'train')
    most = max(rate for row, rate in low.items() if row != 'train')
    yield Claim(f'{SHIFTED_ONLY}α = 0.02 collides less often than every baseline.', title,
                f'at most {percent(most)}%, the baselines at least {percent(least)}%'
                + (f'; not against {against}' if against else ''), not against, UNLEARNT, later=True)
    steps = [float(np.mean([context.cell(drive).steps.value for drive in column.drives.values()]))
             for label, column in shown.items() if label.startswith('α')]
    yield Claim('The larger α, the sooner the maneuver is done.', title,
                f'{" → ".join(f"{value:.0f}" for value in steps)} steps', bool(np.all(np.diff(steps) <= 0.0)),
                'Steps are those of successes: who waits until time is over has none.' if block == 'paper' else
                'Some neighbours are one policy, or nearly.', later=True)


def _about_finishing(context: Context, scenario: str, shown: dict[str, Column], title: str, block: str
                     ) -> Iterator[Claim]:
    cautious = shown['α = 0.02']
    success, theirs = rates(context, cautious, scenario, 'successes'), paper_figures(scenario, cautious, 1)
    shifted = [row for row in success if row != 'train']
    gives_up = min(theirs.values()) < 50
    late, low = (sum(rates(context, cautious, scenario, outcome).values()) for outcome in ('timeouts', 'collisions'))
    compared = ['train'] if gives_up else list(success)
    yield Claim(f'α = 0.02 completes the maneuver as often as in the paper, within 3 points: {scenario}, '
                f'{"the `train` row" if gives_up else "every row"}.', title,
                f'{span([success[row] for row in compared])}% (the paper: '
                f'{whole_span([theirs[row] for row in compared])}%)',
                all(success[row] >= theirs[row] / 100 - 0.03 for row in compared),
                'Most of the others run out of time.' if late > low else 'Most of the others are collisions.',
                later=gives_up)
    if not gives_up:
        return
    for alpha, later in ((0.02, False), (0.1, True)):
        column = shown[f'α = {alpha:g}']
        found, theirs = rates(context, column, scenario, 'successes'), paper_figures(scenario, column, 1)
        seeds = rates_by_seed(context, column, scenario, 'successes')
        means = ', '.join(percent(float(mean), 0) for mean in np.mean([seeds[row] for row in shifted], axis=0))
        yield Claim(f'{SHIFTED_ONLY}α = {alpha:g} hardly ever completes the maneuver.', title,
                    f'it completes {span([found[row] for row in shifted])}%, by training seed {means}% (the paper: '
                    f'{whole_span([theirs[row] for row in shifted])}%)',
                    max(found[row] for row in shifted) <= 0.5, APART[block], later)
    column = shown['α = 0.3']
    found, theirs = rates(context, column, scenario, 'successes'), paper_figures(scenario, column, 1)
    yield Claim(f'{SHIFTED_ONLY}α = 0.3 completes the maneuver about half of the time, as in the paper within 20 '
                'points.', title, f'it completes {span([found[row] for row in shifted])}% (the paper: '
                f'{whole_span([theirs[row] for row in shifted])}%)',
                all(abs(found[row] - theirs[row] / 100) <= 0.2 for row in shifted), APART[block], later=True)


def _about_baselines(context: Context, scenario: str, shown: dict[str, Column]) -> Iterator[Claim]:
    title = load_scenario(scenario).title
    for label in ('DDPG', 'PPO', 'C51', 'D4PG'):
        column = shown[LONG.get(label, label)]
        theirs = paper_figures(scenario, shown[label], 0)
        found = rates(context, column, scenario)
        known = wilson(theirs['train'], 100)
        compatible = ', which holds ours' if known.low <= found['train'] <= known.high else ''
        yield Claim('Baselines collide on the `train` row as often as in the paper, within 2 points.',
                    f'{title}, {column.label}', f'{percent(found["train"])}% (the paper: {theirs["train"]}, its 95% '
                    f'interval {percent(known.low)}–{percent(known.high)}%{compatible})',
                    abs(found['train'] - theirs['train'] / 100) <= 0.02,
                    'PPO stays behind the others also when trained three times as long (learning curves below): it '
                    'drops each decision after an update, and its noise is fresh at every one.' if label == 'PPO' else
                    'Our scenes hold a gamble that no skill removes, so that a learner of the mean return goes on '
                    'taking it; how large it is differs from the paper\'s scenes, which are not published.')
        worst = max((row for row in found if row != 'train'), key=lambda row: found[row])
        yield Claim('Baselines get worse off the `train` row, by half or more.', f'{title}, {column.label}',
                    f'{percent(found["train"])}% on `train`, {percent(found[worst])}% on `{worst}` (the paper: '
                    f'{theirs["train"]}%, up to {max(theirs.values())}%)',
                    found[worst] >= 1.5 * found['train'] and found[worst] >= 0.01,
                    'A guess: they see seconds to the conflict (observation layout 2), which mean the same among '
                    'quicker vehicles, where the paper\'s see positions.')
        dense = {row: found[row] for row in found if row.startswith('+0/')}
        worst = max(dense, key=lambda row: dense[row])
        yield Claim('Baselines get worse in denser traffic of the same speeds, by half or more.',
                    f'{title}, {column.label}', f'{percent(found["train"])}% on `train`, {percent(dense[worst])}% on '
                    f'`{worst}` (the paper: {theirs["train"]}%, up to {max(theirs[row] for row in dense)}%)',
                    dense[worst] >= 1.5 * found['train'] and dense[worst] >= 0.01,
                    'A platoon comes on every row, and a policy sees only the vehicles that it can still meet: more '
                    'of them later change little ("how far a row is from `train`", below).', later=True)


def _about_sigma(context: Context, scenario: str, block: str, title: str) -> Claim:
    sigma = curves.mean_sigma(context, scenario, block)     # [training seed, alpha]
    middle = sigma.mean(axis=0)
    return Claim('The larger α, the larger the σ of the return that the critic predicts.', title,
                 f'σ is {middle[0]:.1f} at the lowest α and {middle[-1]:.1f} at the highest, mean of training seeds',
                 bool(np.all(sigma[:, -1] > sigma[:, 0])), 'Not with every training seed.', later=True)
