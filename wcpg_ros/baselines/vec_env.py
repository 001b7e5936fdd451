"""The scenes as Stable-Baselines3 sees them: many in one batch, actions as shares of the acceleration limit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from sim_node.batch import Batch
from sim_node.scenario import Scenario

_FAR = 1000.0     # m, m/s: beyond anything a scene shows


class SceneVecEnv(VecEnv):
    """Scenes that begin anew in the step that ended them. One step is one decision; returns are divided by `scale`."""

    def __init__(self, scenario: Scenario, scenes: int, first_seed: int, scale: float) -> None:
        self.batch = Batch(scenario, scenes)
        self._first_seed, self._scale = first_seed, scale
        self._actions = np.zeros(scenes)
        self.decisions = self.episodes = 0     # so far
        super().__init__(scenes, gymnasium.spaces.Box(-_FAR, _FAR, (scenario.layout.size,), np.float32),
                         gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32))

    def reset(self) -> np.ndarray:
        """Begin the episodes that a WCPG run of the same seed begins with."""
        return self.batch.reset(self._first_seed + np.arange(self.num_envs)).copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions, in units of the acceleration limit."""
        self._actions[:] = actions[:, 0] * self.batch.action_bound

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Hold them for one decision."""
        result = self.batch.step(self._actions, self.batch.scenario.action_repeat)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(result.done):
            infos[i]['terminal_observation'] = result.final_observation[i].copy()
        self.decisions += self.num_envs
        self.episodes += int(result.done.sum())
        return result.observation.copy(), result.reward / np.float32(self._scale), result.done.copy(), infos

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Stable-Baselines3 asks every scene for `render_mode`."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""
        raise AttributeError(f'the scenes of one batch have no {attr_name} of their own that could be set')

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Scenes in one batch have no methods of their own."""
        raise AttributeError(f'the scenes of one batch have no method {method_name} of their own')

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No scene is."""
        return [False] * self.num_envs
