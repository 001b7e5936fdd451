"""Fast-slow lanes, the paper's proof of concept (appendix): which lane is worth it at risk level alpha?

Four steps; each is driven in the left lane with probability p, the policy. The left lane pays N(2, 4) a step, the
right one N(1, 1). The paper solves it by brute force, from sampled returns of a grid of policies; here the exact
solution stands beside it, and the choice of the learner's own risk functions, which know only mean and std.

The paper does not say whether the 4 in N(2, 4) is a variance or a standard deviation: both can be read.

    python -m wcpg_ros.fast_slow --reading variance --plot fast_slow.png
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wcpg_ros.json_text import json_text
from wcpg_ros.risk import empirical_cvar, normal_cdf, normal_pdf, risk_measure

Array = NDArray[np.float64]

STEPS = 4
FAST_MEAN, SLOW_MEAN, SLOW_STD = 2.0, 1.0, 1.0
FAST_STD = {'variance': 2.0, 'std': 4.0}   # the readings of N(2, 4)
NAMES = {'variance': 'variance', 'std': 'standard deviation'}
MOST = {'trials': 100_000, 'intervals': 500}
LEARNERS = ('cvar', 'paper')   # risk measures: the exact coefficient and the printed one


@dataclass(frozen=True)
class Settings:
    """How the problem is read and how finely it is searched; the defaults are the paper's."""

    reading: str = 'variance'   # of N(2, 4): variance or std
    trials: int = 1000          # sampled returns for each policy
    intervals: int = 32         # of alpha in (0, 1] and of the policy in [0, 1]
    seed: int = 0

    def __post_init__(self) -> None:
        if self.reading not in FAST_STD:
            raise ValueError(f'reading = {self.reading!r}: choose one of {", ".join(FAST_STD)}')
        for name, most in MOST.items():
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f'{name} = {getattr(self, name)}: must be from 1 to {most:,}')
        if self.seed < 0:
            raise ValueError(f'seed = {self.seed}: must be at least 0')


@dataclass(frozen=True)
class Solution:
    """The best policy, Pr(left lane), for each alpha, found in each way."""

    alphas: Array
    sampled: Array              # by brute force, as in the paper
    exact: Array                # by the exact CVaR of the mixture
    learner: dict[str, Array]   # by the learner's risk measures, by name


def moments(p: ArrayLike, reading: str) -> tuple[Array, Array]:
    """Mean and standard deviation of the return of policy p."""
    p = np.asarray(p, dtype=np.float64)
    fast, slow = FAST_STD[reading] ** 2, SLOW_STD ** 2
    between = p * (1.0 - p) * (FAST_MEAN - SLOW_MEAN) ** 2
    mean = STEPS * (p * FAST_MEAN + (1.0 - p) * SLOW_MEAN)
    return mean, np.sqrt(STEPS * (p * fast + (1.0 - p) * slow + between))


def sample_returns(p: Array, trials: int, reading: str, rng: np.random.Generator) -> Array:
    """Returns [policies, trials] of every policy in p, all on the same random numbers: they differ by p alone."""
    luck = rng.standard_normal((trials, STEPS))
    left = rng.random((trials, STEPS)) < p[:, None, None]
    rewards = np.where(left, FAST_MEAN + FAST_STD[reading] * luck, SLOW_MEAN + SLOW_STD * luck)
    return np.sum(rewards, axis=-1)


def exact_cvar(p: ArrayLike, alpha: ArrayLike, reading: str) -> Array:
    """CVaR (Eq. 4) of policy p's return: a mixture of Gaussians, one for each number of steps in the left lane."""
    p, alpha = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(alpha, dtype=np.float64))
    left = np.arange(STEPS + 1)
    ways = np.array([math.comb(STEPS, k) for k in left])
    weight = ways * p[..., None] ** left * (1.0 - p[..., None]) ** (STEPS - left)
    mean = left * FAST_MEAN + (STEPS - left) * SLOW_MEAN
    std = np.sqrt(left * FAST_STD[reading] ** 2 + (STEPS - left) * SLOW_STD ** 2)

    low, high = np.full(p.shape, -100.0), np.full(p.shape, 100.0)
    for _ in range(60):   # bisection for the alpha quantile
        middle = 0.5 * (low + high)
        below = np.sum(weight * normal_cdf((middle[..., None] - mean) / std), axis=-1) < alpha
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    z = (high[..., None] - mean) / std
    # E[X; X <= q] of a Gaussian is mu Phi(z) - sigma phi(z).
    return np.sum(weight * (mean * normal_cdf(z) - std * normal_pdf(z)), axis=-1) / alpha


def needed_coefficient(reading: str) -> float:
    """The c above which mean - c * std prefers always slow to always fast."""
    (slow, fast), (slow_std, fast_std) = moments([0.0, 1.0], reading)
    return float((fast - slow) / (fast_std - slow_std))


def switch_alpha(measure: str, reading: str) -> float | None:
    """The alpha at which the learner changes from slow to fast, or None if it never chooses slow."""
    coefficient, needed = risk_measure(measure).coefficient, needed_coefficient(reading)
    low, high = 1e-12, 1.0
    if coefficient(low) < needed:
        return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if coefficient(middle) > needed else (low, middle)
    return high


def solve(settings: Settings) -> Solution:
    """The best policy for every alpha, four ways."""
    alphas = np.arange(1, settings.intervals + 1) / settings.intervals
    policies = np.arange(settings.intervals + 1) / settings.intervals
    returns = sample_returns(policies, settings.trials, settings.reading, np.random.default_rng(settings.seed))
    mean, std = moments(policies, settings.reading)
    values = {'sampled': np.array([empirical_cvar(returns, alpha) for alpha in alphas]),
              'exact': exact_cvar(policies, alphas[:, None], settings.reading)}
    for name in LEARNERS:
        values[name] = risk_measure(name).of_gaussian(mean, std, alphas[:, None])
    best = {way: policies[np.argmax(value, axis=1)] for way, value in values.items()}
    return Solution(alphas, best['sampled'], best['exact'], {name: best[name] for name in LEARNERS})


def report(settings: Settings, solution: Solution) -> dict[str, Any]:
    """Everything found, ready for JSON."""
    return {
        **asdict(settings),
        'needed_coefficient': needed_coefficient(settings.reading),
        'largest_printed_coefficient': float(risk_measure('paper').coefficient(1e-12)),
        'switch_alpha': {name: switch_alpha(name, settings.reading) for name in LEARNERS},
        'alpha': solution.alphas.tolist(),
        'sampled': solution.sampled.tolist(),
        'exact': solution.exact.tolist(),
        **{f'learner_{name}': best.tolist() for name, best in solution.learner.items()},
    }


def text(found: dict[str, Any]) -> str:
    """The report for a terminal."""
    columns = ('alpha', 'sampled', 'exact', *(f'learner_{name}' for name in LEARNERS))
    lines = [f'Best Pr(left lane), N(2, 4) read as a {NAMES[found["reading"]]}, {found["trials"]} trials a policy:', '',
             '  '.join(f'{name:>13}' for name in columns)]
    lines += ['  '.join(f'{value:13.3f}' for value in row)
              for row in zip(*(found[name] for name in columns), strict=True)]
    lines += ['', f'Slow pays when the coefficient exceeds {found["needed_coefficient"]:.3f}.']
    for name, what in (('cvar', 'exact'), ('paper', 'printed')):
        switch = found['switch_alpha'][name]
        lines.append(f'The {what} coefficient changes lanes at alpha = {switch:.4f}.' if switch is not None else
                     f'The {what} coefficient never chooses the slow lane: '
                     f'it is at most {found[f"largest_{what}_coefficient"]:.3f}.')
    return '\n'.join(lines)


def plot(settings: Settings, solution: Solution, path: str | Path) -> None:
    """The paper's figure, and beneath it why: what each lane is worth."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the plot needs matplotlib: pip install 'wcpg_ros[pictures]'") from error

    # told apart by colour-blind readers too
    blue, orange, green, purple, grey = '#0072B2', '#D55E00', '#009E73', '#CC79A7', '#BBBBBB'
    figure = Figure(figsize=(7.0, 7.0), layout='constrained')
    policy, worth = figure.subplots(2, 1, sharex=True)

    policy.plot(solution.alphas, solution.exact, color=grey, linewidth=6, drawstyle='steps-mid', label='exact')
    policy.plot(solution.alphas, solution.learner['cvar'], color=blue, linewidth=2, drawstyle='steps-mid',
                label='learner, exact coefficient')
    policy.plot(solution.alphas, solution.learner['paper'], color=orange, linewidth=2, linestyle='--',
                drawstyle='steps-mid', label='learner, printed coefficient')
    policy.plot(solution.alphas, solution.sampled, 'ko', markersize=4, label=f'brute force, {settings.trials} trials')
    policy.set(ylabel='best Pr(left, fast lane)', ylim=(-0.08, 1.08),
               title=f'Fast-slow lanes, the 4 of N(2, 4) read as a {NAMES[settings.reading]}')
    policy.legend(loc='center right')

    alphas = np.linspace(0.005, 1.0, 400)
    for lane, p, color in (('always fast', 1.0, green), ('always slow', 0.0, purple)):
        mean, std = moments(p, settings.reading)
        for name, style, how in (('cvar', '-', 'exact'), ('paper', '--', 'printed')):
            worth.plot(alphas, risk_measure(name).of_gaussian(mean, std, alphas), color=color, linestyle=style,
                       label=f'{lane}, {how}')
    for name, style in (('cvar', '-'), ('paper', '--')):
        switch = switch_alpha(name, settings.reading)
        if switch is not None:
            for axes in (policy, worth):
                axes.axvline(switch, color='black', linewidth=0.8, linestyle=style, zorder=0)
            worth.annotate(f'α = {switch:.3f}', (switch, 0.94), xycoords=('data', 'axes fraction'),
                           xytext=(4, 0), textcoords='offset points')
    worth.set(xlabel='risk level α', ylabel='CVaR of the return', xlim=(0.0, 1.02))
    worth.legend(loc='lower right')
    figure.savefig(path, dpi=150)


def main(args: list[str] | None = None) -> int:
    default = Settings()
    parser = argparse.ArgumentParser(prog='python -m wcpg_ros.fast_slow', description='The fast-slow lanes problem.')
    parser.add_argument('--reading', choices=tuple(FAST_STD), default=default.reading, help='of the 4 in N(2, 4)')
    parser.add_argument('--trials', type=int, default=default.trials, help='sampled returns for each policy')
    parser.add_argument('--intervals', type=int, default=default.intervals, help='of alpha and of the policy')
    parser.add_argument('--seed', type=int, default=default.seed)
    parser.add_argument('--plot', type=Path, metavar='PNG', help='write the figure there')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    options = parser.parse_args(args)
    try:
        settings = Settings(options.reading, options.trials, options.intervals, options.seed)
        solution = solve(settings)
        if options.plot:
            plot(settings, solution, options.plot)
    except (ValueError, OSError, ImportError) as error:
        print(f'fast_slow: {error}', file=sys.stderr)
        return 2
    found = report(settings, solution)
    print(json_text(found) if options.json else text(found))
    return 0


if __name__ == '__main__':
    sys.exit(main())
