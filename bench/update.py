"""One full update against Stable-Baselines3's DDPG: `python bench/update.py [--json]`.

Sampling from a full replay of 10⁶, critic, actor, target networks; batch 512, one thread, networks of the same
widths. The contenders take turns in short rounds, so that whatever else the machine does hits all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DDPG
from stable_baselines3.common.logger import Logger
from threadpoolctl import threadpool_limits

from wcpg_ros.learner import Learner
from wcpg_ros.networks import compiled
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Replay
from wcpg_ros.settings import CriticSettings, Recipe

CAPACITY, BATCH, STATE = 1_000_000, 512, 16
BAR = 2.5


def full_replay(rng: np.random.Generator) -> Replay:
    """Made-up transitions with plausible shares of ends."""
    replay = Replay(CAPACITY, STATE)
    rng.standard_normal(dtype=np.float32, out=replay.rows)
    replay.size = CAPACITY
    replay.column('done')[:] = rng.random(CAPACITY) < 0.03
    replay.column('reward')[:] *= 20.0 * replay.column('done')
    replay.column('discount')[:] = 0.99 ** 4
    replay.column('alpha')[:] = rng.uniform(0.01, 1.0, CAPACITY)
    return replay


def ours(kind: str, replay: Replay) -> Callable[[], None]:
    """Updates with the paper's settings and the given critic."""
    rng = np.random.default_rng(0)
    learner = Learner(Recipe(critic=CriticSettings(kind=kind)), STATE, 4.0, rng)   # type: ignore[arg-type]
    normaliser = Normaliser(STATE)
    normaliser.update(replay.rows[:1000, :STATE])

    def update() -> None:
        learner.update(replay, normaliser, rng)
    return update


class Nothing(gymnasium.Env):
    """Spaces only: 16 observations and alpha, one action."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (STATE + 1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)


def stable_baselines() -> Callable[[], None]:
    """Their update: layer widths as ours, the alpha branch counted into the first hidden layer."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')   # about the memory a full replay takes: that is the point
        model = DDPG('MlpPolicy', Nothing(), buffer_size=CAPACITY, batch_size=BATCH, learning_rate=1e-4, tau=0.005,
                     policy_kwargs={'net_arch': {'pi': [32 + 16, 32], 'qf': [64 + 64, 64, 64]}}, device='cpu')
    buffer = model.replay_buffer
    assert buffer is not None
    for array in (buffer.observations, buffer.next_observations):
        array[:, 0] = rng.standard_normal(array[:, 0].shape, dtype=np.float32)
    buffer.actions[:, 0] = rng.uniform(-1.0, 1.0, buffer.actions[:, 0].shape)
    buffer.dones[:, 0] = rng.random(CAPACITY) < 0.03
    buffer.full = True
    model.set_logger(Logger(None, []))

    def update() -> None:
        model.train(gradient_steps=1, batch_size=BATCH)
    return update


def products() -> Callable[[], None]:
    """The matrix products one Gaussian update cannot do without, and nothing else."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)
    x, actor_joined, critic_joined = matrix(STATE, BATCH), matrix(48, BATCH), matrix(129, BATCH)
    h32, h64, g1, g2 = matrix(32, BATCH), matrix(64, BATCH), matrix(1, BATCH), matrix(2, BATCH)
    a1, a3, ao = matrix(32, STATE), matrix(32, 48), matrix(1, 32)
    c1, c3, c4, co = matrix(64, STATE), matrix(64, 129), matrix(64, 64), matrix(2, 64)

    @compiled
    def run(x, actor_joined, critic_joined, h32, h64, g1, g2, a1, a3, ao, c1, c3, c4, co):  # type: ignore[no-untyped-def]
        for _ in range(2):       # actor forward: target, online
            np.dot(a1, x, actor_joined[:32])
            np.dot(a3, actor_joined, h32)
            np.dot(ao, h32, g1)
        for _ in range(3):       # critic forward: target, online, at the actor's action
            np.dot(c1, x, critic_joined[:64])
            np.dot(c3, critic_joined, h64)
            np.dot(c4, h64, critic_joined[64:128])
            np.dot(co, h64, g2)
        for _ in range(2):       # critic backward to h3: for its parameters, for the action
            np.dot(co.T, g2, h64)
            np.dot(c4.T, h64, critic_joined[:64])
        np.dot(c3.T, h64, critic_joined)
        np.dot(g2, h64.T, co)
        np.dot(h64, h64.T, c4)
        np.dot(h64, critic_joined.T, c3)
        np.dot(h64, x.T, c1)
        np.dot(ao.T, g1, h32)
        np.dot(a3.T, h32, actor_joined)
        np.dot(g1, h32.T, ao)
        np.dot(h32, actor_joined.T, a3)
        np.dot(h32, x.T, a1)

    def products_once() -> None:
        run(x, actor_joined, critic_joined, h32, h64, g1, g2, a1, a3, ao, c1, c3, c4, co)
    return products_once


def measure(contenders: dict[str, Callable[[], None]], rounds: int, per_round: int) -> dict[str, float]:
    """Median milliseconds of each, over all rounds."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):   # the first round compiles and warms up
        for name, run in contenders.items():
            for _ in range(per_round):
                start = time.perf_counter()
                run()
                if turn:
                    times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--rounds', type=int, default=20)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    replay = full_replay(np.random.default_rng(1))
    contenders = {'gaussian': ours('gaussian', replay), 'quantile': ours('quantile', replay),
                  'stable_baselines3': stable_baselines(), 'products': products()}
    with threadpool_limits(limits=1):
        median = measure(contenders, arguments.rounds, per_round=20)
    ratio = median['stable_baselines3'] / median['gaussian']
    result = {**{f'{name}_ms': round(value, 3) for name, value in median.items()},
              'gaussian_times_faster_than_sb3': round(ratio, 2), 'bar': BAR,
              'quantile_times_faster_than_sb3': round(median['stable_baselines3'] / median['quantile'], 2),
              'gaussian_multiple_of_products': round(median['gaussian'] / median['products'], 2)}
    if arguments.json:
        print(json.dumps(result))
        return
    print(f'one update, batch {BATCH}, replay of {CAPACITY:,}, one thread; medians')
    print(f'  Stable-Baselines3 DDPG    {median["stable_baselines3"]:6.2f} ms')
    print(f'  WCPG, Gaussian critic     {median["gaussian"]:6.2f} ms   {ratio:.1f} times faster (bar: {BAR})')
    print(f'  WCPG, quantile critic     {median["quantile"]:6.2f} ms   '
          f'{result["quantile_times_faster_than_sb3"]:.1f} times faster')
    print(f'  the bare matrix products  {median["products"]:6.2f} ms   '
          f'the Gaussian update is {result["gaussian_multiple_of_products"]:.1f} of them')


if __name__ == '__main__':
    main()
