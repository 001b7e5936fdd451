"""The critics' equations against numbers."""

import numpy as np
import pytest
from scipy import integrate, stats

from sim_node.settings import SettingsError
from wcpg_ros.critics import (
    GaussianHead,
    QuantileHead,
    mean_target,
    quantile_huber,
    variance_loss,
    variance_target_paper,
    variance_target_td_error,
    wasserstein,
)
from wcpg_ros.risk import empirical_cvar, quantile_levels, quantile_mean_std
from wcpg_ros.settings import CriticSettings

TARGETS = [variance_target_paper, variance_target_td_error]

# A chain: (probability, reward, next state) per state; None ends the episode.
CHAIN = [
    [(0.5, 1.0, 1), (0.3, -2.0, 2), (0.2, 4.0, None)],
    [(0.6, 0.0, 0), (0.4, 3.0, 2)],
    [(0.9, 10.0, None), (0.1, -50.0, None)],
]
GAMMA = 0.9


def fixed_point(target) -> tuple[np.ndarray, np.ndarray]:
    """Iterate the expected targets, terminals masked, until nothing moves."""
    mean, variance = np.zeros(3), np.zeros(3)
    for _ in range(500):
        new_mean, new_variance = np.zeros(3), np.zeros(3)
        for s, row in enumerate(CHAIN):
            for probability, reward, following in row:
                # What a network says about the state after a terminal is arbitrary; the mask must remove it.
                q, y, bootstrap = 99.0, 99.0, 0.0
                if following is not None:
                    q, y, bootstrap = mean[following], variance[following], GAMMA
                new_mean[s] += probability * mean_target(reward, bootstrap, q)
                new_variance[s] += probability * target(reward, bootstrap, q, y, mean[s])
        mean, variance = new_mean, new_variance
    return mean, variance


def simulate(start: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(start)
    total, discount, state = np.zeros(count), np.ones(count), np.full(count, start)
    while (state >= 0).any():
        new_state = np.full(count, -1)
        for s, row in enumerate(CHAIN):
            here = np.flatnonzero(state == s)
            choice = rng.choice(len(row), here.size, p=[p for p, _, _ in row])
            total[here] += discount[here] * np.array([r for _, r, _ in row])[choice]
            new_state[here] = np.array([-1 if n is None else n for _, _, n in row])[choice]
        state, discount = new_state, discount * GAMMA
    return total


@pytest.mark.parametrize('target', TARGETS)
def test_eq6_fixed_point_is_the_variance_of_simulated_returns(target) -> None:
    mean, variance = fixed_point(target)
    for start in range(3):
        returns = simulate(start, 2_000_000)
        assert mean[start] == pytest.approx(returns.mean(), abs=0.1)
        assert variance[start] == pytest.approx(returns.var(), rel=0.01)


@pytest.mark.parametrize('target', TARGETS)
def test_eq6_on_a_two_step_chain_by_hand(target) -> None:
    """Step 1 pays 2; step 2 pays +30 or -50 with equal chance and ends. gamma = 0.5.

    Step 2: Q = -10, Y = 40² = 1600. Step 1: Q = 2 - 5 = -3, Y = 0.25 * 1600 = 400.
    """
    last = 0.5 * target(30.0, 0.0, 7.0, 7.0, -10.0) + 0.5 * target(-50.0, 0.0, 7.0, 7.0, -10.0)
    assert last == pytest.approx(1600.0)
    assert target(2.0, 0.5, -10.0, last, -3.0) == pytest.approx(400.0)


def test_one_sample_of_eq6_can_be_negative_and_the_td_form_cannot() -> None:
    assert variance_target_paper(1.0, 0.0, 0.0, 0.0, 5.0) == -24.0
    assert variance_target_td_error(1.0, 0.0, 0.0, 0.0, 5.0) == 16.0


@pytest.mark.parametrize(('m1', 's1', 'm2', 's2'), [(0, 1, 0, 1), (3, 2, -1, 0.5), (-4, 0.1, 10, 8)])
def test_wasserstein_equals_numerical_integration(m1: float, s1: float, m2: float, s2: float) -> None:
    """Eq. 7 with p = 2, integrated over levels, is the square root of Eq. 8."""
    def difference(u: float) -> float:
        return (stats.norm.ppf(u, m1, s1) - stats.norm.ppf(u, m2, s2)) ** 2
    integral, _ = integrate.quad(difference, 0.0, 1.0, limit=200)
    assert wasserstein(m1, s1, m2, s2) == pytest.approx(integral, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize('code', [0, 1, 2])
def test_variance_loss_derivative_equals_finite_differences(code: int) -> None:
    for variance, target in ((0.5, 3.0), (4.0, 0.25), (2.0, 2.0)):
        up, down = (variance_loss(code, variance + h, target)[0] for h in (1e-6, -1e-6))
        assert variance_loss(code, variance, target)[1] == pytest.approx((up - down) / 2e-6, abs=1e-5)


def test_wasserstein_clamps_a_negative_target() -> None:
    assert variance_loss(0, 4.0, -3.0) == variance_loss(0, 4.0, 0.0) == (4.0, 1.0)


def test_quantile_huber_by_hand() -> None:
    f = np.float32
    # Inside the round bottom: 0.25 * 0.5² / 2 / 2; outside, from below: 0.75 * (3 - 1).
    assert quantile_huber(f(0.5), f(0.25), f(2.0))[0] == pytest.approx(0.25 * 0.125 / 2.0)
    assert quantile_huber(f(-3.0), f(0.25), f(2.0)) == pytest.approx((0.75 * 2.0, -0.75))


@pytest.mark.parametrize('alpha', [0.02, 0.1, 0.6])
def test_quantile_loss_is_least_at_the_quantiles_and_their_mean_is_cvar(alpha: float) -> None:
    """On samples of a skewed return: the loss falls towards the empirical quantiles from both sides."""
    rng = np.random.default_rng(0)
    returns = (-rng.exponential(5.0, 8192)).astype(np.float32)
    zero = np.zeros_like(returns)
    count = 32
    head = QuantileHead(count, 0.01, 'cvar', (-100.0, 100.0))
    head.prepare(np.full(returns.size, alpha, np.float32))
    quantiles = np.quantile(returns, quantile_levels(alpha, count))
    slopes = {}
    for offset in (-2.0, 0.0, 2.0):
        z = np.repeat((quantiles + offset).astype(np.float32)[:, None], returns.size, axis=1)
        gradient = np.zeros_like(z)
        head.loss(z, z, returns, zero, gradient)
        slopes[offset] = 2 * count * gradient.sum(axis=1)
    assert (slopes[-2.0] < 0.0).all()
    assert (slopes[2.0] > 0.0).all()
    np.testing.assert_allclose(slopes[0.0], 0.0, atol=0.02)
    z = np.repeat(quantiles.astype(np.float32)[:, None], returns.size, axis=1)
    value = np.zeros(returns.size, np.float32)
    head.risk(z, value, np.zeros_like(z))
    assert value[0] == pytest.approx(empirical_cvar(returns, alpha), rel=0.01)


def same_for_all(outputs: list[float], count: int) -> np.ndarray:
    return np.repeat(np.array(outputs, np.float32)[:, None], count, axis=1)


@pytest.mark.parametrize('alpha', [0.01, 0.3, 1.0])
def test_a_share_alpha_of_what_the_quantiles_lack_of_the_mean_is_added(alpha: float) -> None:
    """Quantiles -2, 4, 4 | 4, 4, 4 and a mean of 1: the more of the return is looked at, the more the mean counts."""
    head = QuantileHead(3, 1.0, 'cvar', (-10.0, 10.0), mean=True)
    head.prepare(np.array([alpha], np.float32))
    out = np.array([[-2.0], [4.0], [4.0], [4.0], [4.0], [4.0], [1.0]], np.float32)
    value, gradient = np.zeros(1, np.float32), np.zeros_like(out)
    head.risk(out, value, gradient)
    # The slices of [0, alpha] end at 1/9, 4/9 and 9/9 of it.
    tail, quantile_mean = 4.0 - 6.0 / 9.0, 4.0 - 6.0 / 9.0 * alpha
    assert value[0] == pytest.approx(tail + alpha * (1.0 - quantile_mean), rel=1e-6)
    assert gradient[-1, 0] == pytest.approx(alpha)
    assert gradient[0, 0] == pytest.approx((1.0 - alpha * alpha) / 9.0, abs=1e-6)
    assert gradient.sum() == pytest.approx(1.0, abs=1e-6)


def test_the_mean_follows_a_gamble_where_the_quantiles_stay() -> None:
    """A loss that comes with 7.2 or with 8.6%: the same slices are lost, whichever, but the best mean moves."""
    count, size = 32, 100_000
    head = QuantileHead(count, 0.01, 'cvar', (-100.0, 100.0), mean=True)
    head.prepare(np.ones(size, np.float32))
    lost_slices = quantile_levels(1.0, count)[:count] < 0.08
    for chance in (0.072, 0.086):
        returns = np.where(np.arange(size) < chance * size, -50.0, 25.0).astype(np.float32)
        nearly = [*np.where(lost_slices, -49.0, 24.0), *np.full(count, 24.0)]
        z = same_for_all([*nearly, returns.mean(dtype=float)], size)
        gradient = np.zeros_like(z)
        head.loss(z, z, returns, np.zeros_like(returns), gradient)
        slope = gradient.sum(axis=1)
        assert (slope[:count][lost_slices] > 0.0).all()       # on to -50
        assert (slope[:count][~lost_slices] < 0.0).all()      # on to 25
        assert slope[-1] == pytest.approx(0.0, abs=1e-3)


def test_heads_agree_on_moments() -> None:
    out = np.array([[3.0], [2.0]], np.float32)
    mean, std = GaussianHead('paper', 'wasserstein', 'cvar').moments(out, np.ones(1, np.float32))
    assert (mean[0], std[0]) == pytest.approx((3.0, np.sqrt(np.log1p(np.exp(2.0)))), rel=1e-6)
    values, alpha = np.arange(8.0, dtype=np.float32)[:, None], np.array([0.3], np.float32)
    mean, std = QuantileHead(4, 1.0, 'cvar', (-1.0, 1.0)).moments(values, alpha)
    assert (mean[0], std[0]) == pytest.approx([float(x) for x in quantile_mean_std(values[:, 0], 0.3)], rel=1e-6)
    with_mean = np.append(values, [[9.0]], axis=0).astype(np.float32)
    mean, same_std = QuantileHead(4, 1.0, 'cvar', (-1.0, 1.0), mean=True).moments(with_mean, alpha)
    assert (mean[0], same_std[0]) == (9.0, std[0])


@pytest.mark.parametrize(('target', 'loss'), [('td_error', 'wasserstein'), ('paper', 'likelihood')])
def test_pairs_that_cannot_work_are_refused_with_the_reason(target, loss) -> None:
    with pytest.raises(SettingsError, match=f'variance_target: {target} with variance_loss {loss} does not work: '):
        CriticSettings(variance_target=target, variance_loss=loss)
    CriticSettings(kind='quantile', variance_target=target, variance_loss=loss)   # a quantile critic has no variance
