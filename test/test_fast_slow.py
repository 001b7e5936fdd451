"""The paper's fast-slow lanes: the brute force, the exact solution and the learner's risk functions agree."""

import json
import sys

import numpy as np
import pytest

from wcpg_ros.fast_slow import (
    Settings,
    exact_cvar,
    main,
    moments,
    needed_coefficient,
    sample_returns,
    solve,
    switch_alpha,
)
from wcpg_ros.risk import empirical_cvar, risk_measure

READINGS = ('variance', 'std')


def test_moments_by_hand():
    np.testing.assert_allclose(moments([0.0, 1.0], 'variance'), [[4.0, 8.0], [2.0, 4.0]])
    np.testing.assert_allclose(moments([0.0, 1.0], 'std'), [[4.0, 8.0], [2.0, 8.0]])
    mean, std = moments(0.5, 'variance')   # one step: mean 1.5, variance 0.5*4 + 0.5*1 + 0.25
    assert mean == 6.0
    assert std == pytest.approx(np.sqrt(4 * 2.75))


@pytest.mark.parametrize('reading', READINGS)
def test_moments_and_exact_cvar_agree_with_sampled_episodes(reading):
    policies = np.array([0.0, 0.3, 1.0])
    returns = sample_returns(policies, 400_000, reading, np.random.default_rng(1))
    mean, std = moments(policies, reading)
    np.testing.assert_allclose(returns.mean(axis=1), mean, atol=0.05)
    np.testing.assert_allclose(returns.std(axis=1), std, atol=0.03)
    for alpha in (0.05, 0.4, 1.0):
        np.testing.assert_allclose(exact_cvar(policies, alpha, reading), empirical_cvar(returns, alpha), atol=0.08)


@pytest.mark.parametrize('reading', READINGS)
def test_exact_cvar_of_one_lane_is_the_gaussian_formula(reading):
    alphas = np.array([0.01, 0.1, 0.5, 1.0])
    for p in (0.0, 1.0):
        expected = risk_measure('cvar').of_gaussian(*moments(p, reading), alphas)
        np.testing.assert_allclose(exact_cvar(p, alphas, reading), expected, atol=1e-9)


def test_the_coefficient_needed_to_prefer_slow():
    assert needed_coefficient('variance') == pytest.approx(2.0)    # (8 - 4) / (4 - 2)
    assert needed_coefficient('std') == pytest.approx(2.0 / 3.0)   # (8 - 4) / (8 - 2)


@pytest.mark.parametrize(('reading', 'alpha'), [('variance', 0.058), ('std', 0.585)])
def test_the_exact_coefficient_switches_lanes_where_the_problem_does(reading, alpha):
    switch = switch_alpha('cvar', reading)
    assert switch == pytest.approx(alpha, abs=5e-4)
    assert exact_cvar(0.0, switch, reading) == pytest.approx(exact_cvar(1.0, switch, reading), abs=1e-9)


def test_the_printed_coefficient_switches_elsewhere_or_never():
    assert switch_alpha('paper', 'variance') is None
    assert switch_alpha('paper', 'std') == pytest.approx(0.214, abs=1e-3)


@pytest.mark.parametrize('reading', READINGS)
def test_the_best_policy_is_one_lane_or_the_other_and_the_learner_finds_it(reading):
    solution = solve(Settings(reading, trials=10))
    right = np.where(solution.alphas < switch_alpha('cvar', reading), 0.0, 1.0)
    assert set(right) == {0.0, 1.0}
    np.testing.assert_array_equal(solution.exact, right)
    np.testing.assert_array_equal(solution.learner['cvar'], right)


def test_the_printed_coefficient_never_chooses_slow_under_the_variance_reading():
    assert (solve(Settings('variance', trials=10)).learner['paper'] == 1.0).all()


@pytest.mark.parametrize('reading', READINGS)
@pytest.mark.parametrize('seed', range(3))
def test_brute_force_with_the_papers_thousand_trials_finds_the_lanes(reading, seed):
    solution = solve(Settings(reading, seed=seed))
    assert solution.alphas.size == 32
    away = np.abs(solution.alphas - switch_alpha('cvar', reading)) > 0.1
    clear = away | (solution.alphas == 1 / 32)
    np.testing.assert_allclose(solution.sampled[clear], solution.exact[clear], atol=0.1)


def test_the_same_seed_gives_the_same_solution():
    np.testing.assert_array_equal(solve(Settings('std', seed=4)).sampled, solve(Settings('std', seed=4)).sampled)


def test_the_command_reports_the_switches(capsys):
    assert main(['--trials', '50']) == 0
    printed = capsys.readouterr().out
    assert 'Slow pays when the coefficient exceeds 2.000.' in printed
    assert 'The exact coefficient changes lanes at alpha = 0.0580.' in printed
    assert 'The printed coefficient never chooses the slow lane: it is at most 0.798.' in printed


def test_the_command_prints_one_json_object(capsys):
    assert main(['--reading', 'std', '--trials', '50', '--intervals', '8', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['switch_alpha']['cvar'] == pytest.approx(0.5848, abs=1e-4)
    assert found['alpha'] == [i / 8 for i in range(1, 9)]
    assert found['exact'] == [0.0] * 4 + [1.0] * 4
    assert found['learner_paper'] == [0.0] + [1.0] * 7


def test_the_plot_is_a_picture(tmp_path, capsys):
    image = pytest.importorskip('PIL.Image')
    assert main(['--trials', '50', '--plot', str(tmp_path / 'lanes.png')]) == 0
    pixels = np.asarray(image.open(tmp_path / 'lanes.png').convert('RGB'))
    assert pixels.shape == (1050, 1050, 3)
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73), (0xCC, 0x79, 0xA7)):
        assert (pixels == colour).all(axis=-1).sum() > 500


@pytest.mark.parametrize(('args', 'message'), [
    (['--trials', '0'], 'trials = 0: must be from 1 to 100,000'),
    (['--intervals', '-1'], 'intervals = -1: must be from 1'),
    (['--intervals', '100000000'], 'intervals = 100000000: must be from 1 to 500'),
    (['--seed', '-1'], 'seed = -1: must be at least 0'),
    (['--trials', '5', '--plot', '/nowhere/at/all.png'], '/nowhere/at/all.png'),
])
def test_bad_arguments_are_named(args, message, capsys):
    assert main(args) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_reading_names_the_choices():
    with pytest.raises(ValueError, match="reading = 'sigma': choose one of variance, std"):
        Settings('sigma')


def test_a_plot_without_matplotlib_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    assert main(['--trials', '5', '--plot', str(tmp_path / 'lanes.png')]) == 2
    assert "needs matplotlib: pip install 'wcpg_ros[pictures]'" in capsys.readouterr().err
