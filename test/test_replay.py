"""Replay, n-step returns, normaliser and exploration."""

import time

import numpy as np
import pytest

from wcpg_ros.exploration import Exploration
from wcpg_ros.n_step import NStep
from wcpg_ros.normaliser import STD_FLOOR, Normaliser
from wcpg_ros.replay import Replay, empty_minibatch
from wcpg_ros.settings import ExplorationSettings


def add(replay: Replay, values: range | list[int], **columns) -> None:
    count, d = len(values), replay.observation_size
    state = np.repeat(np.asarray(values, np.float32)[:, None], d, axis=1)
    default = dict.fromkeys(('action', 'reward', 'discount', 'done', 'alpha', 'outcome'), np.zeros(count))
    replay.add(state, state + 0.5, **{**default, **columns})


def test_the_oldest_transitions_are_overwritten_across_the_end() -> None:
    replay = Replay(5, 2)
    add(replay, range(4))
    add(replay, range(4, 7))
    assert (replay.size, replay.next) == (5, 2)
    assert replay.rows[:, 0].tolist() == [5.0, 6.0, 2.0, 3.0, 4.0]


def test_more_than_fits_and_unknown_columns_are_refused() -> None:
    with pytest.raises(ValueError, match='6 transitions at once do not fit a replay of 5'):
        add(Replay(5, 2), range(6))
    with pytest.raises(TypeError, match='unknown columns actoin: choose from action, reward'):
        add(Replay(5, 2), range(2), actoin=np.zeros(2))


def test_a_minibatch_is_in_the_networks_units() -> None:
    replay = Replay(10, 2)
    add(replay, [1, 2, 30], action=[-4.0, 2.0, 4.0], reward=[0.0, 50.0, -50.0], discount=[0.9, 0.9, 0.8],
        done=[False, True, False], alpha=[0.1, 0.2, 0.3], outcome=[0, 1, 0])
    out = empty_minibatch(2, 3)
    replay.gather(np.array([2, 1, 0]), np.ones(2, np.float32), np.full(2, 2.0, np.float32), clip=5.0, action_bound=4.0,
                  return_scale=10.0, out=out)
    assert out.state.T.tolist() == [[5.0, 5.0], [0.5, 0.5], [0.0, 0.0]]       # (30 - 1) / 2 is clipped
    assert out.next_state[0].tolist() == [5.0, 0.75, 0.25]
    assert out.action.tolist() == [1.0, 0.5, -1.0]
    assert out.reward.tolist() == [-5.0, 5.0, 0.0]
    assert out.bootstrap.tolist() == pytest.approx([0.8, 0.0, 0.9])           # nothing follows a terminal
    assert out.alpha.tolist() == pytest.approx([0.3, 0.2, 0.1])
    assert replay.column('outcome').tolist() == [0.0, 1.0, 0.0]


def test_adding_costs_the_same_however_full_it_is() -> None:
    replay = Replay(200_000, 16)

    def seconds() -> float:
        started = time.perf_counter()
        for _ in range(200):
            add(replay, range(16))
        return time.perf_counter() - started
    empty = min(seconds() for _ in range(3))
    replay.size = replay.capacity
    assert min(seconds() for _ in range(3)) < 3.0 * empty


def test_n_step_returns_by_hand() -> None:
    """Two scenes, n = 2, discount 0.5: rewards 1, 2, 4 with an end at the third decision of scene 0."""
    replay = Replay(20, 1)
    n_step = NStep(replay, 2, scenes=2)
    for k, (reward, done) in enumerate(((1.0, False), (2.0, False), (4.0, True), (8.0, False))):
        state = np.full((2, 1), k, np.float32)
        n_step.add(state, state + 1, action=np.full(2, k, np.float32), reward=np.full(2, reward, np.float32),
                   discount=np.full(2, 0.5, np.float32), done=np.array([done, False]),
                   alpha=np.full(2, 0.1, np.float32), outcome=np.array([done, 0], np.int8))
    rows = {(int(s), int(n)): (float(r), float(g), bool(d)) for s, n, r, g, d in zip(
        replay.rows[:replay.size, 0], replay.rows[:replay.size, 1], replay.column('reward'),
        replay.column('discount'), replay.column('done'), strict=True) if d}
    assert rows == {(1, 3): (2.0 + 0.5 * 4.0, 0.25, True), (2, 3): (4.0, 0.5, True)}
    running = [(s, n, r, g) for s, n, r, g, d in zip(
        replay.rows[:replay.size, 0], replay.rows[:replay.size, 1], replay.column('reward'),
        replay.column('discount'), replay.column('done'), strict=True) if not d]
    # Scene 0 gave only its first; scene 1, that never ends, its first three. The others still wait.
    assert running == [(0, 2, 2.0, 0.25), (0, 2, 2.0, 0.25), (1, 3, 4.0, 0.25), (2, 4, 8.0, 0.25)]


def test_the_normaliser_equals_numpy_however_the_data_arrives() -> None:
    data = np.random.default_rng(0).normal(100.0, [0.1, 20.0], (1000, 2)).astype(np.float32)
    normaliser = Normaliser(2)
    for part in np.split(data, [1, 17, 500]):
        normaliser.update(part)
    np.testing.assert_allclose(normaliser.mean, data.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(normaliser.std, data.std(axis=0, dtype=np.float64), rtol=1e-5)
    assert normaliser.columns(data[:3], 0.5).shape == (2, 3)
    assert np.abs(normaliser.columns(data, 0.5)).max() == 0.5


def test_a_constant_feature_does_not_blow_up() -> None:
    normaliser = Normaliser(1)
    normaliser.update(np.full((100, 1), 7.0, np.float32))
    assert normaliser.std[0] == np.float32(STD_FLOOR)


def test_noise_has_the_asked_size_and_stays_within_bounds() -> None:
    exploration = Exploration(ExplorationSettings(noise_std=0.5), 10_000, 4.0, np.random.default_rng(0))
    assert exploration.perturb(np.zeros(10_000, np.float32)).std() == pytest.approx(0.5, rel=0.03)
    assert np.abs(exploration.perturb(np.full(10_000, 4.0, np.float32))).max() == 4.0


def test_spread_over_the_scenes_the_first_hardly_explores_and_the_last_as_much_as_asked() -> None:
    settings = ExplorationSettings(noise_std=0.5, spread=True)
    exploration = Exploration(settings, 4, 100.0, np.random.default_rng(0))
    actions = np.stack([exploration.perturb(np.zeros(4, np.float32)) for _ in range(20_000)])
    np.testing.assert_allclose(actions.std(axis=0), [0.125, 0.25, 0.375, 0.5], rtol=0.03)
    settings = ExplorationSettings(noise_std=0.0, hold_probability=0.2, hold_decisions=1.0, spread=True)
    held = Exploration(settings, 2, 4.0, np.random.default_rng(0))
    actions = np.stack([held.perturb(np.zeros(2, np.float32)) for _ in range(20_000)])
    np.testing.assert_allclose((actions != 0.0).mean(axis=0), [0.1, 0.2], rtol=0.05)


def test_held_actions_last_as_long_as_asked_and_end_with_the_episode() -> None:
    settings = ExplorationSettings(noise_std=0.0, hold_probability=0.05, hold_decisions=5.0)
    exploration = Exploration(settings, 500, 4.0, np.random.default_rng(0))
    actions = np.stack([exploration.perturb(np.zeros(500, np.float32)) for _ in range(400)])
    assert set(np.unique(actions)) == {-4.0, 0.0, 4.0}
    # A cycle is 1 / 0.05 decisions until a hold begins (its first one included) and 5 of holding.
    assert (actions != 0.0).mean() == pytest.approx(5.0 / (5.0 + 19.0), rel=0.05)
    exploration.end(np.ones(500, bool))
    assert exploration.state()['left'].max() == 0
