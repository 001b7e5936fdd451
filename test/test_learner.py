"""The hand-written update against autograd, finite differences and itself."""

import numpy as np
import pytest
import torch

from sim_node.settings import SettingsError
from wcpg_ros.critics import MEAN_WEIGHT, SMALLEST_LEVEL
from wcpg_ros.learner import Learner, NotFiniteError, draw_alphas
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Replay
from wcpg_ros.risk import VARIANCE_FLOOR, quantile_levels, quantile_probabilities, risk_measure
from wcpg_ros.settings import (
    ActorSettings,
    AlphaSettings,
    CriticSettings,
    LearningSettings,
    NetworksSettings,
    Recipe,
    ValidationSettings,
)

STATE, BATCH = 5, 32
CRITICS = {
    'paper wasserstein': CriticSettings(),
    'paper squared': CriticSettings(variance_loss='squared', return_scale=10.0),
    'td_error squared': CriticSettings(variance_target='td_error', variance_loss='squared'),
    'td_error likelihood': CriticSettings(variance_target='td_error', variance_loss='likelihood'),
    'twin gaussian': CriticSettings(twin=True, caution=0.8),
    'quantile': CriticSettings(kind='quantile', quantiles=4),
    'quantile, narrow range': CriticSettings(kind='quantile', quantiles=4, return_range=(-0.5, 0.5)),
    'quantile and mean': CriticSettings(kind='quantile', quantiles=4, mean=True, return_range=(-5.0, 5.0)),
    'twin quantile and mean': CriticSettings(kind='quantile', quantiles=3, mean=True, twin=True, return_scale=5.0),
    'quantile, plain loss': CriticSettings(kind='quantile', quantiles=3, kappa=0.0),
    'categorical': CriticSettings(kind='categorical', atoms=11, return_range=(-60.0, 60.0), return_scale=10.0),
    'twin categorical': CriticSettings(kind='categorical', atoms=7, return_range=(-60.0, 60.0), twin=True),
    'twin quantile': CriticSettings(kind='quantile', quantiles=4, twin=True, return_scale=5.0),
}


def filled_replay(seed: int = 0, size: int = 500) -> Replay:
    rng = np.random.default_rng(seed)
    replay = Replay(1000, STATE)
    done = rng.random(size) < 0.3
    replay.add(rng.standard_normal((size, STATE)), rng.standard_normal((size, STATE)),
               action=rng.uniform(-4.0, 4.0, size), reward=3.0 * rng.standard_normal(size),
               discount=np.full(size, 0.96), done=done, alpha=rng.uniform(0.01, 1.0, size), outcome=done)
    return replay


def make_learner(critic: CriticSettings, seed: int = 1, **actor: float | str) -> Learner:
    recipe = Recipe(NetworksSettings(actor_hidden=(7, 6, 6), critic_hidden=(8, 8, 9, 7)), critic,
                    ActorSettings(**actor), learning=LearningSettings(batch=BATCH))   # type: ignore[arg-type]
    learner = Learner(recipe, STATE, 4.0, np.random.default_rng(seed))
    # Biases and targets off their zeros, so that a gradient which forgets one cannot pass.
    noise = np.random.default_rng(seed + 1)
    learner.values += 0.3 * noise.standard_normal(learner.values.size).astype(np.float32)
    learner.targets += 0.3 * noise.standard_normal(learner.values.size).astype(np.float32)
    return learner


class Reference:
    """The same losses in torch, for autograd to differentiate, in float64."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.recipe = learner.recipe
        self.batch = {k: torch.tensor(v, dtype=torch.float64) for k, v in learner.batch._asdict().items()}
        self.online = self._tensors(learner.values, True)
        self.target = self._tensors(learner.targets, False)

    def _tensors(self, flat: np.ndarray, learn: bool) -> dict[str, torch.Tensor]:
        return {name: torch.tensor(view, dtype=torch.float64, requires_grad=learn)
                for name, view in self.learner.parameters(flat).items()}

    @staticmethod
    def _layer(p: dict[str, torch.Tensor], name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ p[f'{name}.weight'].T + p[f'{name}.bias']

    def pre_tanh(self, p: dict[str, torch.Tensor], state: torch.Tensor) -> torch.Tensor:
        h1 = torch.relu(self._layer(p, 'actor.h1', state.T))
        h2 = torch.relu(self._layer(p, 'actor.h2', self.batch['alpha'][:, None]))
        h3 = torch.relu(self._layer(p, 'actor.h3', torch.cat([h1, h2], 1)))
        return self._layer(p, 'actor.out', h3)[:, 0]

    def critic(self, p: dict[str, torch.Tensor], name: str, state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        h1 = torch.relu(self._layer(p, f'{name}.h1', state.T))
        h2 = torch.relu(self._layer(p, f'{name}.h2', self.batch['alpha'][:, None]))
        h3 = torch.relu(self._layer(p, f'{name}.h3', torch.cat([h1, h2, action[:, None]], 1)))
        return self._layer(p, f'{name}.out', torch.relu(self._layer(p, f'{name}.h4', h3)))

    def risk(self, out: torch.Tensor) -> torch.Tensor:
        measure, alpha = risk_measure(self.recipe.actor.risk), self.learner.batch.alpha
        if self.recipe.critic.kind == 'gaussian':
            std = torch.sqrt(torch.nn.functional.softplus(out[:, 1]) + VARIANCE_FLOOR)
            return out[:, 0] - torch.tensor(measure.coefficient(alpha)) * std
        if self.recipe.critic.kind == 'categorical':
            share, level = out.softmax(1), self.batch['alpha'][:, None]
            counted = torch.minimum((level - (share.cumsum(1) - share)).clamp(min=0), share)
            return (counted * self.atoms()).sum(1) / level[:, 0]
        count = self.recipe.critic.quantiles
        quantiles, weight = out[:, :2 * count], torch.tensor(quantile_probabilities(alpha, count))
        value = (torch.tensor(measure.quantile_weights(alpha, count)) * quantiles).sum(1)
        mean = (weight * quantiles).sum(1)
        if self.recipe.critic.mean:
            value = value + self.batch['alpha'] * (out[:, -1] - mean)
        variance = (weight * (quantiles - mean[:, None]) ** 2).sum(1)
        return value - measure.std_weight * torch.sqrt(variance) if measure.std_weight else value

    def atoms(self) -> torch.Tensor:
        s = self.recipe.critic
        return torch.linspace(*s.return_range, s.atoms, dtype=torch.float64) / s.return_scale

    def critics(self) -> list[str]:
        return ['critic', 'critic2'] if self.recipe.critic.twin else ['critic']

    def agreed(self, outs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The risk value and the outputs that stand for all critics."""
        risks, caution = torch.stack([self.risk(out) for out in outs]), self.recipe.critic.caution
        worse = caution + (0.5 - caution) * self.batch['alpha']
        order = risks.argsort(0)
        if len(outs) == 1:
            worse = torch.ones_like(worse)
        share = torch.stack([torch.where(order[0] == k, worse, 1.0 - worse) for k in range(len(outs))])
        return (share * risks).sum(0), (share[:, :, None] * torch.stack(outs)).sum(0)

    def critic_loss(self) -> torch.Tensor:
        b = self.batch
        action = torch.tanh(self.pre_tanh(self.target, b['next_state']))
        _, following = self.agreed([self.critic(self.target, n, b['next_state'], action) for n in self.critics()])
        outs = [self.critic(self.online, n, b['state'], b['action']) for n in self.critics()]
        return torch.stack([self.head_loss(out, following) for out in outs]).sum()

    def head_loss(self, out: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        b, s = self.batch, self.recipe.critic
        if s.kind == 'quantile':
            targets = b['reward'][:, None] + b['bootstrap'][:, None] * following
            targets = targets.clamp(*(end / s.return_scale for end in s.return_range))
            error = targets[:, None, :2 * s.quantiles] - out[:, :2 * s.quantiles, None]
            level = torch.tensor(quantile_levels(self.learner.batch.alpha, s.quantiles))[:, :, None]
            weight = torch.tensor(quantile_probabilities(self.learner.batch.alpha, s.quantiles))[:, None, :]
            kappa = s.kappa / s.return_scale
            huber = error.abs() if kappa == 0 else torch.nn.functional.huber_loss(
                error, torch.zeros_like(error), reduction='none', delta=kappa) / kappa
            importance = 1.0 / level.clamp(min=SMALLEST_LEVEL).sqrt()
            loss = (importance * weight * (level - (error < 0).double()).abs() * huber).sum(2).mean()
            return loss + float(MEAN_WEIGHT) * ((out[:, -1] - targets[:, -1]) ** 2).mean() if s.mean else loss
        if s.kind == 'categorical':
            z = self.atoms()
            place = (b['reward'][:, None] + b['bootstrap'][:, None] * z).clamp(z[0], z[-1])
            near = (1.0 - (place[:, None, :] - z[:, None]).abs() / (z[1] - z[0])).clamp(0, 1)   # [n, atom, from]
            target = (near * following.softmax(1)[:, None, :]).sum(2).detach()
            return -(target * out.log_softmax(1)).sum(1).mean()
        mean, variance = out[:, 0], torch.nn.functional.softplus(out[:, 1]) + VARIANCE_FLOOR
        next_mean = following[:, 0]
        next_variance = torch.nn.functional.softplus(following[:, 1]) + VARIANCE_FLOOR
        target = b['reward'] + b['bootstrap'] * next_mean
        fixed = mean.detach()
        spread = b['bootstrap'] ** 2 * next_variance
        spread = spread + ((target - fixed) ** 2 if s.variance_target == 'td_error' else target ** 2 - fixed ** 2)
        by_variance = {'wasserstein': (variance.sqrt() - spread.clamp(min=0).sqrt()) ** 2,
                       'squared': (variance - spread) ** 2,
                       'likelihood': 0.5 * (variance.log() + spread / variance)}[s.variance_loss]
        return ((mean - target) ** 2 + by_variance).mean()

    def actor_loss(self) -> torch.Tensor:
        b, s = self.batch, self.recipe.actor
        out = self.pre_tanh(self.online, b['state'])
        action = torch.tanh(out)
        value, _ = self.agreed([self.critic(self.online, n, b['state'], action) for n in self.critics()])
        scale = 1.0 / value.detach().abs().mean() if s.behaviour_cloning else 1.0
        cloning = s.behaviour_cloning * (action - b['action']) ** 2
        return (-scale * value + cloning + s.pre_tanh_penalty * out ** 2).mean()


def assert_gradients(learner: Learner, reference: Reference, loss: torch.Tensor, prefix: str) -> None:
    loss.backward()
    for name, gradient in learner.parameters(learner.gradients).items():
        if name.startswith(prefix):
            expected = reference.online[name].grad
            assert expected is not None, name
            assert np.abs(expected.numpy()).max() > 0.0, name
            np.testing.assert_allclose(gradient, expected.numpy(), rtol=2e-3, atol=2e-5 * (1.0 + abs(loss.item())),
                                       err_msg=name)


@pytest.mark.parametrize('name', CRITICS)
def test_critic_gradient_equals_autograd(name: str) -> None:
    learner = make_learner(CRITICS[name])
    learner.sample(filled_replay(), Normaliser(STATE), np.random.default_rng(2))
    reference = Reference(learner)
    learner.head.prepare(learner.batch.alpha)
    learner._compute_target(learner.recipe.critic.caution)
    learner.updates = 1
    loss = learner._update_critics(rate=0.0)
    expected = reference.critic_loss()
    assert loss * len(reference.critics()) == pytest.approx(expected.item(), rel=1e-4)
    assert_gradients(learner, reference, expected, 'critic')


@pytest.mark.parametrize('name', CRITICS)
@pytest.mark.parametrize('actor', [{}, {'pre_tanh_penalty': 0.1, 'behaviour_cloning': 0.5}, {'risk': 'mean_std:0.7'},
                                   {'risk': 'wang'}], ids=str)
def test_actor_gradient_equals_autograd(name: str, actor: dict) -> None:
    if 'categorical' in name and 'risk' in actor:
        with pytest.raises(SettingsError, match='a categorical critic knows cvar only'):
            make_learner(CRITICS[name], **actor)
        return
    learner = make_learner(CRITICS[name], **actor)
    learner.sample(filled_replay(), Normaliser(STATE), np.random.default_rng(2))
    reference = Reference(learner)
    learner.head.prepare(learner.batch.alpha)
    learner.actor_gradient()
    assert_gradients(learner, reference, reference.actor_loss(), 'actor')


def test_actor_gradient_equals_finite_differences() -> None:
    """Eq. 12 against (J(theta + h) - J(theta - h)) / 2h, J evaluated in float64 so that h may be small."""
    learner = make_learner(CriticSettings())
    learner.sample(filled_replay(), Normaliser(STATE), np.random.default_rng(2))
    learner.head.prepare(learner.batch.alpha)
    learner.actor_gradient()
    reference = Reference(learner)
    for name, gradient in learner.parameters(learner.gradients).items():
        if name.startswith('actor.'):
            index = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
            losses = []
            for step in (1e-6, -1e-6):
                with torch.no_grad():
                    reference.online[name][index] += step
                    losses.append(reference.actor_loss().item())
                    reference.online[name][index] -= step
            assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(gradient[index], rel=1e-3), name


def test_adam_and_targets_equal_torch() -> None:
    learner = make_learner(CriticSettings())
    rng, replay, normaliser = np.random.default_rng(2), filled_replay(), Normaliser(STATE)
    values = torch.tensor(learner.values, requires_grad=True)
    targets = learner.targets.copy()
    optimiser = torch.optim.Adam([values], lr=1e-4)
    for _ in range(20):
        learner.update(replay, normaliser, rng)
        values.grad = torch.tensor(learner.gradients)
        optimiser.step()
        targets += 0.005 * (values.detach().numpy() - targets)
    np.testing.assert_allclose(learner.values, values.detach().numpy(), atol=1e-7)
    np.testing.assert_allclose(learner.targets, targets, atol=1e-6)


@pytest.mark.parametrize('name', CRITICS)
def test_same_seed_gives_same_weights(name: str) -> None:
    values = []
    for _ in range(2):
        learner, rng = make_learner(CRITICS[name]), np.random.default_rng(5)
        for _ in range(30):
            learner.update(filled_replay(), Normaliser(STATE), rng)
        values.append(learner.values.tobytes())
    assert values[0] == values[1]


@pytest.mark.parametrize('share', [0.0, 0.25, 1.0])
def test_relabelling_draws_fresh_levels_in_range_for_a_share_of_the_minibatch(share: float) -> None:
    recipe = Recipe(alpha=AlphaSettings(minimum=0.2, maximum=0.4, power=2.0, relabel=share),
                    learning=LearningSettings(batch=BATCH), validation=ValidationSettings(alphas=(0.3,)))
    learner, replay = Learner(recipe, STATE, 4.0, np.random.default_rng(0)), filled_replay()
    replay.column('alpha')[:] = 0.9
    alpha = learner.sample(replay, Normaliser(STATE), np.random.default_rng(1)).alpha
    assert np.sum((alpha >= np.float32(0.2)) & (alpha <= np.float32(0.4))) == share * BATCH
    assert np.sum(alpha == np.float32(0.9)) == (1.0 - share) * BATCH


def test_returns_are_capped_by_the_level_that_a_transition_has_in_the_minibatch() -> None:
    recipe = Recipe(critic=CriticSettings(return_scale=10.0),
                    alpha=AlphaSettings(minimum=0.5, maximum=0.5, relabel=0.5, caps=(10.0, 40.0)),
                    learning=LearningSettings(batch=BATCH),
                    validation=ValidationSettings(alphas=(0.5,)))
    learner, replay = Learner(recipe, STATE, 4.0, np.random.default_rng(0)), filled_replay()
    replay.column('alpha')[:] = np.sqrt(2.0)     # half of the way from 1 to 2, by factors: a cap of 20
    for reward, capped in ((30.0, (1.0, 2.0)), (15.0, (1.0, 1.5)), (-50.0, (-5.0, -5.0))):
        replay.column('reward')[:] = reward
        batch = learner.sample(replay, Normaliser(STATE), np.random.default_rng(1))
        learner.learn()
        half = BATCH // 2
        np.testing.assert_allclose(batch.reward[:half], capped[0], rtol=1e-6)
        np.testing.assert_allclose(batch.reward[half:], capped[1], rtol=1e-6)


def test_levels_are_drawn_by_the_power_law() -> None:
    settings = AlphaSettings(minimum=0.2, maximum=0.4, power=2.0)
    many = draw_alphas(settings, np.random.default_rng(2), 100_000)
    assert many.mean() == pytest.approx(0.2 + 0.2 / 3.0, abs=1e-3)   # u² has mean 1/3


def test_levels_spaced_by_log_are_drawn_by_their_share_of_the_decades() -> None:
    settings = AlphaSettings(minimum=0.0005, maximum=0.5, spacing='log', power=3.0)
    many = draw_alphas(settings, np.random.default_rng(2), 100_000)
    assert many.min() >= np.float32(0.0005)
    assert many.max() <= np.float32(0.5)
    # Three decades: one from the top is u³ = 1/3, two are 2/3.
    assert np.mean(many > 0.05) == pytest.approx((1 / 3) ** (1 / 3), abs=5e-3)
    assert np.mean(many < 0.005) == pytest.approx(1.0 - (2 / 3) ** (1 / 3), abs=5e-3)


@pytest.mark.parametrize('column', ['reward', 'action', 'alpha', 'discount'])
def test_nan_in_a_batch_stops_with_the_update_and_the_term(column: str) -> None:
    learner, replay = make_learner(CriticSettings()), filled_replay()
    replay.column(column)[:] = np.nan
    with pytest.raises((NotFiniteError, ValueError), match=r'update 1: the critic loss is nan|alpha = nan'):
        learner.update(replay, Normaliser(STATE), np.random.default_rng(0))


def test_nan_in_an_observation_is_noticed() -> None:
    learner, replay = make_learner(CriticSettings()), filled_replay()
    replay.rows[:, 0] = np.nan
    with pytest.raises(NotFiniteError, match='critic loss'):
        learner.update(replay, Normaliser(STATE), np.random.default_rng(0))


def test_printed_initialisation_uses_the_table() -> None:
    recipe = Recipe(networks=NetworksSettings(initialisation='printed'))
    weights = Learner(recipe, 16, 4.0, np.random.default_rng(0)).parameters()
    assert weights['actor.h3.weight'].shape == (32, 48)
    assert weights['critic.h3.weight'].shape == (64, 129)
    for name, gain in (('actor.h3.weight', np.sqrt(2.0)), ('critic.h3.weight', 0.01)):
        singular = np.linalg.svd(weights[name], compute_uv=False)
        np.testing.assert_allclose(singular, gain, rtol=1e-5)
