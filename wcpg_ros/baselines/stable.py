"""DDPG and PPO by Stable-Baselines3, on the terms of a WCPG recipe.

DDPG takes everything from the recipe that it has a place for: widths of the networks, learning rate and its decay,
batch, replay, discount, target networks, updates per decision, exploration, normalised observations, the pre-tanh
penalty. What its critic and actor lack is what makes WCPG: the distribution and alpha. PPO keeps the paper's settings.
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import DDPG, PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import VectorizedActionNoise
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from sim_node.scenario import Scenario
from wcpg_ros.baselines.vec_env import SceneVecEnv
from wcpg_ros.exploration import Exploration
from wcpg_ros.normaliser import STD_FLOOR
from wcpg_ros.run_directory import flattened, nested
from wcpg_ros.seeds import training_start
from wcpg_ros.settings import ExplorationSettings, Recipe

_REPLAY = ('observations', 'next_observations', 'actions', 'rewards', 'dones', 'timeouts')


@dataclass(frozen=True)
class PpoSettings:
    """The paper's, section "Extrapolation Performance"; the rest is Stable-Baselines3's default."""

    minibatch: int = 32
    gamma: float = 0.99        # per decision
    gae_lambda: float = 0.95
    clip: float = 0.2
    learning_rate: float = 3e-4
    epochs: int = 4            # the default of OpenAI Baselines, whose PPO the paper used
    horizon: int = 128         # decisions of each scene between updates


class HeldNoise(VectorizedActionNoise):
    """The recipe's exploration as noise to be added, in units of the bound.

    Twice the bound, added and then clipped, is full throttle whatever the actor says: so a hold is noise too.
    """

    def __init__(self, settings: ExplorationSettings, scenes: int, bound: float, rng: np.random.Generator) -> None:
        self.n_envs = scenes
        self.rng = rng
        self._bound = bound
        self.exploration = Exploration(settings, scenes, 2.0 * bound, rng)

    def __call__(self) -> NDArray[np.float32]:
        """A row for every scene."""
        return self.exploration.perturb(np.zeros(self.n_envs, np.float32))[:, None] / np.float32(self._bound)

    def reset(self, indices: Any = None) -> None:
        """Let go where an episode ended."""
        done = np.full(self.n_envs, indices is None)
        done[list(indices or ())] = True
        self.exploration.end(done)


class PenalisedTanh(torch.nn.Module):
    """tanh, for whose input x the loss has a term `penalty` x²: an actor at its bounds would learn no more."""

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self._penalty = penalty

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of a minibatch."""
        if x.requires_grad:
            value = x.detach()     # a hook that held x itself would keep it, and all that led to it, for ever
            x.register_hook(lambda slope: slope + 2.0 * self._penalty / len(value) * value)
        return torch.tanh(x)


class StableRun:
    """A training run of DDPG or PPO that can be saved and restored at the border of two `learn` calls."""

    def __init__(self, algorithm: Literal['ddpg', 'ppo'], scenario: Scenario, recipe: Recipe, seed: int,
                 decisions: int) -> None:
        torch.set_num_threads(1)
        self.algorithm = algorithm
        self._recipe, self._total = recipe, decisions
        self.world = SceneVecEnv(scenario, recipe.world.scenes, training_start(seed), recipe.critic.return_scale)
        self._normalise = VecNormalize(self.world, norm_reward=False, clip_obs=recipe.learning.observation_clip,
                                       epsilon=STD_FLOOR ** 2)
        assert isinstance(self._normalise.obs_rms, RunningMeanStd)
        self._statistics: RunningMeanStd = self._normalise.obs_rms
        h1, h2, h3 = recipe.networks.actor_hidden
        # The layer that reads the observation has the units of both first layers of WCPG's, alpha's too.
        widths = {'pi': [h1 + h2, h3]}
        c1, c2, *rest = recipe.networks.critic_hidden
        self._noise: HeldNoise = HeldNoise(recipe.exploration, self.world.num_envs, self.world.batch.action_bound,
                                np.random.default_rng(seed))
        common: dict[str, Any] = {'seed': seed, 'device': 'cpu'}
        network = {'activation_fn': torch.nn.ReLU, 'optimizer_kwargs': {'fused': True}}
        if algorithm == 'ddpg':
            learning = recipe.learning
            rate = recipe.critic.learning_rate
            self.model: DDPG | PPO = DDPG(
                'MlpPolicy', self._normalise, buffer_size=min(learning.replay, decisions), batch_size=learning.batch,
                learning_rate=lambda _: rate * self._decay(), learning_starts=recipe.exploration.random_decisions,
                tau=learning.tau, gamma=learning.gamma ** scenario.action_repeat, train_freq=1,
                gradient_steps=round(learning.updates_per_decision * recipe.world.scenes), action_noise=self._noise,
                policy_kwargs={'net_arch': {**widths, 'qf': [c1 + c2, *rest]}, **network}, **common)
            self.model.actor.mu[-1] = PenalisedTanh(recipe.actor.pre_tanh_penalty)
        else:
            ppo = PpoSettings()
            self.model = PPO(
                'MlpPolicy', self._normalise, learning_rate=ppo.learning_rate, n_steps=ppo.horizon,
                batch_size=ppo.minibatch, n_epochs=ppo.epochs, gamma=ppo.gamma, gae_lambda=ppo.gae_lambda,
                clip_range=ppo.clip,
                policy_kwargs={'net_arch': {**widths, 'vf': [c1 + c2, *rest]}, **network}, **common)
        self.model.set_logger(Logger(None, []))

    def _decay(self) -> float:
        final = self._recipe.learning.final_rate
        return 1.0 - (1.0 - final) * min(self.world.decisions / self._total, 1.0)

    def learn(self, decisions: int) -> None:
        """Drive and learn for about so many more."""
        self.model.learn(decisions, reset_num_timesteps=False)

    def tensors(self) -> tuple[str, dict[str, NDArray[np.float32]]]:
        """What the last layer gives, and the present policy's tensors."""
        if isinstance(self.model, DDPG):
            layers = [*self.model.actor.mu]
            output = 'tanh'
        else:
            layers = [*self.model.policy.mlp_extractor.policy_net, self.model.policy.action_net]
            output = 'clip'
        tensors = {}
        linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
        for k, layer in enumerate(linear):
            tensors[f'layer{k}.weight'] = layer.weight.detach().numpy().copy()
            tensors[f'layer{k}.bias'] = layer.bias.detach().numpy().copy()
        tensors['normaliser.mean'] = self._statistics.mean.astype(np.float32)
        tensors['normaliser.std'] = np.sqrt(self._statistics.var + self._normalise.epsilon).astype(np.float32)
        return output, tensors

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Everything that the future depends on: arrays and facts for RunDirectory.save."""
        model, normalise = self.model, self._normalise
        buffer = io.BytesIO()
        torch.save({'policy': model.policy.state_dict(), 'optimizers': [o.state_dict() for o in self._optimizers()],
                    'rng': torch.get_rng_state()}, buffer)
        name, keys, *position = np.random.get_state()   # noqa: NPY002 (Stable-Baselines3 samples from it)
        arrays = {'torch': np.frombuffer(buffer.getvalue(), np.uint8), 'numpy_keys': np.asarray(keys),
                  'last_observation': np.asarray(model._last_obs),
                  'last_original_observation': np.asarray(normalise.get_original_obs()),
                  'last_episode_starts': np.asarray(model._last_episode_starts),
                  'mean': self._statistics.mean, 'variance': self._statistics.var,
                  **flattened({'world': self.world.batch.state(), 'noise': self._noise.exploration.state()})}
        facts = {'decisions': model.num_timesteps, 'updates': model._n_updates, 'count': self._statistics.count,
                 'episodes': self.world.episodes, 'numpy': [name, *position], 'python': random.getstate(),
                 'noise': self._noise.rng.bit_generator.state,
                 'action_space': model.action_space.np_random.bit_generator.state}
        if isinstance(model, DDPG):
            replay = model.replay_buffer
            assert replay is not None
            facts |= {'position': replay.pos, 'full': replay.full}
            rows = replay.buffer_size if replay.full else replay.pos
            arrays |= {f'replay/{key}': getattr(replay, key)[:rows] for key in _REPLAY}
        return arrays, facts

    def restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Go on from a `state`."""
        model, normalise = self.model, self._normalise
        weights = torch.load(io.BytesIO(arrays['torch'].tobytes()), weights_only=True)
        model.policy.load_state_dict(weights['policy'])
        for optimizer, values in zip(self._optimizers(), weights['optimizers'], strict=True):
            optimizer.load_state_dict(values)
        normalise.reset()
        self.world.batch.restore(nested(arrays, 'world'))
        self._noise.exploration.restore(nested(arrays, 'noise'))
        self._statistics.mean, self._statistics.var = arrays['mean'], arrays['variance']
        self._statistics.count = facts['count']
        normalise.old_obs = model._last_original_obs = arrays['last_original_observation']
        model._last_obs, model._last_episode_starts = arrays['last_observation'], arrays['last_episode_starts']
        model.num_timesteps, model._n_updates = facts['decisions'], facts['updates']
        self.world.decisions, self.world.episodes = facts['decisions'], facts['episodes']
        if isinstance(model, DDPG):
            replay = model.replay_buffer
            assert replay is not None
            replay.pos, replay.full = facts['position'], facts['full']
            for key in _REPLAY:
                rows = arrays[f'replay/{key}']
                getattr(replay, key)[:len(rows)] = rows
        torch.set_rng_state(weights['rng'])
        name, *position = facts['numpy']
        np.random.set_state((name, arrays['numpy_keys'], *position))   # noqa: NPY002
        version, keys, gauss = facts['python']
        random.setstate((version, tuple(keys), gauss))
        self._noise.rng.bit_generator.state = facts['noise']
        model.action_space.np_random.bit_generator.state = facts['action_space']

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        if isinstance(self.model, DDPG):
            return [self.model.actor.optimizer, self.model.critic.optimizer]
        return [self.model.policy.optimizer]
