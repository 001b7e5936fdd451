"""Intervals and tests against numbers known by hand or from the literature."""

import numpy as np
import pytest

from wcpg_ros.resampling import bootstrap_cvars
from wcpg_ros.results.intervals import (
    bootstrap_mean,
    clopper_pearson,
    difference,
    holm,
    mcnemar_exact,
    paired_difference,
    wilson,
)
from wcpg_ros.risk import empirical_cvar


def test_nothing_in_a_hundred_is_below_three_point_six_percent() -> None:
    """1 - (0.05 / 2) ** (1 / 100) = 0.0362, and Wilson's z² / (n + z²) = 0.0370."""
    assert clopper_pearson(0, 100) == pytest.approx((0.0, 0.0, 1 - 0.025 ** 0.01))
    assert wilson(0, 100) == pytest.approx((0.0, 0.0, 1.96 ** 2 / (100 + 1.96 ** 2)), abs=1e-5)


def test_wilson_of_ten_in_a_hundred_by_hand() -> None:
    """(p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)."""
    z, n, p = 1.959964, 100, 0.1
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = (p, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n))
    assert wilson(10, 100) == pytest.approx(expected, abs=1e-6)


def test_bootstrap_of_a_mean_is_near_the_normal_interval_and_repeats_itself() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 1000)
    interval = bootstrap_mean(values)
    half = 1.96 * values.std() / np.sqrt(1000)
    assert interval == pytest.approx((values.mean(), values.mean() - half, values.mean() + half), abs=0.02)
    assert bootstrap_mean(values) == interval
    assert np.isnan(bootstrap_mean(values[:0])).all()


def test_resampled_cvars_are_those_of_the_resampled_returns() -> None:
    rng = np.random.default_rng(0)
    returns, alphas = rng.normal(size=(2, 50)), (0.02, 0.3, 1.0)
    values, drawn = bootstrap_cvars(returns, alphas, resamples=3, seed=4)
    again = np.random.default_rng(4)
    for k in range(3):
        pick = again.integers(0, 50, 50)
        for i in range(2):
            assert drawn[k, i] == pytest.approx([empirical_cvar(returns[i][pick], alpha) for alpha in alphas])
    for i in range(2):
        assert values[i] == pytest.approx([empirical_cvar(returns[i], alpha) for alpha in alphas])


def test_p_value_of_a_difference_that_is_none_and_of_one_that_is_plain() -> None:
    assert difference(0.0, np.linspace(-1.0, 1.0, 1001))[1] == pytest.approx(1.0)
    interval, p = difference(5.0, np.linspace(4.0, 6.0, 999))
    assert p == pytest.approx(2 / 1000)
    assert interval == pytest.approx((5.0, 4.05, 5.95), abs=1e-3)


def test_pairing_sees_a_small_difference_under_a_large_spread() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(0.0, 10.0, 400)
    interval, p = paired_difference(common + 0.1 + rng.normal(0.0, 0.1, 400), common)
    assert 0.05 < interval.low < interval.high < 0.15
    assert p < 0.01


def test_mcnemar_counts_only_the_episodes_that_differ() -> None:
    """9 against 1 of those that differ: 2 * (C(10,0) + C(10,1)) / 2**10."""
    first = np.array([True] * 9 + [False] + [True] * 90 + [False] * 900)
    second = np.array([False] * 9 + [True] + [True] * 90 + [False] * 900)
    assert mcnemar_exact(first, second) == pytest.approx(22 / 1024)
    assert mcnemar_exact(first, first) == 1.0


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
