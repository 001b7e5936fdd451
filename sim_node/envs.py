"""The scenes as Gymnasium environments: `wcpg/LeftTurn-v0`, `wcpg/Merge-v0`, single and vector.

Importing this module registers them; `gymnasium.make('sim_node.envs:wcpg/LeftTurn-v0')` does both at once.

One step is one decision: the acceleration (m/s²) is held for four simulation steps of 0.1 s, or to the end of the
episode. An episode terminates by success, by collision, and also when 300 steps are over: running out of time is an
outcome of the task, paid with nothing, not an interruption of it. So `truncated` is never set by the scene itself.

`info` holds `steps` (of 0.1 s), and at the end `outcome` ('success', 'collision', 'timeout'), `seed` and `hit` (the
number of the vehicle that was hit, -1 for none).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sim_node.batch import Batch, StepResult
from sim_node.scenario import Scenario, load_scenario
from sim_node.seeds import EPISODES_PER_SEED, episode_seed
from sim_node.settings import SettingsError
from sim_node.state import OUTCOMES

ENVIRONMENTS = {'wcpg/LeftTurn-v0': 'left_turn', 'wcpg/Merge-v0': 'merge'}

_FAR = 1000.0     # m, m/s: beyond anything a scene shows


def _spaces(scenario: Scenario) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    bound = scenario.vehicle.acceleration_limit
    return (gymnasium.spaces.Box(-_FAR, _FAR, (scenario.layout.size,), np.float32),
            gymnasium.spaces.Box(-bound, bound, (1,), np.float32))


class SceneEnv(gymnasium.Env):
    """One scene. `reset(seed=7)` begins episode 0 of seed 7, each further `reset()` the next one of that seed."""

    metadata = {'render_modes': ['rgb_array'], 'render_fps': 2.5}     # noqa: RUF012 (Gymnasium's own attribute)

    def __init__(self, scenario: str, row: str = 'train', changes: dict[str, Any] | None = None,
                 render_mode: str | None = None, show_tempers: bool = False) -> None:
        if render_mode not in (None, 'rgb_array'):
            raise SettingsError(f"render_mode {render_mode!r}: choose 'rgb_array' or None")
        self.scenario = load_scenario(scenario, row, changes)
        self.batch = Batch(self.scenario, 1, auto_reset=False)
        self.observation_space, self.action_space = _spaces(self.scenario)
        self.render_mode = render_mode
        self._show_tempers = show_tempers
        self._painter: Any = None
        self._seed, self._episode = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None or self._seed < 0:
            self._seed = int(self.np_random.integers(EPISODES_PER_SEED)) if seed is None else seed
            self._episode = 0
        observation = self.batch.reset([episode_seed(self._seed, self._episode)])
        self._episode += 1
        return observation[0].copy(), {'steps': 0, 'seed': int(self.batch.scenes['seed'][0])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an acceleration for one decision."""
        result = self.batch.step(np.asarray(action, dtype=np.float64).reshape(-1), self.scenario.action_repeat)
        info: dict[str, Any] = {'steps': int(result.steps[0])}
        if result.done[0]:
            info.update(_ending(result, 0))
        return result.final_observation[0].copy(), float(result.reward[0]), bool(result.done[0]), False, info

    def render(self) -> np.ndarray | None:
        """The scene from above, if asked for by render_mode='rgb_array'."""
        if self.render_mode is None:
            return None
        if self._painter is None:
            from sim_node.render import Painter
            self._painter = Painter(self.scenario)
        return self._painter.draw(self.batch.scenes[0], self.batch.cars[0], self._show_tempers)


class SceneVectorEnv(VectorEnv):
    """Many scenes in one batch, each begun anew in the step that ended it (`final_obs`, `final_info` in `info`)."""

    metadata = {'autoreset_mode': AutoresetMode.SAME_STEP}     # noqa: RUF012

    def __init__(self, num_envs: int, scenario: str, row: str = 'train', changes: dict[str, Any] | None = None) -> None:
        self.scenario = load_scenario(scenario, row, changes)
        self.batch = Batch(self.scenario, num_envs)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self.scenario)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode everywhere: scene i gets episode i of the seed, or episode 0 of its own of several."""
        if isinstance(seed, list):
            return self.batch.reset([episode_seed(one, 0) for one in seed], stride=1).copy(), {}
        super().reset(seed=seed)
        base = int(self.np_random.integers(EPISODES_PER_SEED)) if seed is None else seed
        return self.batch.reset(episode_seed(base, 0) + np.arange(self.num_envs)).copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Hold an acceleration in every scene for one decision."""
        accelerations = np.asarray(actions, dtype=np.float64).reshape(self.num_envs)
        result = self.batch.step(accelerations, self.scenario.action_repeat)
        info: dict[str, Any] = {'steps': result.steps.copy()}
        if result.done.any():
            info['final_obs'] = np.array([row.copy() if done else None for row, done in
                                          zip(result.final_observation, result.done, strict=True)], dtype=object)
            info['_final_obs'] = info['_final_info'] = result.done.copy()
            endings = [_ending(result, i) for i in range(self.num_envs)]
            info['final_info'] = {name: np.array([ending[name] for ending in endings]) for name in endings[0]}
        return (result.observation.copy(), result.reward.astype(np.float64), result.done.copy(),
                np.zeros(self.num_envs, bool), info)


def _ending(result: StepResult, i: int) -> dict[str, Any]:
    return {'outcome': OUTCOMES[result.outcome[i]], 'seed': int(result.seed[i]), 'hit': int(result.hit[i])}


for _name, _scenario in ENVIRONMENTS.items():
    gymnasium.register(_name, entry_point='sim_node.envs:SceneEnv', vector_entry_point='sim_node.envs:SceneVectorEnv',
                       kwargs={'scenario': _scenario})
