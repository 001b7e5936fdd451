"""What a policy says of its risk: the numbers of every kind of critic, in words of returns."""

from types import SimpleNamespace

import numpy as np
import pytest
from random_models import plain_network, random_model, random_observations
from scipy import stats

from sim_node.settings import SettingsError
from sim_node.state import SUCCESS
from wcpg_ros.controllers import GRID, prepare
from wcpg_ros.policy import Policy
from wcpg_ros.risk import VARIANCE_FLOOR, empirical_cvar, quantile_levels, quantile_probabilities, risk_measure


@pytest.mark.parametrize('measure', ['cvar', 'paper', 'wang', 'mean_std:0.5'])
def test_risk_of_a_gaussian_critic_is_equation_9(measure):
    model = random_model(risk_measure=measure, return_scale=10.0)
    policy = Policy(model)
    cases = zip(random_observations(5), (-4.0, -1.0, 0.0, 2.5, 4.0), (0.02, 0.1, 0.3, 0.6, 1.0), strict=True)
    for row, action, alpha in cases:
        mean, logit = plain_network(model, 'critic', row, alpha, action)
        std = np.sqrt(np.log1p(np.exp(logit)) + VARIANCE_FLOOR)
        risk = policy.risk(row, action, alpha)
        assert risk.mean == pytest.approx(10.0 * mean, abs=2e-4)
        assert risk.std == pytest.approx(10.0 * std, rel=1e-4)
        coefficient = risk_measure(measure).coefficient(alpha)
        assert risk.cvar == pytest.approx(risk.mean - coefficient * risk.std, rel=1e-6)


@pytest.mark.parametrize('logit', [-200.0, 200.0])
def test_extreme_variance_logits_stay_finite(logit):
    model = random_model()
    tensors = {**model.tensors, 'critic.out.bias': np.array([0.0, logit], np.float32)}
    std = Policy(type(model)(model.info, tensors)).risk(random_observations(1)[0], 0.0, 0.1).std
    assert std == pytest.approx(max(VARIANCE_FLOOR, logit) ** 0.5, rel=0.02)


def test_risk_of_a_quantile_critic():
    model = random_model(critic='quantile', return_scale=2.0)
    policy = Policy(model)
    rows, alphas = random_observations(4), [0.02, 0.1, 0.6, 1.0]
    together = policy.risk(rows, 1.5, alphas)
    for index, (row, alpha) in enumerate(zip(rows, alphas, strict=True)):
        values = 2.0 * plain_network(model, 'critic', row, alpha, 1.5)
        probability = quantile_probabilities(alpha, 32)
        mean = np.sum(probability * values)
        assert together.mean[index] == pytest.approx(mean, abs=1e-4)
        assert together.std[index] == pytest.approx(np.sqrt(np.sum(probability * (values - mean) ** 2)), abs=1e-4)
        assert together.cvar[index] == pytest.approx(np.sum(probability[:32] * values[:32]) / alpha, abs=1e-4)


def test_a_critic_with_an_output_for_the_mean_speaks_of_it():
    model, plain = random_model(critic='quantile', mean=True), random_model(critic='quantile')
    for name, tensor in plain.tensors.items():     # the same quantiles
        model.tensors[name][:len(tensor)] = tensor
    rows, alphas = random_observations(4), np.array([0.02, 0.1, 0.6, 1.0])
    with_mean, without = Policy(model).risk(rows, 1.5, alphas), Policy(plain).risk(rows, 1.5, alphas)
    means = [plain_network(model, 'critic', row, alpha, 1.5)[-1] for row, alpha in zip(rows, alphas, strict=True)]
    np.testing.assert_allclose(with_mean.mean, means, atol=1e-4)
    np.testing.assert_array_equal(with_mean.std, without.std)
    np.testing.assert_allclose(with_mean.cvar, without.cvar + alphas * (means - without.mean), atol=1e-4)
    policy = Policy(model)
    np.testing.assert_allclose(policy.tail(rows, 1.5, 0.3, 1.0), policy.risk(rows, 1.5, 0.3).mean, atol=1e-6)
    for share in (0.05, 0.9):
        np.testing.assert_array_equal(Policy(model).quantile(rows, 1.5, 0.3, share),
                                      Policy(plain).quantile(rows, 1.5, 0.3, share))


def test_risk_of_a_categorical_critic():
    model = random_model(critic='categorical', return_scale=2.0)
    policy = Policy(model)
    rows, alphas = random_observations(4), [0.02, 0.1, 0.6, 1.0]
    together = policy.risk(rows, 1.5, alphas)
    for index, (row, alpha) in enumerate(zip(rows, alphas, strict=True)):
        logits = plain_network(model, 'critic', row, alpha, 1.5)
        share = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        atoms = 2.0 * model.tensors['atoms'].astype(float)
        sampled = np.random.default_rng(0).choice(atoms, 2_000_000, p=share / share.sum())
        assert together.mean[index] == pytest.approx(sampled.mean(), abs=0.02)
        assert together.std[index] == pytest.approx(sampled.std(), abs=0.02)
        assert together.cvar[index] == pytest.approx(empirical_cvar(sampled, alpha), abs=0.03)


def test_the_probability_of_a_return_is_the_critics():
    rows, values = random_observations(6), np.linspace(-20.0, 20.0, 6)
    policy = Policy(random_model(return_scale=10.0))
    risk = policy.risk(rows, 0.5, 0.3)
    expected = stats.norm(risk.mean, risk.std).cdf(values)
    np.testing.assert_allclose(policy.probability(rows, 0.5, 0.3, values), expected, atol=1e-6)
    for critic in ('quantile', 'categorical'):
        model = random_model(critic=critic, return_scale=10.0)
        policy = Policy(model)
        assert policy.probability(rows, 0.5, 0.3, -1e3).tolist() == [0.0] * 6
        assert policy.probability(rows, 0.5, 0.3, 1e3) == pytest.approx([1.0] * 6)
    # of a quantile critic: a value between two of its outputs lies between their levels
    model = random_model(critic='quantile', return_scale=10.0)
    outputs = np.sort(10.0 * plain_network(model, 'critic', rows[0], 0.3, 0.5))
    levels = quantile_levels(0.3, 32)
    middle = 0.5 * (outputs[9] + outputs[10])
    found = Policy(model).probability(rows[:1], 0.5, 0.3, middle)[0]
    assert found == pytest.approx(0.5 * (levels[9] + levels[10]), abs=1e-4)


@pytest.mark.parametrize('critic', ['gaussian', 'quantile', 'categorical'])
def test_a_quantile_is_where_the_probability_reaches_its_share(critic):
    policy, rows = Policy(random_model(critic=critic, return_scale=10.0)), random_observations(6)
    for share in (0.05, 0.4, 0.9):
        found = policy.quantile(rows, 0.5, 0.3, share)
        reached = policy.probability(rows, 0.5, 0.3, found)
        if critic == 'categorical':     # it has jumps: no smaller atom reaches the share
            assert np.all(reached >= share - 1e-9)
            assert np.all(policy.probability(rows, 0.5, 0.3, found - 1e-3) < share)
        else:
            np.testing.assert_allclose(reached, share, atol=1e-6)


def test_quantiles_of_no_width_are_not_drawn_from():
    """From level 1 on, half of the outputs stand for nothing."""
    model, rows = random_model(critic='quantile', return_scale=10.0), random_observations(6)
    model.tensors['critic.out.bias'][32:64] += 1000.0
    policy = Policy(model)
    assert (policy.quantile(rows, 0.5, 1.0, 0.999) < 100.0).all()
    assert policy.probability(rows, 0.5, 1.0, 100.0).tolist() == [1.0] * 6
    assert (policy.quantile(rows, 0.5, 0.5, 0.999) > 1000.0).all()


@pytest.mark.parametrize('critic', ['gaussian', 'quantile', 'categorical'])
def test_the_tail_at_the_policys_own_level_is_its_cvar_and_at_one_its_mean(critic):
    policy = Policy(random_model(critic=critic, return_scale=3.0))
    rows = random_observations(5)
    risk = policy.risk(rows, -1.0, 0.4)
    np.testing.assert_allclose(policy.tail(rows, -1.0, 0.4, 1.0), risk.mean, atol=1e-6)
    if critic != 'quantile':     # whose atoms need not be in order
        np.testing.assert_allclose(policy.tail(rows, -1.0, 0.4, 0.4), risk.cvar, atol=1e-6)
    assert (policy.tail(rows, -1.0, 0.4, 0.1) <= policy.tail(rows, -1.0, 0.4, 0.5) + 1e-9).all()


def test_greedy_takes_the_best_tail_of_the_risk_neutral_critic(tmp_path):
    path = tmp_path / 'm.safetensors'
    random_model(scenario='merge').save(path)
    _, controller = prepare('merge', 'train', f'greedy:{path}', 0.05)
    rows = random_observations(8)
    grid = np.linspace(-4.0, 4.0, GRID)
    worth = np.array([[Policy.load(path).tail(row[None], action, 1.0, 0.05)[0] for action in grid] for row in rows])
    scenes = np.zeros(len(rows), [('outcome', np.int64)])
    batch = SimpleNamespace(n=len(rows), scenes=scenes)
    chosen = grid[worth.argmax(axis=1)]
    assert controller.act(batch, rows).tolist() == chosen.tolist()
    scenes['outcome'][0] = SUCCESS
    assert controller.act(batch, rows).tolist() == [0.0, *chosen[1:].tolist()]     # nobody drives there any more
    with pytest.raises(SettingsError, match='is unknown'):
        prepare('merge', 'train', 'greedy:gap:3')


@pytest.mark.parametrize('alpha', [0.01, 0.1, 1.0])
def test_of_two_critics_the_mean_speaks(alpha):
    model = random_model(critic='quantile', twin=True)
    rows = random_observations(60)
    both = Policy(model).risk(rows, 0.5, alpha)
    outputs = np.array([[plain_network(model, name, row, alpha, 0.5) for row in rows]
                        for name in ('critic', 'critic2')])
    cvar = np.array([risk_measure('cvar').of_quantiles(output, np.full(60, alpha)) for output in outputs])
    np.testing.assert_allclose(both.cvar, cvar.mean(axis=0), atol=1e-4)
