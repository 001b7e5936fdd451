"""The bars a shipped dial must pass, one line each, with what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim_node.scenario import load_scenario
from sim_node.state import COLLISION
from wcpg_ros.episode_store import Drive
from wcpg_ros.results import critic_check, dial, pareto, same_state
from wcpg_ros.results.context import Context, markdown, percent, table_rows
from wcpg_ros.results.cvar_matrix import NEIGHBOURS_DIFFER, Matrix

# By scenario: collisions that a risk-neutral learner cannot avoid, and steps saved from the safe end to the fast one.
LEAST_RISK = {'left_turn': 0.03, 'merge': 0.02}
LEAST_SAVED = {'left_turn': 0.25, 'merge': 0.20}
MOST_SAFE_TRAIN, MOST_SAFE_ELSEWHERE = 0.001, 0.003     # collisions at α = 0.02: 3 and 9 in 3,000
LEAST_SUCCESS, LEAST_FAST_SUCCESS = 0.97, 0.90
BEHIND_DDPG = 0.5         # of the mean return


@dataclass(frozen=True)
class Bar:
    """One bar."""

    name: str
    found: str
    met: bool


def drives(context: Context) -> Iterator[Drive]:
    """What other sections need fewer episodes of: a bar of half a point of mean return takes thousands."""
    for scenario in context.manifest.scenarios:
        yield from _ddpg(context, scenario)
        yield _fast(context, scenario)


def _ddpg(context: Context, scenario: str) -> list[Drive]:
    return [context.drive(scenario, run.file, episodes=context.evaluation.matrix_episodes)
            for run in context.runs('ddpg', scenario)]


def _fast(context: Context, scenario: str) -> Drive:
    return context.drive(scenario, context.shipped(scenario), 1.0, episodes=context.evaluation.matrix_episodes)


def lines(context: Context) -> list[str]:
    """A table for both scenarios."""
    body = [[f'{load_scenario(scenario).title}: {bar.name}', bar.found, 'met' if bar.met else '**missed**']
            for scenario in context.manifest.scenarios for bar in bars(context, scenario)]
    return ['## The bars', '',
            'What a dial worth shipping must show: of the shipped model, where no other is named. Fixed before '
            'measuring, but for two: "turned in the same state" was added after the line above it had been missed on '
            'the merge, and the critic is judged in tenths of the episodes, not fifths, since a model failed in fifths '
            f'([deviations.md]({context.deviations})).', '',
            *markdown(['bar', 'measured', ''], body)]


def bars(context: Context, scenario: str) -> Iterator[Bar]:
    """Every bar of a scenario."""
    matrices = dial.matrices(context, scenario)
    shipped = context.shipped_run(scenario).seed
    yield _risk_remains(context, scenario)
    yield from _true_dial(matrices, shipped)
    yield from _same_states(context, scenario)
    yield from _safe_end(context, scenario, matrices, shipped)
    yield from _fast_end(context, scenario, matrices[shipped])
    yield from _better_than_rules(context, scenario)
    yield _believable(context, scenario)


def _risk_remains(context: Context, scenario: str) -> Bar:
    rates = [cell.collisions / cell.n for cell in map(context.cell, _ddpg(context, scenario))]
    least = LEAST_RISK[scenario]
    return Bar(f'the scene is a gamble: DDPG collides in at least {percent(least, 0)}% of the `train` episodes',
               f'{percent(float(np.mean(rates)))}% ({", ".join(map(percent, rates))})', float(np.mean(rates)) >= least)


def _true_dial(matrices: dict[int, Matrix], shipped: int) -> Iterator[Bar]:
    held = {seed: sum(column.holds for column in matrix.columns) for seed, matrix in matrices.items()}
    others = [count for seed, count in held.items() if seed != shipped]
    levels = len(matrices[shipped].columns)
    yield Bar(f'the CVaR matrix holds in all {levels} columns, on other seeds in all but one',
              f'{held[shipped]}; {", ".join(map(str, others)) or "–"}',
              held[shipped] == levels and all(count >= levels - 1 for count in others))
    neighbours = matrices[shipped].neighbours
    apart = sum(pair.quicker.value >= NEIGHBOURS_DIFFER for pair in neighbours)
    yield Bar('steps fall and collisions rise (ties within the interval); neighbours are '
              f'{percent(NEIGHBOURS_DIFFER, 0)}% apart in all places but one', f'{apart} of {len(neighbours)} places',
              apart >= len(neighbours) - 1
              and all(pair.quicker.high >= 0.0 and pair.collisions_rise for pair in neighbours))


def _same_states(context: Context, scenario: str) -> Iterator[Bar]:
    actions = same_state.actions(context, scenario)
    rises, falls = same_state.right_direction(actions)
    rising = bool(np.all(np.diff(actions.mean(axis=1, dtype=float)) >= -same_state.APART))
    yield Bar('in the same state near the conflict, acceleration rises with α, five times as often as it falls',
              f'in {percent(rises, 0)}% of the states, falls in {percent(falls, 0)}%',
              rising and rises > 0.0 and rises >= 5.0 * falls)
    first, *_, last = same_state.turns(context, scenario)
    found = [int((rows['outcome'] == COLLISION).sum()) for rows in (first, last)]
    pair, p_value = same_state.ends(context, scenario)
    yield Bar('turned in the same state near the conflict, a higher α collides more often and is quicker',
              f'{found[0]} and {found[1]} collisions of {len(first):,} from end to end (p = {p_value:.2g}), '
              f'{percent(pair.quicker.value)}% quicker where both complete',
              same_state.turning_works(context, scenario))


def _safe_end(context: Context, scenario: str, matrices: dict[int, Matrix], shipped: int) -> Iterator[Bar]:
    cells = {row: context.cell(dial.safe_drive(context, scenario, 0.02, row)) for row in table_rows(scenario)}
    train, n = cells['train'], cells['train'].n
    yield Bar(f'α = 0.02: at most {MOST_SAFE_TRAIN * n:.0f} collisions in {n:,} on `train`', str(train.collisions),
              train.collisions <= MOST_SAFE_TRAIN * n)
    worst = max(cells, key=lambda row: cells[row].collisions)
    yield Bar(f'α = 0.02: at most {MOST_SAFE_ELSEWHERE * n:.0f} on every row',
              f'{cells[worst].collisions}, on `{worst}`', cells[worst].collisions <= MOST_SAFE_ELSEWHERE * n)
    slowest = min(cells, key=lambda row: cells[row].successes)
    yield Bar(f'α = 0.02: at least {percent(LEAST_SUCCESS, 0)}% success on every row',
              f'{percent(cells[slowest].successes / n)}%, on `{slowest}`',
              cells[slowest].successes >= LEAST_SUCCESS * n)
    others = [(matrix.collisions[0], matrix.episodes) for seed, matrix in matrices.items() if seed != shipped]
    if others:
        pooled = sum(count for count, _ in others) / sum(episodes for _, episodes in others)
        yield Bar('α = 0.02: at most 0.3% on `train`, other seeds together', f'{percent(pooled, 2)}%', pooled <= 0.003)
    careful = context.cell(dial.safe_drive(context, scenario, 0.1, 'train'))
    yield Bar('α = 0.1: at most 1% on `train`', f'{percent(careful.collisions / careful.n, 2)}%',
              careful.collisions <= 0.01 * careful.n)


def _fast_end(context: Context, scenario: str, matrix: Matrix) -> Iterator[Bar]:
    saved, least = 1.0 - matrix.steps[-1] / matrix.steps[0], LEAST_SAVED[scenario]
    yield Bar(f'α = 1 takes at least {percent(least, 0)}% fewer steps than α = 0.02', f'{percent(saved)}%',
              saved >= least)
    fast = context.cell(_fast(context, scenario))
    ddpg = float(np.mean([cell.mean_return.value for cell in map(context.cell, _ddpg(context, scenario))]))
    yield Bar(f'α = 1: mean return at least DDPG\'s less {BEHIND_DDPG:g}',
              f'{fast.mean_return.value:.2f}; DDPG\'s {ddpg:.2f}',
              fast.mean_return.value >= ddpg - BEHIND_DDPG)
    yield Bar(f'α = 1: at least {percent(LEAST_FAST_SUCCESS, 0)}% success', f'{percent(fast.successes / fast.n)}%',
              fast.successes >= LEAST_FAST_SUCCESS * fast.n)


def _better_than_rules(context: Context, scenario: str) -> Iterator[Bar]:
    """Where a rule collides as often as the model, the model must not be slower."""
    for rule, rows in pareto.rows_not_slower(context, context.shipped_run(scenario)).items():
        yield Bar(f'not slower than `{rule}` at the same collisions, on `train` and four other rows'
                  + (f' (α < 0.3: {percent(pareto.BEHIND_PREDICT, 0)}%)' if rule == 'predict' else ''),
                  ', '.join(rows) or 'nowhere', 'train' in rows and len(rows) >= 5)


def _believable(context: Context, scenario: str) -> Bar:
    found = critic_check.found_errors(context, context.shipped_run(scenario))
    worst = max(max(error.error for error in pair) for pair in found.values())
    good = [f'{alpha:g}' for alpha, pair in found.items() if all(error.believable for error in pair)]
    return Bar('the critic\'s mean and CVaR are right within 10% of the spread, and better than a constant, at every α',
               f'at α = {", ".join(good) or "none"}; the largest error is {percent(worst)}%', len(good) == len(found))
