"""The end of a run: the chosen policy stays as it is, and its critics learn what it brings."""

import os
import signal

import numpy as np
import pytest
from random_models import random_model
from test_trainer import again, begin, quick, recipe

from sim_node.settings import SettingsError
from wcpg_ros.model_file import ModelFile
from wcpg_ros.policy import Policy
from wcpg_ros.replay import Replay
from wcpg_ros.settling import settled

TWIN = {'kind': 'quantile', 'quantiles': 8, 'mean': True, 'twin': True}


def gamble(size: int, won: float = 0.9) -> Replay:
    """Two decisions, whatever they are: the first leads from state 0 to state 1, the second pays 30 or costs 50."""
    rng = np.random.default_rng(0)
    replay = Replay(2 * size, 16)
    here, there = np.zeros((size, 16)), np.ones((size, 16))
    actions = {'action': rng.uniform(-4.0, 4.0, size), 'discount': np.full(size, 0.9), 'outcome': np.zeros(size)}
    replay.add(here, there, reward=np.zeros(size), done=np.zeros(size), alpha=rng.uniform(0.05, 1.0, size), **actions)
    replay.add(there, there, reward=np.where(rng.random(size) < won, 30.0, -50.0), done=np.ones(size),
               alpha=rng.uniform(0.05, 1.0, size), **actions)
    return replay


def test_critics_settle_on_what_the_policy_brings() -> None:
    chosen = random_model(critic='quantile', twin=True, mean=True, return_scale=10.0)
    settings = recipe(critic={**TWIN, 'quantiles': 32}, dial={'episodes': 1, 'critic_updates': 1500})
    model = settled(chosen, settings, gamble(4000), np.random.default_rng(1), lambda: False, progress=False)
    before, after = (Policy(each).risk(np.zeros((1, 16), np.float32), 0.0, 1.0) for each in (chosen, model))
    assert after.mean == pytest.approx(0.9 * (0.9 * 30.0 - 0.1 * 50.0), abs=1.5)     # without caution
    assert abs(before.mean - after.mean) > 3.0
    for name, tensor in chosen.tensors.items():
        assert name.startswith('critic') != np.array_equal(tensor, model.tensors[name]), name


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
