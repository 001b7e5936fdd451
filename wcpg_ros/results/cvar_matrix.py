"""Is it a dial? The policy of each alpha against the empirical CVaR of the episode's return at every alpha.

    python -m wcpg_ros.results.cvar_matrix --scenario left_turn --model models/left_turn.safetensors

A true dial: in every column the policy of that alpha is the best, within its bootstrap interval, and beats the policies
two settings away. All policies drive the same episodes; bootstraps resample episodes for all of them alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_node.settings import SettingsError
from sim_node.state import COLLISION, SUCCESS
from wcpg_ros.episode_store import Drive, EpisodeStore
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.jobs import BACKENDS, check_backend
from wcpg_ros.json_text import json_text
from wcpg_ros.resampling import bootstrap_cvars
from wcpg_ros.results.context import mean_of
from wcpg_ros.results.intervals import Interval, difference, holm, paired_difference

ALPHAS = (0.02, 0.1, 0.3, 0.6, 1.0)
SIGNIFICANT = 0.05
NEIGHBOURS_DIFFER = 0.03     # of their steps


@dataclass(frozen=True)
class Column:
    """What became of one column: of the policy that should win it."""

    alpha: float
    best: float                  # whose policy has the highest CVaR here
    behind: Interval             # the best one's CVaR less that of this alpha's policy
    rivals: dict[str, float]     # p-values, corrected, of beating the policies two settings away
    holds: bool


@dataclass(frozen=True)
class Neighbours:
    """Two settings side by side."""

    alphas: tuple[float, float]
    quicker: Interval            # share of the lower one's steps that the higher one saves, same episodes
    collisions_rise: bool        # or stay, within the interval
    same: bool                   # one policy: it drove every episode alike


@dataclass(frozen=True)
class Matrix:
    """The whole verdict on one model."""

    alphas: tuple[float, ...]
    values: NDArray[np.float64]      # [policy, level]
    low: NDArray[np.float64]         # of 95%
    high: NDArray[np.float64]
    columns: list[Column]
    neighbours: list[Neighbours]
    collisions: list[int]
    steps: list[float]
    episodes: int

    def mapping(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = asdict(self)
        return {**found, **{name: np.round(found[name], 4).tolist() for name in ('values', 'low', 'high')},
                'columns_that_hold': sum(column.holds for column in self.columns)}


def matrix_drives(scenario: str, model: str | Path, alphas: Sequence[float], episodes: int, seed: int,
                  row: str = 'train') -> list[Drive]:
    """A drive per policy."""
    return [Drive(scenario, str(model), alpha, row, seed, episodes) for alpha in alphas]


def judge(rows: Sequence[np.ndarray], alphas: Sequence[float]) -> Matrix:
    """The matrix of the policies' episodes, one array per alpha."""
    returns = np.stack([each['return'] for each in rows])
    values, drawn = bootstrap_cvars(returns, alphas)
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    rivals = [(i, j) for i in range(len(alphas)) for j in (i - 2, i + 2) if 0 <= j < len(alphas)]
    p_values = holm([difference(values[i, i] - values[j, i], drawn[:, i, i] - drawn[:, j, i])[1] for i, j in rivals])
    columns = []
    for i, alpha in enumerate(alphas):
        best = int(np.argmax(values[:, i]))
        behind, _ = difference(values[best, i] - values[i, i], drawn[:, best, i] - drawn[:, i, i])
        beaten = {j: p for (k, j), p in zip(rivals, p_values, strict=True) if k == i}
        wins = all(values[i, i] > values[j, i] and p < SIGNIFICANT for j, p in beaten.items())
        columns.append(Column(alpha, alphas[best], behind, {f'{alphas[j]:g}': p for j, p in beaten.items()},
                              wins and behind.low <= 0.0))
    return Matrix(tuple(alphas), values, low, high, columns, neighbours(rows, alphas),
                  [int(np.sum(each['outcome'] == COLLISION)) for each in rows],
                  [mean_of(each['steps'][each['outcome'] == SUCCESS]) for each in rows], len(rows[0]))


def neighbours(rows: Sequence[np.ndarray], alphas: Sequence[float]) -> list[Neighbours]:
    """Every two settings side by side, by the episodes of each."""
    found = []
    for k in range(len(alphas) - 1):
        lower, higher = rows[k], rows[k + 1]
        both = (lower['outcome'] == SUCCESS) & (higher['outcome'] == SUCCESS)     # steps of the same successes
        saved, mean = Interval(np.nan, np.nan, np.nan), mean_of(lower['steps'][both])
        if both.any():
            saved, _ = paired_difference(lower['steps'][both], higher['steps'][both])
        collisions, _ = paired_difference(higher['outcome'] == COLLISION, lower['outcome'] == COLLISION)
        found.append(Neighbours((alphas[k], alphas[k + 1]), Interval(*(float(part / mean) for part in saved)),
                                collisions.high >= 0.0,
                                all(np.array_equal(lower[name], higher[name]) for name in ('outcome', 'steps'))))
    return found


def markdown_matrix(matrix: Matrix) -> list[str]:
    """As a table: a row per policy, a column per level; the best of each column in bold."""
    lines = ['| policy of | ' + ' | '.join(f'CVaR {alpha:g}' for alpha in matrix.alphas) + ' | collisions | steps |',
             '|---|' + '---:|' * (len(matrix.alphas) + 2)]
    best = matrix.values.argmax(axis=0)
    for i, alpha in enumerate(matrix.alphas):
        cells = []
        for j in range(len(matrix.alphas)):
            text = f'{matrix.values[i, j]:.2f} [{matrix.low[i, j]:.2f}, {matrix.high[i, j]:.2f}]'
            cells.append(f'**{text}**' if best[j] == i else text)
        lines.append(f'| α = {alpha:g} | {" | ".join(cells)} | {matrix.collisions[i]} | {matrix.steps[i]:.1f} |')
    verdicts = [f'{"holds" if column.holds else "fails"}' for column in matrix.columns]
    lines.append(f'| a true dial? | {" | ".join(verdicts)} | | |')
    same = ['{:g} and {:g}'.format(*pair.alphas) for pair in matrix.neighbours if pair.same]
    return [*lines, '', *([f'One policy, which drove every episode alike: α = {", ".join(same)}.', ''] if same else [])]


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='python -m wcpg_ros.results.cvar_matrix', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--scenario', required=True)
    parser.add_argument('--model', required=True, help='a .safetensors file')
    parser.add_argument('--row', default='train')
    parser.add_argument('--alphas', type=float, nargs='+', default=list(ALPHAS))
    parser.add_argument('--episodes', type=int, default=10_000, help='per policy (default: 10,000)')
    parser.add_argument('--seed', type=int, default=0,
                        help='of the episodes (default: 0); leave that of config/results.yaml to the results')
    parser.add_argument('--backend', default='processes', help=f'{BACKENDS} (default: processes)')
    parser.add_argument('--keep', type=Path, default=Path('results/episodes'), metavar='DIRECTORY',
                        help='where driven episodes are kept (default: results/episodes)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    given = parser.parse_args(args)
    try:
        if len(given.alphas) < 3:
            raise SettingsError('alphas: give at least three, or nobody is two settings away')
        if sorted(set(given.alphas)) != given.alphas:
            raise SettingsError(f'alphas: expected rising ones, got {given.alphas}')
        check_backend(given.backend)
        drives = matrix_drives(given.scenario, given.model, given.alphas, given.episodes, given.seed, given.row)
        for drive in drives:
            drive.check()
        store = EpisodeStore(given.keep)
        store.fill(drives, given.backend, progress=sys.stderr.isatty())
        matrix = judge([store.rows(drive) for drive in drives], given.alphas)
    except (ValueError, OSError) as error:
        print(f'cvar_matrix: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('cvar_matrix: stopped; the same command goes on', file=sys.stderr)
        return INTERRUPTED
    if given.json:
        print(json_text(matrix.mapping()))
        return 0
    print('\n'.join(markdown_matrix(matrix)))
    for column in matrix.columns:
        rivals = ', '.join(f'{alpha} with p = {p:.3g}' for alpha, p in column.rivals.items())
        print(f'CVaR {column.alpha:g}: best is the policy of {column.best:g}, ahead by {column.behind.value:.2f} '
              f'[{column.behind.low:.2f}, {column.behind.high:.2f}]; against {rivals}: '
              f'{"holds" if column.holds else "fails"}')
    for pair in matrix.neighbours:
        print(f'α {pair.alphas[0]:g} → {pair.alphas[1]:g}: {100 * pair.quicker.value:.1f}% quicker '
              f'[{100 * pair.quicker.low:.1f}, {100 * pair.quicker.high:.1f}] in the same episodes'
              f'{"" if pair.collisions_rise else ", but collisions FALL"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
