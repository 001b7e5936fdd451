"""C51 by Tianshou, on a grid of accelerations, on the terms of a WCPG recipe.

The library has the update and its target network; the scenes are driven here, into the trainer's replay, with the
recipe's exploration: noise and holds are added to the chosen acceleration, and the nearest of the grid is taken.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.optim import TorchOptimizerFactory
from tianshou.data import Batch

from sim_node.scenario import Scenario
from wcpg_ros.baselines.vec_env import SceneVecEnv
from wcpg_ros.exploration import Exploration
from wcpg_ros.n_step import NStep
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Minibatch, Replay, empty_minibatch
from wcpg_ros.run_directory import flattened, nested
from wcpg_ros.seeds import training_start
from wcpg_ros.settings import Recipe

ACCELERATIONS, ATOMS = 5, 51


class Network(torch.nn.Module):
    """Normalised observations to a distribution of the return for each acceleration."""

    def __init__(self, inputs: int, hidden: list[int]) -> None:
        super().__init__()
        widths = [inputs, *hidden, ACCELERATIONS * ATOMS]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """As Tianshou calls it: probabilities [n, accelerations, atoms]."""
        x = torch.as_tensor(obs)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x).view(-1, ACCELERATIONS, ATOMS).softmax(-1), state


class QuickC51(C51):
    """Tianshou's, with its projection written as two sums over the neighbouring atoms: the same numbers, sooner.

    The original compares every atom with every other, 51 × 51 × batch numbers an update, most of its time. Its replay
    is not used: of n decisions it sums the rewards, but then looks at the state after the first.
    """

    def learn(self, batch: Minibatch) -> None:
        """One update; `batch.action` holds places on the grid."""
        reward, bootstrap = torch.from_numpy(batch.reward), torch.from_numpy(batch.bootstrap)
        self._update_with_batch(Batch(obs=batch.state.T, act=batch.action.astype(np.int64), obs_next=batch.next_state.T,
                                      returns=reward[:, None] + bootstrap[:, None] * self.policy.support,
                                      info=Batch()))

    def _target_dist(self, batch: Any) -> torch.Tensor:
        following = Batch(obs=batch.obs_next, info=Batch())
        act = self.policy(following).act
        probability = self.policy(following, model=self.model_old).logits[np.arange(len(act)), act, :]
        place = (batch.returns.clamp(self.policy.v_min, self.policy.v_max) - self.policy.v_min) / self.delta_z
        below = place.floor().clamp(0, ATOMS - 2)
        above_share = place - below
        index = below.long()
        target = torch.zeros_like(probability)
        target.scatter_add_(1, index, probability * (1.0 - above_share))
        return target.scatter_add_(1, index + 1, probability * above_share)


class C51Run:
    """A training run that can be saved and restored at the border of two `learn` calls."""

    def __init__(self, scenario: Scenario, recipe: Recipe, seed: int, decisions: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        learning, scale = recipe.learning, recipe.critic.return_scale
        self._recipe, self._total = recipe, decisions
        self.world = SceneVecEnv(scenario, recipe.world.scenes, training_start(seed), scale)
        self._bound = self.world.batch.action_bound
        self._grid = np.linspace(-self._bound, self._bound, ACCELERATIONS)
        self._rng = np.random.default_rng(seed)
        self._exploration = Exploration(recipe.exploration, recipe.world.scenes, self._bound, self._rng)
        self._normaliser = Normaliser(scenario.layout.size)
        c1, c2, *rest = recipe.networks.critic_hidden
        self._network = Network(scenario.layout.size, [c1 + c2, *rest])
        reward = scenario.reward
        policy = C51Policy(model=self._network, action_space=gymnasium.spaces.Discrete(ACCELERATIONS),
                           num_atoms=ATOMS, v_min=reward.collision / scale,
                           v_max=(reward.success + reward.bonus) / scale)
        optimizer = TorchOptimizerFactory(torch.optim.Adam, lr=recipe.critic.learning_rate, fused=True)
        self._algorithm = QuickC51(policy=policy, optim=optimizer,
                                   target_update_freq=round(1.0 / learning.tau))
        self._discount = np.full(recipe.world.scenes, learning.gamma ** scenario.action_repeat, np.float32)
        self._replay = Replay(min(learning.replay, decisions), scenario.layout.size)
        self._n_step = NStep(self._replay, learning.n_step, recipe.world.scenes)
        self._minibatch = empty_minibatch(scenario.layout.size, learning.batch)
        self._updates = round(learning.updates_per_decision * recipe.world.scenes)
        self._observation = self.world.reset()

    def learn(self, decisions: int) -> None:
        """Drive and learn for about so many more."""
        end = self.world.decisions + decisions
        while self.world.decisions < end:
            self._drive()
            if self.world.decisions > self._recipe.exploration.random_decisions and self._replay.size:
                self._update()

    def _drive(self) -> None:
        observation = self._observation
        self._normaliser.update(observation)
        if self.world.decisions < self._recipe.exploration.random_decisions:
            wanted = self._exploration.random()
        else:
            states = self._normaliser.columns(observation, self._recipe.learning.observation_clip).T
            with torch.no_grad():
                chosen = self._algorithm.policy(Batch(obs=states, info=Batch())).act
            wanted = self._exploration.perturb(self._grid[chosen])
        taken = np.abs(self._grid - wanted[:, None]).argmin(axis=1)
        self.world.step_async(self._grid[taken][:, None] / self._bound)
        following, reward, done, infos = self.world.step_wait()
        final = following.copy()
        for i in np.flatnonzero(done):
            final[i] = infos[i]['terminal_observation']
        self._n_step.add(observation, final, action=taken, reward=reward, discount=self._discount, done=done,
                         alpha=np.ones_like(reward), outcome=np.zeros(len(done), np.int8))
        self._exploration.end(done)
        self._observation = following

    def _update(self) -> None:
        learning = self._recipe.learning
        final = learning.final_rate
        decay = 1.0 - (1.0 - final) * min(self.world.decisions / self._total, 1.0)
        for group in self._algorithm.optim._optim.param_groups:
            group['lr'] = decay * self._recipe.critic.learning_rate
        for _ in range(self._updates):
            self._replay.gather(self._rng.integers(0, self._replay.size, learning.batch), self._normaliser.mean,
                                self._normaliser.std, learning.observation_clip, 1.0, 1.0, self._minibatch)
            self._algorithm.learn(self._minibatch)

    def tensors(self) -> tuple[str, dict[str, NDArray[np.float32]]]:
        """What the last layer gives, and the present policy's tensors."""
        tensors = {f'layer{name.removeprefix("layers.")}': value.detach().numpy().copy()
                   for name, value in self._network.named_parameters()}
        scale = np.float32(self._recipe.critic.return_scale)
        return 'grid', {**tensors, 'normaliser.mean': self._normaliser.mean, 'normaliser.std': self._normaliser.std,
                        'grid': self._grid.astype(np.float32),
                        'atoms': self._algorithm.policy.support.detach().numpy() * scale}

    def state(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Everything that the future depends on: arrays and facts for RunDirectory.save."""
        buffer = io.BytesIO()
        torch.save({'algorithm': self._algorithm.state_dict(), 'rng': torch.get_rng_state()}, buffer)
        arrays = {'torch': np.frombuffer(buffer.getvalue(), np.uint8),
                  'observation': self._observation,
                  **flattened({'world': self.world.batch.state(), 'normaliser': self._normaliser.state(),
                               'exploration': self._exploration.state(), 'replay': self._replay.state(),
                               'n_step': self._n_step.state()})}
        return arrays, {'decisions': self.world.decisions, 'episodes': self.world.episodes,
                        'iterations': self._algorithm._iter, 'rng': self._rng.bit_generator.state}

    def restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Go on from a `state`."""
        weights = torch.load(io.BytesIO(arrays['torch'].tobytes()), weights_only=True)
        self._algorithm.load_state_dict(weights['algorithm'])
        for part, name in ((self.world.batch, 'world'), (self._normaliser, 'normaliser'),
                           (self._exploration, 'exploration'), (self._replay, 'replay'), (self._n_step, 'n_step')):
            part.restore(nested(arrays, name))
        self._observation = arrays['observation']
        self.world.decisions, self.world.episodes = facts['decisions'], facts['episodes']
        self._algorithm._iter = facts['iterations']
        self._rng.bit_generator.state = facts['rng']
        torch.set_rng_state(weights['rng'])
