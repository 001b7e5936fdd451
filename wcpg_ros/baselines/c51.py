"""C51 by Tianshou, on a grid of accelerations, on the terms of a WCPG recipe.

The library has the network's update, its target network and the replay; the scenes are driven here, with the recipe's
exploration: noise and holds are added to the chosen acceleration, and the nearest of the grid is taken.
"""

from __future__ import annotations

import io
import pickle
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.optim import TorchOptimizerFactory
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from sim_node.scenario import Scenario
from wcpg_ros.baselines.vec_env import SceneVecEnv
from wcpg_ros.exploration import Exploration
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.run_directory import flattened, nested
from wcpg_ros.seeds import training_start
from wcpg_ros.settings import Recipe

ACCELERATIONS, ATOMS = 9, 51


class Network(torch.nn.Module):
    """Normalised observations to a distribution of the return for each acceleration."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, inputs: int, hidden: list[int], clip: float) -> None:
        super().__init__()
        widths = [inputs, *hidden, ACCELERATIONS * ATOMS]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
        self.register_buffer('mean', torch.zeros(inputs))
        self.register_buffer('std', torch.ones(inputs))
        self._clip = clip

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """As Tianshou calls it: probabilities [n, accelerations, atoms]."""
        x = ((torch.as_tensor(obs, dtype=torch.float32) - self.mean) / self.std).clamp(-self._clip, self._clip)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x).view(-1, ACCELERATIONS, ATOMS).softmax(-1), state


class QuickC51(C51):
    """Tianshou's, with its projection written as two sums over the neighbouring atoms: the same numbers, sooner.

    The original compares every atom with every other, 51 × 51 × batch numbers an update, most of its time.
    """

    def _target_dist(self, batch: Any) -> torch.Tensor:
        following = Batch(obs=batch.obs_next, info=[None] * len(batch))
        act = self.policy(following).act
        probability = self.policy(following, model=self.model_old).logits[np.arange(len(act)), act, :]
        place = (batch.returns.clamp(self.policy.v_min, self.policy.v_max) - self.policy.v_min) / self.delta_z
        below = place.floor().clamp(0, ATOMS - 2)
        above_share = place - below
        index = below.long()
        target = torch.zeros_like(probability)
        target.scatter_add_(1, index, probability * (1.0 - above_share))
        return target.scatter_add_(1, index + 1, probability * above_share)


class EvenReplay(VectorReplayBuffer):
    """Tianshou's, sampled at once: scenes side by side fill their parts alike, so that none has to be asked."""

    def sample_indices(self, batch_size: int | None) -> NDArray[np.int64]:
        """Places of transitions, each of those kept as likely as the others."""
        if not batch_size:     # which asks for all of them
            return super().sample_indices(batch_size)
        part, place = np.divmod(self._random_state.choice(len(self), batch_size), len(self) // self.buffer_num)
        return self._offset[part] + place


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
        self._network = Network(scenario.layout.size, [c1 + c2, *rest], learning.observation_clip)
        reward = scenario.reward
        policy = C51Policy(model=self._network, action_space=gymnasium.spaces.Discrete(ACCELERATIONS),
                           num_atoms=ATOMS, v_min=reward.collision / scale,
                           v_max=(reward.success + reward.bonus) / scale)
        optimizer = TorchOptimizerFactory(torch.optim.Adam, lr=recipe.critic.learning_rate, fused=True)
        self._algorithm = QuickC51(policy=policy, optim=optimizer,
                                   gamma=learning.gamma ** scenario.action_repeat,
                                   n_step_return_horizon=learning.n_step,
                                   target_update_freq=round(1.0 / learning.tau))
        self._replay = EvenReplay(min(learning.replay, decisions), recipe.world.scenes, random_seed=seed)
        self._updates = round(learning.updates_per_decision * recipe.world.scenes)
        self._observation = self.world.reset()

    def learn(self, decisions: int) -> None:
        """Drive and learn for about so many more."""
        end = self.world.decisions + decisions
        with policy_within_training_step(self._algorithm.policy):
            while self.world.decisions < end:
                self._drive()
                if self.world.decisions > self._recipe.exploration.random_decisions:
                    self._update()

    def _drive(self) -> None:
        observation = self._observation
        self._normaliser.update(observation)
        self._network.mean.copy_(torch.from_numpy(self._normaliser.mean))
        self._network.std.copy_(torch.from_numpy(self._normaliser.std))
        if self.world.decisions < self._recipe.exploration.random_decisions:
            wanted = self._exploration.random()
        else:
            with torch.no_grad():
                chosen = self._algorithm.policy(Batch(obs=observation, info=Batch())).act
            wanted = self._exploration.perturb(self._grid[chosen])
        taken = np.abs(self._grid - wanted[:, None]).argmin(axis=1)
        self.world.step_async(self._grid[taken][:, None] / self._bound)
        following, reward, done, infos = self.world.step_wait()
        final = following.copy()
        for i in np.flatnonzero(done):
            final[i] = infos[i]['terminal_observation']
        self._replay.add(Batch(obs=observation, act=taken, rew=reward, terminated=done,
                               truncated=np.zeros_like(done), obs_next=final, info=Batch()))
        self._exploration.end(done)
        self._observation = following

    def _update(self) -> None:
        final = self._recipe.learning.final_rate
        decay = 1.0 - (1.0 - final) * min(self.world.decisions / self._total, 1.0)
        for group in self._algorithm.optim._optim.param_groups:
            group['lr'] = decay * self._recipe.critic.learning_rate
        for _ in range(self._updates):
            self._algorithm.update(self._replay, self._recipe.learning.batch)

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
                  'replay': np.frombuffer(pickle.dumps(self._replay), np.uint8), 'observation': self._observation,
                  **flattened({'world': self.world.batch.state(), 'normaliser': self._normaliser.state(),
                               'exploration': self._exploration.state()})}
        return arrays, {'decisions': self.world.decisions, 'episodes': self.world.episodes,
                        'iterations': self._algorithm._iter, 'rng': self._rng.bit_generator.state}

    def restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Go on from a `state`."""
        weights = torch.load(io.BytesIO(arrays['torch'].tobytes()), weights_only=True)
        self._algorithm.load_state_dict(weights['algorithm'])
        self._replay = pickle.loads(arrays['replay'].tobytes())
        for part, name in ((self.world.batch, 'world'), (self._normaliser, 'normaliser'),
                           (self._exploration, 'exploration')):
            part.restore(nested(arrays, name))
        self._observation = arrays['observation']
        self.world.decisions, self.world.episodes = facts['decisions'], facts['episodes']
        self._algorithm._iter = facts['iterations']
        self._rng.bit_generator.state = facts['rng']
        torch.set_rng_state(weights['rng'])
