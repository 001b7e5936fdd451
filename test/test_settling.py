"""The end of a run: the chosen policy stays as it is, and its critics learn what it brings."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_models import random_model
from test_trainer import again, begin, quick, recipe
from toy_world import TrafficLight

from sim_node.settings import SettingsError
from sim_node.state import RUNNING
from wcpg_ros.model_file import ModelFile
from wcpg_ros.policy import Policy
from wcpg_ros.replay import COLUMNS, Replay
from wcpg_ros.seeds import settling_start, training_start
from wcpg_ros.settling import DECISIONS_PER_UPDATE, TRIED, TRYING, drives_of, settled

TWIN = {'kind': 'quantile', 'quantiles': 8, 'mean': True, 'twin': True}


def two_decisions(pays: Callable[[np.random.Generator, int], NDArray], size: int = 4000) -> Replay:
    """Whatever they are, the first leads from state 0 to state 1 and the second pays."""
    rng = np.random.default_rng(0)
    replay = Replay(2 * size, 16)
    here, there = np.zeros((size, 16)), np.ones((size, 16))
    actions = {'action': rng.uniform(-4.0, 4.0, size), 'discount': np.full(size, 0.9), 'outcome': np.zeros(size)}
    replay.add(here, there, reward=np.zeros(size), done=np.zeros(size), alpha=rng.uniform(0.05, 1.0, size), **actions)
    replay.add(there, there, reward=pays(rng, size), done=np.ones(size), alpha=rng.uniform(0.05, 1.0, size), **actions)
    return replay


def gamble(rng: np.random.Generator, size: int) -> NDArray:
    """30, or -50 one time in ten."""
    return np.where(rng.random(size) < 0.9, 30.0, -50.0)


def test_critics_settle_on_what_the_policy_brings() -> None:
    chosen = random_model(critic='quantile', twin=True, mean=True, return_scale=10.0)
    settings = recipe(critic={**TWIN, 'quantiles': 32}, dial={'episodes': 1, 'critic_updates': 1500})
    model = settled(chosen, settings, two_decisions(gamble), np.random.default_rng(1), lambda: False, progress=False)
    before, after = (Policy(each).risk(np.zeros((1, 16), np.float32), 0.0, 1.0) for each in (chosen, model))
    assert after.mean == pytest.approx(0.9 * (0.9 * 30.0 - 0.1 * 50.0), abs=1.5)     # without caution
    assert abs(before.mean - after.mean) > 3.0
    for name, tensor in chosen.tensors.items():
        assert name.startswith('critic') != np.array_equal(tensor, model.tensors[name]), name


def test_nothing_is_capped_any_more() -> None:
    chosen = random_model(critic='quantile', mean=True, return_scale=10.0)
    settings = recipe(critic={**TWIN, 'twin': False, 'quantiles': 32}, alpha={'caps': [10.0, 40.0]},
                      dial={'episodes': 1, 'critic_updates': 1500})
    replay = two_decisions(lambda rng, size: np.full(size, 30.0))
    model = settled(chosen, settings, replay, np.random.default_rng(1), lambda: False, progress=False)
    assert Policy(model).risk(np.zeros((1, 16), np.float32), 0.0, 0.1).mean == pytest.approx(0.9 * 30.0, abs=1.0)


def test_returns_that_differ_by_little_stay_apart() -> None:
    chosen = random_model(critic='quantile', twin=True, mean=True, return_scale=10.0)
    settings = recipe(critic={**TWIN, 'quantiles': 32, 'kappa': 5.0}, dial={'episodes': 1, 'critic_updates': 3000})
    replay = two_decisions(lambda rng, size: rng.uniform(10.0, 14.0, size))
    model = settled(chosen, settings, replay, np.random.default_rng(1), lambda: False, progress=False)
    risk = Policy(model).risk(np.zeros((1, 16), np.float32), 0.0, 0.2)
    assert risk.cvar == pytest.approx(0.9 * 10.4, abs=0.3)     # with the round bottom of training: 10.0


def test_what_it_settles_on_is_what_the_policy_drives() -> None:
    world = TrafficLight(32)
    dial = [[0.01, 0.002], [0.1, 0.5], [1.0, 0.8]]
    chosen = random_model(observation_size=world.observation_size, vehicles=1, dial=dial)
    settings = recipe(dial={'episodes': 1, 'critic_updates': 64})
    drives = drives_of(chosen, settings, world, 4, 7, np.random.default_rng(1), lambda: False)
    assert drives.size == drives.capacity == DECISIONS_PER_UPDATE * 64
    d = world.observation_size
    state, following = drives.rows[:, :d], drives.rows[:, d:2 * d]
    columns = dict(zip(COLUMNS, drives.rows[:, 2 * d:].T, strict=True))
    assert np.array_equal(state[:32], TrafficLight(32).reset(np.arange(7, 39)))
    level = columns['alpha']
    assert len(np.unique(level)) > 32
    assert level.min() >= 0.002
    assert level.max() <= 0.8
    assert np.mean(level < 0.5) == pytest.approx(0.5, abs=0.15)     # as many alphas below 0.1 as above
    assert (columns['done'] == (columns['outcome'] != RUNNING)).all()
    assert not columns['reward'][columns['done'] == 0].any()
    undialled = Policy(replace(chosen, info=replace(chosen.info, dial=[], alpha_min=0.002)))
    own = np.isclose(columns['action'], undialled.act(state, level), atol=1e-5)
    assert 0.0 < 1.0 - own.mean() < TRIED / TRYING
    here, there = ([(row.tobytes(), alpha) for row, alpha in zip(rows, level, strict=True)]
                   for rows in (state, following))
    known = set(here)
    goes_on = np.isin(np.arange(drives.size), [i for i, place in enumerate(there) if place in known])
    inner = (columns['done'] == 0) & (np.arange(drives.size) < drives.size - 64)
    assert goes_on[inner & own].all()          # an episode has one level, and is driven on …
    assert not goes_on[inner & ~own].any()     # … but after another action it is not learnt from


def test_episodes_to_settle_on_are_not_those_of_training() -> None:
    assert training_start(3) + 10_000_000 < settling_start(3) < training_start(4) - 10_000_000


def test_a_settled_run_that_was_interrupted_ends_with_the_same_bytes(tmp_path, monkeypatch) -> None:
    settings = quick(critic=TWIN, dial={'episodes': 30, 'levels': 5, 'critic_updates': 40})
    begin(tmp_path / 'whole', settings, episodes=100).run(progress=False)
    trainer = begin(tmp_path / 'stopped', settings, episodes=100)

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return settled(*arguments)
    monkeypatch.setattr('wcpg_ros.trainer.settled', interrupted)
    assert not trainer.run(progress=False)
    monkeypatch.undo()
    assert not ModelFile.load(tmp_path / 'stopped' / 'best.safetensors').info.dial
    assert again(tmp_path / 'stopped').run(progress=False)
    whole, stopped = ((tmp_path / run / 'best.safetensors').read_bytes() for run in ('whole', 'stopped'))
    assert whole == stopped


def test_settling_belongs_to_calibrating() -> None:
    with pytest.raises(SettingsError, match=r'dial\.critic_updates: calibrating is off'):
        recipe(dial={'critic_updates': 10})
