"""What each critic learns about a gamble whose truth is known: one step that pays +30 (99%) or -50 (1%).

    python -m wcpg_ros.calibration                             print the table
    python -m wcpg_ros.calibration --update docs/deviations.md   and put it there
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from sim_node.settings import SettingsError
from wcpg_ros.critics import GaussianHead, QuantileHead
from wcpg_ros.learner import Learner
from wcpg_ros.marked_text import MarkedText
from wcpg_ros.networks import orthogonal
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Replay
from wcpg_ros.risk import empirical_cvar
from wcpg_ros.settings import REFUSED_PAIRS, AlphaSettings, CriticSettings, Recipe

WIN, LOSS, SIZE = 30.0, -50.0, 10_000
RETURNS = np.where(np.arange(SIZE) % 100 == 0, LOSS, WIN)   # exactly 1% of them are losses
ALPHAS = (0.01, 0.02, 0.1, 0.3, 1.0)


class Row(NamedTuple):
    """One critic's view of the gamble."""

    name: str
    std: float
    cvar: list[float]   # at ALPHAS


def truth() -> Row:
    """The gamble itself."""
    return Row('**truth**', float(RETURNS.std()), [float(empirical_cvar(RETURNS, alpha)) for alpha in ALPHAS])


def gamble() -> Replay:
    """Every transition the gamble has."""
    replay = Replay(SIZE, 1)
    ones = np.ones(SIZE)
    replay.add(np.zeros((SIZE, 1)), np.zeros((SIZE, 1)), action=0.0 * ones, reward=RETURNS, discount=ones, done=ones,
               alpha=ones, outcome=ones)
    return replay


def unweighted(learner: Learner) -> None:
    """Every level counts alike in the loss."""
    learner.head = QuantileHead(32, 0.1, 'cvar', (-5.0, 8.0), weighted=False)


def plain_branch(learner: Learner) -> None:
    """The alpha branch begins like any other layer."""
    weight, bias = (learner.parameters()[f'critic.h2.{part}'] for part in ('weight', 'bias'))
    weight[:], bias[:] = orthogonal(np.random.default_rng(0), weight.shape, 2.0 ** 0.5), 0.0
    learner.targets[:] = learner.values


def learn(critic: CriticSettings, updates: int, pair: tuple[str, str] | None = None, seed: int = 0,
          change: Callable[[Learner], None] | None = None) -> Row:
    """Train a critic on the gamble for all levels at once. `pair` overrides target and loss, refused ones included."""
    recipe = Recipe(critic=critic, alpha=AlphaSettings(relabel=1.0, power=3.0))
    learner, rng = Learner(recipe, 1, 4.0, np.random.default_rng(seed)), np.random.default_rng(seed + 1)
    if change:
        change(learner)
    if pair:
        learner.head = GaussianHead(*pair, 'cvar')
    replay, normaliser = gamble(), Normaliser(1)
    for k in range(updates):
        learner.update(replay, normaliser, rng, rate=1.0 - k / updates)   # falling, so that the noise dies out
    alpha = np.asarray(ALPHAS, np.float32)
    state, action = np.zeros((1, alpha.size), np.float32), np.zeros(alpha.size, np.float32)
    _, std = learner.predict(state, alpha, action)
    name = f'gaussian, `{pair[0]}` target, `{pair[1]}` loss' if pair else f'quantile, kappa {critic.kappa:g}'
    return Row(name, float(std.mean()), [float(value) for value in learner.risk_value(state, alpha, action)])


def rows(updates: int) -> Iterator[Row]:
    """Every pairing, and the quantile critic."""
    for target in ('paper', 'td_error'):
        for loss in ('wasserstein', 'squared', 'likelihood'):
            refused = (target, loss) in REFUSED_PAIRS
            row = learn(CriticSettings(learning_rate=3e-3, return_scale=10.0), updates, (target, loss))
            yield row._replace(name=row.name + (' (refused)' if refused else ''))
    for kappa in (0.0, 1.0, 10.0):
        yield learn(CriticSettings(kind='quantile', kappa=kappa, learning_rate=3e-3, return_scale=10.0), updates)
    quantile = CriticSettings(kind='quantile', learning_rate=3e-3, return_scale=10.0)
    yield learn(quantile, updates, change=unweighted)._replace(name='quantile, kappa 1, levels unweighted')
    yield learn(quantile, updates, change=plain_branch)._replace(name='quantile, kappa 1, plain α branch')
    yield learn(replace(quantile, mean=True), updates)._replace(name='quantile, kappa 1, with the mean')


def table(entries: list[Row]) -> str:
    """Markdown."""
    lines = ['| critic | σ | ' + ' | '.join(f'CVaR {alpha:g}' for alpha in ALPHAS) + ' |',
             '|---|' + '---:|' * (len(ALPHAS) + 1)]
    lines += [f'| {row.name} | {row.std:.2f} | ' + ' | '.join(f'{v:.1f}' for v in row.cvar) + ' |' for row in entries]
    return '\n'.join(lines)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog='python -m wcpg_ros.calibration', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', type=Path, help='a Markdown file with the marks of this table in it')
    parser.add_argument('--updates', type=int, default=8_000, help='per critic')
    options = parser.parse_args(args)
    if options.updates < 1:
        parser.error(f'--updates: expected at least 1, got {options.updates}')
    try:
        place = MarkedText(options.update, 'calibration') if options.update else None
    except SettingsError as error:
        parser.error(f'--update: {error}')
    text = table([truth(), *tqdm(rows(options.updates), unit='critic', total=12, leave=False, disable=None)])
    print(text)
    if place:
        place.replace(text)


if __name__ == '__main__':
    main()
