"""Worst Cases Policy Gradients: the update of Algorithm 1, for any critic head.

One update is: sample a minibatch; move the critic towards the target of Eq. 6 (or its quantiles); move the
actor up the critic's risk value, Eq. 12; let the target networks follow. Parameters, gradients and Adam's
moments are single flat vectors with named views into them, and nothing is allocated on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  the BLAS that compiled code calls: loaded here, so that the limit finds it
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from wcpg_ros import networks
from wcpg_ros.critics import make_head
from wcpg_ros.networks import Actor, ActorWork, Array, Critic, compiled
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Minibatch, Replay, empty_minibatch
from wcpg_ros.risk import return_cap, second_critic_share, tail_share
from wcpg_ros.settings import AlphaSettings, Recipe


class NotFiniteError(ArithmeticError):
    """A NaN or an infinity; the message names the term."""


class Losses(NamedTuple):
    """What one update minimised and maximised, in the critic's units."""

    critic_loss: float
    actor_value: float   # the mean risk value of the actor's actions


def draw_alphas(settings: AlphaSettings, rng: np.random.Generator, count: int) -> Array:
    """Risk levels for episodes or minibatches."""
    low, high = settings.minimum, settings.maximum
    u = rng.random(count) ** settings.power
    return (high * (low / high) ** u if settings.spacing == 'log' else low + (high - low) * u).astype(np.float32)


class Learner:
    """Networks, targets and optimiser state of one run."""

    def __init__(self, recipe: Recipe, observation_size: int, action_bound: float, rng: np.random.Generator) -> None:
        # Matrices this small are slower on two threads, and a second run wants the other core.
        threadpool_limits(limits=1, user_api='blas')
        self.recipe = recipe
        self.action_bound = action_bound
        self.updates = 0
        self.head = make_head(recipe.critic, recipe.actor.risk)
        self.batch = empty_minibatch(observation_size, recipe.learning.batch)

        sizes = recipe.networks
        self._critic_count = 2 if recipe.critic.twin else 1
        critic_shapes = networks.critic_shapes(observation_size, sizes.critic_hidden, self.head.outputs)
        self.shapes = {f'actor.{k}': s for k, s in networks.actor_shapes(observation_size, sizes.actor_hidden).items()}
        self._actor_size = sum(math.prod(s) for s in self.shapes.values())
        for prefix in ('critic', 'critic2')[:self._critic_count]:
            self.shapes |= {f'{prefix}.{k}': s for k, s in critic_shapes.items()}
        total = sum(math.prod(s) for s in self.shapes.values())
        self.values, self.targets, self.gradients, self.moment1, self.moment2 = (
            np.zeros(total, np.float32) for _ in range(5))
        self._initialise(rng)
        self.targets[:] = self.values

        self._actor, self._target_actor, self._actor_gradient = (
            self._actor_views(flat) for flat in (self.values, self.targets, self.gradients))
        self._critics, self._target_critics, self._critic_gradients = (
            self._critic_views(flat) for flat in (self.values, self.targets, self.gradients))
        size = recipe.learning.batch
        self._actor_work = networks.actor_work(sizes.actor_hidden, size)
        self._critic_work = [networks.critic_work(sizes.critic_hidden, self.head.outputs, size)
                             for _ in range(self._critic_count)]
        self._risk = [np.zeros(size, np.float32) for _ in range(self._critic_count)]
        self._next_out = np.zeros((self.head.outputs, size), np.float32)

    def parameters(self, flat: Array | None = None) -> dict[str, Array]:
        """Views by model file name into the parameters, or into another vector of their layout."""
        flat = self.values if flat is None else flat
        views, start = {}, 0
        for name, shape in self.shapes.items():
            views[name] = flat[start:start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)
        return views

    def _actor_views(self, flat: Array) -> Actor:
        return Actor(*(view for name, view in self.parameters(flat).items() if name.startswith('actor.')))

    def _critic_views(self, flat: Array) -> list[Critic]:
        views = self.parameters(flat)
        return [Critic(*(view for name, view in views.items() if name.startswith(f'{prefix}.')))
                for prefix in ('critic', 'critic2')[:self._critic_count]]

    def _initialise(self, rng: np.random.Generator) -> None:
        printed = self.recipe.networks.initialisation == 'printed'
        parameters = self.parameters()
        for name, weight in parameters.items():
            network, layer, kind = name.split('.')
            if kind == 'bias':
                continue
            if printed:
                weight[:] = networks.orthogonal(rng, weight.shape, math.sqrt(2.0) if network == 'actor' else 0.01)
            elif layer == 'h2':
                # One input and no bias would leave every unit dead or linear. Let them bend at levels k spread
                # over log alpha, where risk changes, half of them as 1 - alpha / k below k: steep for small k.
                top = max(self.recipe.alpha.maximum, 1.0)
                bend = top * (self.recipe.alpha.minimum / top) ** rng.random(len(weight))
                steep = rng.random(len(weight)) < 0.5
                weight[:, 0] = np.where(steep, -1.0 / bend, 1.0)
                parameters[f'{network}.h2.bias'][:] = np.where(steep, 1.0, -bend)
            elif layer == 'out':
                weight[:] = networks.orthogonal(rng, weight.shape, 0.01 if network == 'actor' else 1.0)
            else:
                weight[:] = networks.orthogonal(rng, weight.shape, math.sqrt(2.0))

    def act(self, states: Array, alpha: Array) -> Array:
        """The actor's accelerations, m/s², for normalised states by column."""
        work = networks.actor_work(self.recipe.networks.actor_hidden, alpha.size)
        networks.actor_forward(self._actor, states, alpha, work)
        return work.action[0] * np.float32(self.action_bound)

    def predict(self, states: Array, alpha: Array, accelerations: Array) -> tuple[NDArray, NDArray]:
        """The first critic's mean and standard deviation of the discounted return."""
        mean, std = self.head.moments(self._evaluate(states, alpha, accelerations), tail_share(alpha))
        return mean * self.recipe.critic.return_scale, std * self.recipe.critic.return_scale

    def risk_value(self, states: Array, alpha: Array, accelerations: Array) -> Array:
        """The first critic's risk value of the discounted return, Eq. 9."""
        out, value = self._evaluate(states, alpha, accelerations), np.zeros(alpha.size, np.float32)
        self.head.prepare(tail_share(alpha))
        self.head.risk(out, value, np.zeros_like(out))
        return value * np.float32(self.recipe.critic.return_scale)

    def _evaluate(self, states: Array, alpha: Array, accelerations: Array) -> Array:
        work = networks.critic_work(self.recipe.networks.critic_hidden, self.head.outputs, alpha.size)
        networks.critic_forward(self._critics[0], states, alpha, accelerations / np.float32(self.action_bound), work)
        return work.out

    def update(self, replay: Replay, normaliser: Normaliser, rng: np.random.Generator, rate: float = 1.0) -> Losses:
        """Sample a minibatch and learn from it; `rate` multiplies both learning rates."""
        self.sample(replay, normaliser, rng)
        return self.learn(rate)

    def sample(self, replay: Replay, normaliser: Normaliser, rng: np.random.Generator) -> Minibatch:
        """Fill self.batch from replay."""
        recipe = self.recipe
        indices = rng.integers(0, replay.size, recipe.learning.batch)
        replay.gather(indices, normaliser.mean, normaliser.std, recipe.learning.observation_clip,
                      self.action_bound, recipe.critic.return_scale, self.batch)
        fresh = round(recipe.alpha.relabel * recipe.learning.batch)
        self.batch.alpha[:fresh] = draw_alphas(recipe.alpha, rng, fresh)
        return self.batch

    def learn(self, rate: float = 1.0) -> Losses:
        """One update of every network from self.batch, whose rewards are capped first."""
        if self.recipe.alpha.caps:
            cap = return_cap(self.batch.alpha, *self.recipe.alpha.caps) / self.recipe.critic.return_scale
            np.minimum(self.batch.reward, cap.astype(np.float32), out=self.batch.reward)
        critic_loss = self._learn_critics(rate, self.recipe.critic.caution)
        actor_value = self._update_actor(rate * self.recipe.actor.learning_rate)
        self._check_finite('actor objective', actor_value)
        return Losses(critic_loss, actor_value)

    def evaluate_policy(self, replay: Replay, normaliser: Normaliser, rng: np.random.Generator, rate: float) -> float:
        """Sample a minibatch and learn from it what the present policy brings: the critics alone, without
        caution and without a cap."""
        self.sample(replay, normaliser, rng)
        return self._learn_critics(rate, caution=0.5)

    def _learn_critics(self, rate: float, caution: float) -> float:
        self.updates += 1
        self.head.prepare(tail_share(self.batch.alpha))
        self._compute_target(caution)
        loss = self._update_critics(rate * self.recipe.critic.learning_rate)
        self._check_finite('critic loss', loss)
        return loss

    def _check_finite(self, term: str, value: float) -> None:
        if not math.isfinite(value):
            raise NotFiniteError(f'update {self.updates}: the {term} is {value}')

    def _compute_target(self, caution: float) -> None:
        """self._next_out = the target critic's outputs at s', a' = pi'(s', alpha)."""
        b = self.batch
        networks.actor_forward(self._target_actor, b.next_state, b.alpha, self._actor_work)
        for critic, work, risk in zip(self._target_critics, self._critic_work, self._risk, strict=True):
            networks.critic_forward(critic, b.next_state, b.alpha, self._actor_work.action[0], work)
            if self._critic_count == 2:
                self.head.risk(work.out, risk, work.d_out)
        self._next_out[:] = self._agreed(caution, *(work.out for work in self._critic_work))

    def _agreed(self, caution: float, first: Array, second: Array | None = None) -> Array:
        """The critics' numbers for each sample, or one that stands for two; self._risk says which is the worse."""
        if second is None:
            return first
        share: Array = second_critic_share(tail_share(self.batch.alpha), caution, *self._risk)
        return share * second + (1.0 - share) * first

    def _update_critics(self, rate: float) -> float:
        b = self.batch
        loss = 0.0
        for critic, gradient, work in zip(self._critics, self._critic_gradients, self._critic_work, strict=True):
            networks.critic_forward(critic, b.state, b.alpha, b.action, work)
            loss += self.head.loss(work.out, self._next_out, b.reward, b.bootstrap, work.d_out)
            networks.critic_backward(critic, b.state, b.alpha, work, gradient)
        self._step(slice(self._actor_size, None), rate)
        return loss / self._critic_count

    def _update_actor(self, rate: float) -> float:
        """Eq. 12: up the gradient of the risk value by the action, through the actor."""
        value = self.actor_gradient()
        self._step(slice(self._actor_size), rate)
        return value

    def actor_gradient(self) -> float:
        """The mean risk value of the actor's actions; its parameters' gradient goes to self.gradients."""
        b, settings, actor = self.batch, self.recipe.actor, self._actor_work
        recorded = self._recorded_value() if settings.cloning_filter else None
        networks.actor_forward(self._actor, b.state, b.alpha, actor)
        for critic, work, risk in zip(self._critics, self._critic_work, self._risk, strict=True):
            networks.critic_forward(critic, b.state, b.alpha, actor.action[0], work)
            self.head.risk(work.out, risk, work.d_out)
            networks.critic_action_gradient(critic, work)
        caution = self.recipe.critic.caution
        value = self._agreed(caution, *self._risk)
        slope = self._agreed(caution, *(work.d_action[0] for work in self._critic_work))
        # TD3+BC divides by the size of the values, so that one weight serves every scene.
        scale = 1.0 / float(np.abs(value).mean()) if settings.behaviour_cloning else 1.0
        to_clone = b.action if recorded is None else np.where(recorded > value, b.action, actor.action[0])
        _actor_loss_gradient(actor, to_clone, slope, scale, settings.behaviour_cloning, settings.pre_tanh_penalty)
        networks.actor_backward(self._actor, b.state, b.alpha, actor, self._actor_gradient)
        return float(value.mean())

    def _recorded_value(self) -> Array:
        """The risk value of the minibatch's own actions."""
        b = self.batch
        for critic, work, risk in zip(self._critics, self._critic_work, self._risk, strict=True):
            networks.critic_forward(critic, b.state, b.alpha, b.action, work)
            self.head.risk(work.out, risk, work.d_out)
        return self._agreed(self.recipe.critic.caution, *self._risk).copy()

    def _step(self, part: slice, rate: float) -> None:
        networks.adam(self.values[part], self.gradients[part], self.moment1[part], self.moment2[part],
                      self.targets[part], self.updates, rate, self.recipe.learning.tau)

    def begin_from(self, parameters: Mapping[str, NDArray]) -> None:
        """Take over parameters by their names, with targets equal to them and an optimiser that remembers nothing."""
        for name, view in self.parameters().items():
            view[:] = parameters[name]
        self.targets[:] = self.values
        self.moment1[:] = self.moment2[:] = 0.0
        self.updates = 0

    def state(self) -> dict[str, NDArray]:
        """For a checkpoint."""
        return {'values': self.values, 'targets': self.targets, 'moment1': self.moment1, 'moment2': self.moment2,
                'updates': np.array(self.updates)}

    def restore(self, state: dict[str, NDArray]) -> None:
        """From a checkpoint; the views stay valid."""
        for name in ('values', 'targets', 'moment1', 'moment2'):
            getattr(self, name)[:] = state[name]
        self.updates = int(state['updates'])


@compiled
def _actor_loss_gradient(work: ActorWork, data_action: Array, slope: Array, scale: float, cloning: float,
                         penalty: float) -> None:
    """work.d_out of the loss: mean of -scale * risk + cloning * (a - a_data)² + penalty * out²."""
    size = slope.size
    for j in range(size):
        action = work.action[0, j]
        by_action = -scale * slope[j] + 2.0 * cloning * (action - data_action[j])
        work.d_out[0, j] = (by_action * (1.0 - action * action) + 2.0 * penalty * work.out[0, j]) / size
