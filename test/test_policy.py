"""The policy at the wheel: right numbers, the same bits in any batch, and clear refusals."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from random_models import plain_network, random_model, random_observations

from wcpg_ros.policy import Policy
from wcpg_ros.risk import VARIANCE_FLOOR


@pytest.fixture(scope='module')
def model():
    return random_model()


@pytest.fixture(scope='module')
def policy(model):
    return Policy(model)


# the actor

def test_act_is_the_papers_network(model, policy):
    observations = random_observations(50)
    for alpha in (0.01, 0.3, 1.0):
        expected = [plain_network(model, 'actor', row, alpha) for row in observations]
        np.testing.assert_allclose(policy.act(observations, alpha), expected, atol=2e-5)
    assert np.ptp(expected) > 1.0


def test_act_and_risk_agree_with_torch(model, policy):
    torch = pytest.importorskip('torch')
    t = {name: torch.from_numpy(np.array(tensor)) for name, tensor in model.tensors.items()}

    def layer(name, *inputs):
        return torch.nn.functional.linear(torch.cat(inputs, -1), t[f'{name}.weight'], t[f'{name}.bias'])

    observations, alpha = torch.from_numpy(random_observations(64)), torch.linspace(0.01, 1.0, 64)[:, None]
    x = ((observations - t['normaliser.mean']) / t['normaliser.std']).clamp(-5.0, 5.0)
    h1, h2 = layer('actor.h1', x).relu(), layer('actor.h2', alpha).relu()
    action = 4.0 * layer('actor.out', layer('actor.h3', h1, h2).relu()).tanh()
    alphas = alpha[:, 0].numpy()
    np.testing.assert_allclose(policy.act(observations.numpy(), alphas), action[:, 0], atol=2e-5)
    h1, h2 = layer('critic.h1', x).relu(), layer('critic.h2', alpha).relu()
    h4 = layer('critic.h4', layer('critic.h3', h1, h2, action / 4.0).relu()).relu()
    mean, logit = layer('critic.out', h4).T
    risk = policy.risk(observations.numpy(), action[:, 0].numpy(), alphas)
    np.testing.assert_allclose(risk.mean, mean, atol=2e-5)
    np.testing.assert_allclose(risk.std, torch.sqrt(torch.nn.functional.softplus(logit) + VARIANCE_FLOOR), rtol=1e-5)


def test_one_observation_gives_a_float_and_a_batch_an_array(policy):
    observations = random_observations(3)
    assert type(policy.act(observations[0], 0.1)) is float
    assert policy.act(observations, 0.1).shape == (3,)
    assert policy.act(observations, 0.1).dtype == np.float32
    assert policy.act(observations[:0], 0.1).shape == (0,)
    assert policy.act(observations[0].tolist(), 0.1) == policy.act(observations[0], np.float64(0.1))


@pytest.mark.parametrize('bound', [4.0, 4.1, 0.1, 7.3])
def test_no_action_exceeds_the_bound(bound):
    model = random_model(action_bound=bound)
    for sign in (100.0, -100.0):
        tensors = {**model.tensors, 'actor.out.bias': np.array([sign], np.float32)}
        actions = Policy(type(model)(model.info, tensors)).act(random_observations(9), 0.5)
        assert (np.abs(actions.astype(np.float64)) <= bound).all()
        np.testing.assert_allclose(actions, np.sign(sign) * bound, rtol=1e-6)


def test_the_dial_changes_the_action(policy):
    observation = random_observations(1)[0]
    assert len({policy.act(observation, alpha) for alpha in (0.01, 0.1, 0.5, 1.0)}) == 4


# the same bits

WIDTHS = [
    ({'h1': 32, 'h2': 16, 'h3': 32, 'out': 1}, 3, False),
    ({'h1': 32, 'h2': 16, 'h3': 32, 'out': 1}, 3, True),
    ({'h1': 31, 'h2': 7, 'h3': 33, 'out': 1}, 4, True),
    ({'h1': 1, 'h2': 1, 'h3': 2, 'out': 1}, 1, False),
    ({'h1': 129, 'h2': 65, 'h3': 130, 'out': 1}, 8, False),
]


def any_policy(widths, vehicles, time):
    size = 4 + 4 * vehicles + time
    return Policy(random_model(observation_size=size, vehicles=vehicles, time_feature=time, actor_widths=widths))


@pytest.mark.parametrize(('widths', 'vehicles', 'time'), WIDTHS)
def test_a_row_is_bit_equal_alone_and_in_any_batch(widths, vehicles, time):
    policy = any_policy(widths, vehicles, time)
    observations = random_observations(300, policy.info.observation_size)
    alphas = np.random.default_rng(1).uniform(0.01, 1.0, 300)
    alone = np.array([policy.act(row, float(alpha)) for row, alpha in zip(observations, alphas, strict=True)])
    rng = np.random.default_rng(2)
    for count in [*range(1, 40), 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300]:
        first = int(rng.integers(0, 301 - count))
        part = slice(first, first + count)
        np.testing.assert_array_equal(policy.act(observations[part], alphas[part]), alone[part])
        order = rng.permutation(300)[:count]
        np.testing.assert_array_equal(policy.act(observations[order], alphas[order]), alone[order])


def memory_layouts(rows):
    """The same numbers, laid out in memory in every way a caller may come up with."""
    count, size = rows.shape
    yield np.asfortranarray(rows)
    yield rows.astype(np.float64)
    yield rows.astype('>f4')
    wide = np.zeros((2 * count, 3 * size), np.float32)
    wide[::2, ::3] = rows
    yield wide[::2, ::3]
    yield rows[::-1, ::-1].copy()[::-1, ::-1]
    for offset in range(1, 17):
        buffer = np.zeros(rows.nbytes + 64, np.uint8)[offset:offset + rows.nbytes]
        shifted = buffer.view(np.float32) if buffer.ctypes.data % 4 == 0 else np.frombuffer(buffer, np.float32)
        shifted = shifted.reshape(rows.shape)
        shifted[...] = rows
        yield shifted


@pytest.mark.parametrize(('widths', 'vehicles', 'time'), WIDTHS)
def test_memory_layout_and_alignment_do_not_matter(widths, vehicles, time):
    policy = any_policy(widths, vehicles, time)
    rows = random_observations(37, policy.info.observation_size)
    expected = policy.act(rows, 0.2)
    for layout in memory_layouts(rows):
        np.testing.assert_array_equal(policy.act(layout, 0.2), expected)
        for index in (0, 17, 36):
            assert policy.act(layout[index], 0.2) == expected[index]


def test_one_alpha_for_all_equals_the_same_alpha_for_each(policy):
    observations = random_observations(41)
    np.testing.assert_array_equal(policy.act(observations, 0.37), policy.act(observations, np.full(41, 0.37)))


def test_a_resting_dial_equals_a_moving_one(policy):
    rows = random_observations(20)
    moving = [[policy.act(row, alpha) for alpha in (0.1, 0.9)] for row in rows]
    resting = [[policy.act(row, alpha) for row in rows] for alpha in (0.1, 0.9)]
    np.testing.assert_array_equal(np.array(moving).T, resting)


def test_another_process_gives_the_same_bits(policy, model, tmp_path):
    model.save(tmp_path / 'model.safetensors')
    rows = random_observations(64)
    np.save(tmp_path / 'rows.npy', rows)
    code = ("import numpy as np; from wcpg_ros.policy import Policy; policy = Policy.load('model.safetensors'); "
            "print(np.array([policy.act(row, 0.1) for row in np.load('rows.npy')], np.float32).tobytes().hex())")
    printed = subprocess.check_output([sys.executable, '-c', code], cwd=tmp_path, text=True, timeout=60)
    assert printed.strip() == policy.act(rows, 0.1).tobytes().hex()


@pytest.mark.parametrize('critic', ['gaussian', 'quantile', 'categorical'])
def test_risk_too_is_bit_equal_in_any_batch(critic):
    policy = Policy(random_model(critic=critic, twin=True))
    rows = random_observations(70)
    alphas, actions = np.random.default_rng(4).uniform(0.01, 1.0, (2, 70))
    alone = [policy.risk(*values) for values in zip(rows, actions, alphas, strict=True)]
    for count in (1, 2, 7, 33, 70):
        together = policy.risk(rows[:count], actions[:count], alphas[:count])
        for name in ('mean', 'std', 'cvar'):
            np.testing.assert_array_equal(getattr(together, name), [getattr(risk, name) for risk in alone[:count]])


def test_a_pickled_policy_drives_the_same(policy):
    rows = random_observations(5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(policy)).act(rows, 0.1), policy.act(rows, 0.1))


# refusals

@pytest.mark.parametrize('shape', [(), (15,), (17,), (3, 15), (2, 3, 16), (16, 1)])
def test_observations_of_another_shape(policy, shape):
    with pytest.raises(ValueError, match=r'observation of shape .*: this policy reads \[16\] or \[n, 16\]'):
        policy.act(np.zeros(shape), 0.1)


@pytest.mark.filterwarnings('ignore:overflow')
@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf, 1e39])
def test_observations_that_are_not_finite(policy, bad):
    rows = random_observations(3).astype(np.float64)
    rows[2, 5] = bad
    with pytest.raises(ValueError, match=r'observation\[2, 5\] is -?(nan|inf): every number must be finite'):
        policy.act(rows, 0.1)
    with pytest.raises(ValueError, match=r'observation\[5\] is'):
        policy.risk(rows[2], 0.0, 0.1)


@pytest.mark.filterwarnings('ignore:overflow')
def test_huge_but_finite_observations_are_cut_like_any_other(policy):
    observation = np.full(16, 3e38)
    assert policy.act(observation, 0.1) == policy.act(np.full(16, 1e6), 0.1)


@pytest.mark.parametrize('alpha', [0.0, 0.0099, 1.01, -1.0, np.nan])
def test_alphas_the_policy_was_not_trained_for(policy, alpha):
    row = random_observations(1)[0]
    with pytest.raises(ValueError, match=r'alpha = .*: the dial of this policy goes from 0.01 to 1'):
        policy.act(row, alpha)
    with pytest.raises(ValueError, match='goes from'):
        policy.act(row[None], [alpha])
    with pytest.raises(ValueError, match='goes from'):
        policy.risk(row, 0.0, alpha)


def test_the_ends_of_the_dial_are_inside_it_in_any_precision(policy):
    row = random_observations(1)[0]
    for end in (0.01, 1.0):
        assert policy.act(row, np.float32(end)) == policy.act(row, end) == policy.act(row[None], [end])[0]
        assert policy.risk(row, 0.0, np.float32(end)) == policy.risk(row, 0.0, end)


def test_alphas_of_another_shape(policy):
    rows = random_observations(3)
    with pytest.raises(ValueError, match=r'alpha of shape \(2,\): give one number or \[3\]'):
        policy.act(rows, [0.1, 0.2])
    with pytest.raises(ValueError, match=r'alpha of shape \(1,\): give one number$'):
        policy.act(rows[0], [0.1])


@pytest.mark.parametrize('action', [4.001, -9.0, np.nan, np.inf])
def test_actions_the_critic_does_not_know(policy, action):
    with pytest.raises(ValueError, match=r'action = .*: the critic knows ±4 m/s²'):
        policy.risk(random_observations(1)[0], action, 0.1)


def test_actions_of_another_shape(policy):
    with pytest.raises(ValueError, match=r'action of shape \(2,\): give one number or \[3\]'):
        policy.risk(random_observations(3), [0.0, 0.0], 0.1)


def test_importing_the_policy_imports_no_learner():
    code = ("import sys, wcpg_ros.policy; heavy = {'torch', 'numba', 'scipy', 'onnx'} & set(sys.modules); "
            'assert not heavy, heavy')
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)
