"""The dial: the trained level with the best episodes for each alpha, kept in the model file."""

import os
import signal

import numpy as np
import pytest
from random_models import random_model, random_observations
from test_trainer import again, begin, quick, recipe

from sim_node.settings import SettingsError
from wcpg_ros.dial import DialError, calibrate, check_dial, levels_of, spread_levels
from wcpg_ros.model_file import ModelError, ModelFile
from wcpg_ros.policy import Policy
from wcpg_ros.risk import empirical_cvar
from wcpg_ros.validation import drive

PAIRS = [[0.01, 0.002], [0.1, 0.02], [1.0, 1.0]]


def test_no_pairs_leave_alpha_as_it_is() -> None:
    assert levels_of([], 0.3) == np.float32(0.3)


def test_between_pairs_the_dial_is_linear() -> None:
    levels = levels_of(PAIRS, [0.01, 0.055, 0.1, 0.55, 1.0])
    np.testing.assert_allclose(levels, [0.002, 0.011, 0.02, 0.51, 1.0], rtol=1e-6)


@pytest.mark.parametrize(('pairs', 'words'), [
    ([[0.1, 0.1]], 'one pair'), ([[0.1, 0.2], [0.1, 0.3]], 'alphas must rise'),
    ([[0.1, 0.3], [0.2, 0.2]], 'levels must not fall'), ([[0.0, 0.1], [1.0, 1.0]], 'is not an alpha'),
    ([[0.1, 0.1], [1.5, 1.5]], 'is not an alpha'), ([[0.1, 0.1], [1.0, 2.5]], r'a level within \(0, 2\]'),
    ([[0.1], [1.0, 1.0]], 'is not an alpha'), ([[0.1, float('nan')], [1.0, 1.0]], 'is not an alpha')])
def test_what_makes_no_dial_is_refused(pairs, words) -> None:
    with pytest.raises(DialError, match=words):
        check_dial(pairs)


def gambles(levels, episodes=4000):
    """The return of a driver who gambles more the higher the level: 10 + 20 sqrt(l), or -50 once in l/20."""
    luck = np.random.default_rng(0).random(episodes)
    return np.array([np.where(luck < level / 20.0, -50.0, 10.0 + 20.0 * np.sqrt(level)) for level in levels])


def test_every_alpha_gets_the_level_whose_episodes_are_best_for_it() -> None:
    levels = spread_levels(0.002, 1.0, 24)
    returns = gambles(levels)
    pairs = calibrate(levels, returns)
    check_dial(pairs)
    assert pairs[0][1] < 0.2 < pairs[-1][1]
    for alpha, level in pairs:
        worth = empirical_cvar(returns, alpha)
        chosen = worth[np.argmin(np.abs(levels - level))]
        assert chosen >= worth.max() - 0.05 * (worth.max() - worth.min())


def test_one_lucky_level_does_not_win() -> None:
    levels = spread_levels(0.01, 1.0, 20)
    returns = np.repeat(-np.abs(np.arange(20.0) - 10.0)[:, None], 100, axis=1)
    returns[2] = 1.5
    assert calibrate(levels, returns, [0.5, 1.0])[0][1] == pytest.approx(float(levels[10]), rel=1e-3)


def test_among_levels_that_are_equally_good_chance_moves_the_dial_little() -> None:
    levels = spread_levels(0.001, 1.0, 31)
    chosen, luckiest = [], []
    for seed in range(10):
        returns = np.random.default_rng(seed).normal(10.0, 5.0, (31, 2000))
        returns[np.abs(np.arange(31) - 12) > 6] -= 10.0     # of levels 6 to 18, chance alone decides which wins
        pairs = calibrate(levels, returns, [0.01, 0.1, 1.0])
        chosen.append(np.interp([level for _, level in pairs], levels, np.arange(31)))
        luckiest.append(np.argmax(empirical_cvar(returns, 0.1)))
    careful, middle, quick_ones = np.mean(chosen, axis=0)
    assert middle == pytest.approx(12.0, abs=1.5)
    assert careful < middle - 1.5     # whoever turns the dial down or up means something by it
    assert quick_ones > middle + 1.5
    assert np.std(chosen, axis=0).max() < 0.7 * np.std(luckiest)


def test_a_policy_drives_at_the_level_of_its_alpha() -> None:
    plain, dialled = Policy(random_model(alpha_min=0.001)), Policy(random_model(dial=PAIRS))
    rows, alphas = random_observations(5), np.array([0.01, 0.03, 0.1, 0.4, 1.0], np.float32)
    np.testing.assert_array_equal(dialled.act(rows, alphas), plain.act(rows, levels_of(PAIRS, alphas)))
    assert dialled.act(rows[0], 0.1) == plain.act(rows[0], 0.02)


@pytest.mark.parametrize('critic', ['gaussian', 'quantile', 'categorical'])
def test_its_critic_speaks_of_the_alpha_that_was_asked_for(critic) -> None:
    plain = Policy(random_model(critic=critic, alpha_min=0.001))
    dialled = Policy(random_model(critic=critic, dial=PAIRS))
    rows = random_observations(5)
    risk, same = dialled.risk(rows, 1.0, 0.1), plain.risk(rows, 1.0, 0.02)
    np.testing.assert_array_equal(risk.mean, same.mean)
    np.testing.assert_array_equal(risk.std, same.std)
    np.testing.assert_allclose(risk.cvar, plain.tail(rows, 1.0, 0.02, 0.1), rtol=1e-6)


@pytest.mark.parametrize(('changes', 'words'), [
    ({'dial': [[0.1, 0.3], [0.2, 0.2]]}, 'dial: .*levels must not fall'),
    ({'dial': PAIRS, 'alpha_min': 0.02}, 'dial: does not go'), ({'dial': PAIRS, 'risk_measure': 'wang'}, 'for cvar')])
def test_a_model_with_a_wrong_dial_is_refused(changes, words) -> None:
    with pytest.raises(ModelError, match=words):
        random_model(**changes)


def test_training_ends_with_a_dial_if_asked(tmp_path) -> None:
    settings = quick(alpha={'minimum': 0.005}, dial={'episodes': 30, 'levels': 5})
    begin(tmp_path / 'run', settings, episodes=100).run(progress=False)
    info = ModelFile.load(tmp_path / 'run' / 'best.safetensors').info
    assert (info.alpha_min, info.alpha_max) == (0.01, 1.0)
    assert all(0.005 <= level <= 1.0 for _, level in info.dial)
    assert not ModelFile.load(tmp_path / 'run' / 'model.safetensors').info.dial


def test_after_a_ctrl_c_the_dial_is_calibrated_by_resuming(tmp_path, monkeypatch) -> None:
    trainer = begin(tmp_path / 'run', quick(dial={'episodes': 30, 'levels': 5}), episodes=100)

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return drive(*arguments)
    monkeypatch.setattr('wcpg_ros.trainer.drive', interrupted)
    assert not trainer.run(progress=False)
    assert not ModelFile.load(tmp_path / 'run' / 'best.safetensors').info.dial
    monkeypatch.undo()
    assert again(tmp_path / 'run').run(progress=False)
    assert ModelFile.load(tmp_path / 'run' / 'best.safetensors').info.dial


@pytest.mark.parametrize(('groups', 'words'), [
    ({'dial': {'episodes': 10}, 'actor': {'risk': 'wang'}}, 'dial.episodes'),
    ({'dial': {'episodes': 10}, 'alpha': {'minimum': 1.0}}, 'dial.episodes'),
    ({'dial': {'episodes': 10}, 'validation': {'levels': [0.001]}}, 'validation.levels: expected levels that'),
    ({'alpha': {'minimum': 0.5}}, 'validation.alphas: expected levels that are trained'),
    ({'learning': {'batch': 200, 'replay': 100}}, 'batch: expected at most what replay keeps'),
    ({'validation': {'levels': [0.1]}}, 'validation.levels')])
def test_settings_that_do_not_go_together(groups, words) -> None:
    with pytest.raises(SettingsError, match=words):
        recipe(**groups)
