"""The risk measures against scipy, Monte Carlo and numbers worked out by hand."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from wcpg_ros.risk import (
    RISK_MEASURES,
    empirical_cvar,
    normal_cdf,
    normal_pdf,
    normal_quantile,
    quantile_edges,
    quantile_levels,
    quantile_mean_std,
    quantile_probabilities,
    return_cap,
    risk_measure,
    tail_share,
)

ALPHAS = np.array([0.01, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0])


@pytest.fixture(scope='module')
def normal_samples():
    return np.random.default_rng(7).standard_normal(1_000_000)


# the normal distribution

def test_normal_quantile_agrees_with_scipy_to_near_double_precision():
    low = np.logspace(-300, -0.31, 5000)
    p = np.concatenate([low, 1.0 - np.logspace(-15, -0.31, 5000), np.linspace(0.001, 0.999, 999)])
    np.testing.assert_allclose(normal_quantile(p), stats.norm.ppf(p), rtol=4e-15, atol=1e-16)


def test_normal_quantile_at_and_beyond_its_ends():
    np.testing.assert_array_equal(normal_quantile([0.0, 0.5, 1.0]), [-np.inf, 0.0, np.inf])
    assert np.isnan(normal_quantile([-0.1, 1.1, np.nan])).all()


def test_normal_cdf_and_pdf_agree_with_scipy():
    x = np.linspace(-37.0, 8.0, 2001)
    np.testing.assert_allclose(normal_cdf(x), stats.norm.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(normal_pdf(x), stats.norm.pdf(x), rtol=1e-13)


def test_scalars_come_back_as_scalars():
    coefficient = risk_measure('cvar').coefficient(0.3)
    for value in (normal_quantile(0.3), normal_cdf(0.3), coefficient, empirical_cvar([1.0], 0.5)):
        assert np.ndim(value) == 0
        assert isinstance(float(value), float)


# Gaussian returns

@pytest.mark.parametrize(('alpha', 'exact', 'printed'), [
    (0.02, 2.421, 0.785), (0.1, 1.755, 0.735), (0.3, 1.159, 0.617), (0.6, 0.644, 0.459), (1.0, 0.0, 0.288),
])
def test_coefficients_of_the_dial_settings(alpha, exact, printed):
    assert risk_measure('cvar').coefficient(alpha) == pytest.approx(exact, abs=6e-4)
    assert risk_measure('paper').coefficient(alpha) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize('alpha', ALPHAS)
def test_exact_cvar_is_the_mean_of_the_worst_share_of_a_million_samples(alpha, normal_samples):
    sampled = empirical_cvar(3.0 + 2.0 * normal_samples, alpha)
    assert risk_measure('cvar').of_gaussian(3.0, 2.0, alpha) == pytest.approx(sampled, abs=0.03)


def test_exact_cvar_tends_to_the_mean_as_alpha_tends_to_one():
    coefficient = risk_measure('cvar').coefficient(1.0 - np.logspace(-1, -12, 12))
    assert (np.diff(coefficient) < 0.0).all()
    assert coefficient[-1] < 1e-11
    assert risk_measure('cvar').coefficient(1.0) == 0.0


def test_the_printed_coefficient_never_reaches_two_nor_zero():
    coefficient = risk_measure('paper').coefficient(np.linspace(1e-9, 1.0, 10_001))
    assert coefficient.max() < 2.0 / math.sqrt(2.0 * math.pi) < 0.80
    assert coefficient.min() == pytest.approx(0.2876, abs=1e-4)


def test_gaussian_var_is_the_quantile_and_stays_finite_at_one():
    below = ALPHAS[:-1]
    np.testing.assert_allclose(risk_measure('var').of_gaussian(3.0, 2.0, below), stats.norm.ppf(below, 3.0, 2.0))
    assert risk_measure('var').of_gaussian(0.0, 1.0, 1.0) == pytest.approx(stats.norm.ppf(0.99))


@pytest.mark.parametrize('alpha', [0.05, 0.3, 1.0])
def test_wang_of_a_gaussian_is_the_integral_of_its_distorted_quantile_function(alpha):
    # Wang (2000): the value is E[F⁻¹(Phi(Z - lambda))], Z standard normal; lambda = 0 is risk-neutral.
    shift = -stats.norm.ppf(alpha / 2.0)
    z, dz = np.linspace(-7.0, 7.0, 20_001, retstep=True)
    integral = np.sum(stats.norm.ppf(stats.norm.cdf(z - shift), 3.0, 2.0) * stats.norm.pdf(z)) * dz
    assert risk_measure('wang').of_gaussian(3.0, 2.0, alpha) == pytest.approx(integral, abs=1e-6)


def test_mean_std_takes_its_k_from_the_name():
    assert risk_measure('mean_std').of_gaussian(3.0, 2.0, 0.1) == 1.0
    assert risk_measure('mean_std:0.5').of_gaussian(3.0, 2.0, 0.9) == 2.0
    np.testing.assert_array_equal(risk_measure('mean_std:0.5').coefficient([0.1, 1.0]), [0.5, 0.5])


# quantile critics

def test_quantile_levels_split_the_dial_at_alpha():
    np.testing.assert_allclose(quantile_edges(0.2, 2), [0.0, 0.05, 0.2, 0.6, 1.0])
    np.testing.assert_allclose(quantile_levels(0.2, 2), [0.025, 0.125, 0.4, 0.8])
    np.testing.assert_allclose(quantile_probabilities(0.2, 2), [0.05, 0.15, 0.4, 0.4])
    assert quantile_levels(ALPHAS, 32).shape == (7, 64)
    np.testing.assert_allclose(quantile_probabilities(ALPHAS, 32).sum(axis=-1), 1.0)


@pytest.mark.parametrize('alpha', ALPHAS)
def test_quantile_cvar_is_the_mean_of_the_tail_outputs(alpha):
    weights = risk_measure('cvar').quantile_weights(alpha, 32)
    np.testing.assert_allclose(weights[:32], quantile_probabilities(alpha, 32)[:32] / alpha, rtol=1e-9)
    np.testing.assert_allclose(weights[32:], 0.0, atol=1e-15)


@pytest.mark.parametrize('alpha', ALPHAS)
def test_quantile_cvar_agrees_with_the_empirical_one_where_a_gaussian_does_not(alpha):
    # +30 with 99%, -50 with 1%: no Gaussian has this tail.
    rng = np.random.default_rng(3)
    returns = np.where(rng.random(200_000) < 0.01, -50.0, 30.0) + rng.standard_normal(200_000)
    values = np.quantile(returns, quantile_levels(alpha, 32))
    half_a_slice = 0.5 * (1.0 - (31.0 / 32.0) ** 2)     # of the widest: where the step of 80 may hide
    assert risk_measure('cvar').of_quantiles(values, alpha) == pytest.approx(empirical_cvar(returns, alpha),
                                                                             abs=80.0 * half_a_slice)
    if alpha == 0.01:
        gaussian = risk_measure('cvar').of_gaussian(returns.mean(), returns.std(), alpha)
        assert gaussian - empirical_cvar(returns, alpha) > 50.0


@pytest.mark.parametrize('name', ['cvar', 'var', 'wang', 'mean_std:0.7'])
@pytest.mark.parametrize('alpha', [0.1, 0.5, 1.0])
def test_quantiles_of_a_gaussian_give_the_gaussian_formula(name, alpha):
    count = 40_000
    levels = np.minimum(quantile_levels(alpha, count), 1.0 - 1e-9)   # at alpha = 1 the upper half has no probability
    values = stats.norm.ppf(levels, 3.0, 2.0)
    measure = risk_measure(name)
    assert measure.of_quantiles(values, alpha) == pytest.approx(measure.of_gaussian(3.0, 2.0, alpha), abs=0.02)


@pytest.mark.parametrize('name', ['cvar', 'var', 'wang', 'mean_std'])
def test_quantile_weights_are_a_probability_for_each_alpha(name):
    weights = risk_measure(name).quantile_weights(ALPHAS, 7)
    assert weights.shape == (7, 14)
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)


def test_one_alpha_for_all_rows_or_one_for_each():
    values = np.random.default_rng(0).standard_normal((3, 8))
    alphas = np.array([0.1, 0.5, 1.0])
    for name in ('cvar', 'var', 'wang', 'mean_std'):
        measure = risk_measure(name)
        by_row = [measure.of_quantiles(row, alpha) for row, alpha in zip(values, alphas, strict=True)]
        np.testing.assert_allclose(measure.of_quantiles(values, alphas), by_row)
        np.testing.assert_allclose(measure.of_quantiles(values, 0.1)[0], by_row[0])


def test_mean_and_std_of_weighted_quantiles_by_hand():
    # alpha = 0.5: atoms of 1/8, 3/8, 1/4, 1/4, whose mean is 3.25 and mean square 14.5
    mean, std = quantile_mean_std([0.0, 2.0, 4.0, 6.0], 0.5)
    assert mean == pytest.approx(3.25)
    assert std == pytest.approx(math.sqrt(14.5 - 3.25 ** 2))
    # alpha = 0.1: the tail's two atoms weigh 0.025 and 0.075
    mean, _ = quantile_mean_std([-50.0, -10.0, 30.0, 30.0], 0.1)
    assert mean == pytest.approx(0.025 * -50.0 + 0.075 * -10.0 + 0.9 * 30.0)


# samples

def test_empirical_cvar_counts_the_edge_sample_in_part():
    returns = [4.0, 1.0, 3.0, 2.0]
    assert empirical_cvar(returns, 0.25) == 1.0
    assert empirical_cvar(returns, 0.5) == 1.5
    assert empirical_cvar(returns, 0.375) == pytest.approx((1.0 + 0.5 * 2.0) / 1.5)
    assert empirical_cvar(returns, 0.01) == 1.0
    assert empirical_cvar(returns, 1.0) == 2.5


def test_levels_above_one_look_at_all_futures_and_move_the_cap():
    levels = [0.01, 1.0, math.sqrt(2.0), 2.0]
    assert tail_share(levels) == pytest.approx([0.01, 1.0, 1.0, 1.0])
    assert return_cap(levels, 10.0, 40.0) == pytest.approx([10.0, 10.0, 20.0, 40.0])


def test_cvar_is_known_by_the_mean_of_returns_capped_at_their_own_quantile(normal_samples):
    for alpha in (0.1, 0.3):
        q = np.quantile(normal_samples, alpha)
        capped = np.minimum(normal_samples, q).mean()
        assert (capped - (1.0 - alpha) * q) / alpha == pytest.approx(empirical_cvar(normal_samples, alpha), abs=1e-4)


def test_empirical_cvar_works_row_by_row():
    np.testing.assert_allclose(empirical_cvar([[3.0, 1.0], [5.0, 9.0]], 0.5), [1.0, 5.0])


# bad input

@pytest.mark.parametrize('alpha', [0.0, -0.1, 1.0001, np.nan, [0.5, 2.0]])
def test_alpha_outside_the_dial_is_refused(alpha):
    for name in RISK_MEASURES:
        with pytest.raises(ValueError, match=r'not a risk level: choose 0 < alpha <= 1'):
            risk_measure(name).coefficient(alpha)
    with pytest.raises(ValueError, match='not a risk level'):
        risk_measure('cvar').quantile_weights(alpha, 4)


def test_an_unknown_measure_names_the_choices():
    with pytest.raises(ValueError, match=r"unknown risk measure 'cvr': choose one of cvar, paper, var, wang, mean_std"):
        risk_measure('cvr')


@pytest.mark.parametrize('name', ['mean_std:', 'cvar:2', 'wang:0.5'])
def test_a_parameter_where_none_belongs_is_unknown(name):
    with pytest.raises(ValueError, match='unknown risk measure'):
        risk_measure(name)


@pytest.mark.parametrize('name', ['mean_std:x', 'mean_std:-1', 'mean_std:nan', 'mean_std:inf'])
def test_mean_std_refuses_a_k_that_is_not_one(name):
    with pytest.raises(ValueError, match='k must be a number >= 0'):
        risk_measure(name)


def test_the_printed_formula_has_no_meaning_for_quantiles():
    with pytest.raises(ValueError, match="'paper' is a Gaussian formula: with a quantile critic use `cvar`"):
        risk_measure('paper').quantile_weights(0.1, 32)


@pytest.mark.parametrize('values', [1.0, [], [1.0, 2.0, 3.0]])
def test_quantile_values_must_come_in_two_halves(values):
    with pytest.raises(ValueError, match=r'2\*count'):
        risk_measure('cvar').of_quantiles(values, 0.5)


def test_empirical_cvar_of_nothing_is_refused():
    with pytest.raises(ValueError, match='at least one'):
        empirical_cvar([], 0.5)


def test_importing_risk_imports_numpy_alone():
    code = ("import sys, wcpg_ros.risk; heavy = {'torch', 'numba', 'scipy'} & set(sys.modules); "
            'assert not heavy, heavy')
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)
