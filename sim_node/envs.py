"""The scenes as Gymnasium environments: `wcpg/LeftTurn-v0`, `wcpg/Merge-v0`, single and vector.

Importing this module registers them; `gymnasium.make('sim_node.envs:wcpg/LeftTurn-v0')` does both at once.

One step is one decision: the acceleration (m/s²) is held for four simulation steps of 0.1 s, or to the end of the
episode. An episode terminates by success, by collision, and also when 300 steps are over: running out of time is an
outcome of the task, paid with nothing, not an interruption of it. So `truncated` is never set by the scene itself.

`info` holds `steps` (of 0.1 s), after a reset `seed`, and at the end `outcome` ('success', 'collision', 'timeout'),
`seed` and `hit` (the number of the vehicle that was hit, -1 for none). In the vector environment these are arrays with
masks (`_steps`, …), and the last observation and info of an ended episode are `final_obs` and `final_info`, all as
Gymnasium's own vector environments do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sim_node.batch import Batch, StepResult
from sim_node.scenario import Scenario, load_scenario
from sim_node.seeds import EPISODES_PER_SEED, episode_seed
from sim_node.settings import SettingsError, check
from sim_node.state import OUTCOMES, RUNNING

ENVIRONMENTS = {'wcpg/LeftTurn-v0': 'left_turn', 'wcpg/Merge-v0': 'merge'}

_FAR = 10_000.0     # m, m/s, s: beyond anything a scene may hold
_METADATA = {'render_modes': ['rgb_array'], 'render_fps': 2.5}


def _spaces(scenario: Scenario) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    bound = scenario.vehicle.acceleration_limit
    return (gymnasium.spaces.Box(-_FAR, _FAR, (scenario.layout.size,), np.float32),
            gymnasium.spaces.Box(-bound, bound, (1,), np.float32))


def _accelerations(action: object, space: gymnasium.Space) -> np.ndarray:
    given = np.asarray(action)
    if given.shape != space.shape:
        raise SettingsError(f'action: expected shape {space.shape}, got {given.shape}')
    return given[..., 0]


class _Pictures:
    """What both kinds of environment show."""

    def __init__(self, batch: Batch, render_mode: str | None, show_tempers: bool) -> None:
        check(render_mode in (None, 'rgb_array'), f'render_mode {render_mode!r}', "choose 'rgb_array' or None")
        self._batch, self._show_tempers, self._painter = batch, show_tempers, None
        if render_mode is not None:
            from sim_node.render import Painter
            self._painter = Painter(batch.scenario)

    def frames(self) -> tuple[np.ndarray, ...] | None:
        """Every scene from above."""
        if self._painter is None:
            return None
        if not self._batch.begun:
            raise ResetNeeded('there is nothing to see yet: call reset() before render()')
        return tuple(self._painter.draw(scene, cars, self._show_tempers)
                     for scene, cars in zip(self._batch.scenes, self._batch.cars, strict=True))


class SceneEnv(gymnasium.Env):
    """One scene. `reset(seed=7)` begins episode 0 of seed 7, each further `reset()` the next one of that seed."""

    metadata = _METADATA

    def __init__(self, scenario: str, row: str = 'train', changes: dict[str, Any] | None = None,
                 render_mode: str | None = None, show_tempers: bool = False) -> None:
        self.scenario = load_scenario(scenario, row, changes)
        self.batch = Batch(self.scenario, 1, auto_reset=False)
        self.observation_space, self.action_space = _spaces(self.scenario)
        self.render_mode = render_mode
        self._pictures = _Pictures(self.batch, render_mode, show_tempers)
        self._next = -1     # the seed of the next episode, if there has been one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None or self._next < 0:
            self._next = episode_seed(int(self.np_random.integers(EPISODES_PER_SEED)) if seed is None else seed, 0)
        observation = self.batch.reset([self._next])
        self._next += 1
        return observation[0].copy(), _beginning(self.batch, 0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an acceleration for one decision."""
        if not self.batch.begun or self.batch.scenes['outcome'][0] != RUNNING:
            raise ResetNeeded('no episode is under way: call reset() before step()')
        result = self.batch.step(_accelerations(action, self.action_space), self.scenario.action_repeat)
        done = bool(result.done[0])
        info = _ending(result, 0) if done else {'steps': int(result.steps[0])}
        return result.final_observation[0].copy(), float(result.reward[0]), done, False, info

    def render(self) -> np.ndarray | None:
        """The scene from above, if asked for by render_mode='rgb_array'."""
        frames = self._pictures.frames()
        return None if frames is None else frames[0]


class SceneVectorEnv(VectorEnv):
    """Many scenes in one batch, each begun anew in the step that ended it (`final_obs`, `final_info` in `info`)."""

    metadata = {**_METADATA, 'autoreset_mode': AutoresetMode.SAME_STEP}     # noqa: RUF012 (Gymnasium's own attribute)

    def __init__(self, num_envs: int, scenario: str, row: str = 'train', changes: dict[str, Any] | None = None,
                 render_mode: str | None = None, show_tempers: bool = False) -> None:
        self.scenario = load_scenario(scenario, row, changes)
        self.batch = Batch(self.scenario, num_envs)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self.scenario)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self._pictures = _Pictures(self.batch, render_mode, show_tempers)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every scene, or in those that `options['reset_mask']` is true for.

        Scene i gets episode i of the seed, or of several seeds episode 0 of its own. Without a seed, or with None for
        its own, a scene goes on to its next episode; which is the first one is then drawn.
        """
        if seed is None or isinstance(seed, Sequence | np.ndarray):
            seeds, strides = self._following()
            own_seeds = [None] * self.num_envs if seed is None else seed
            check(len(own_seeds) == self.num_envs, 'seed', f'expected {self.num_envs} of them, got {len(own_seeds)}')
            for i, own in enumerate(own_seeds):
                if own is not None:
                    seeds[i], strides[i] = episode_seed(own, 0), 1
        else:
            super().reset(seed=seed)
            seeds, strides = self._episodes_of(seed)
        mask = np.asarray((options or {}).get('reset_mask', np.ones(self.num_envs, bool)))
        check(mask.shape == (self.num_envs,) and mask.dtype == bool and bool(mask.any()), "options['reset_mask']",
              f'expected {self.num_envs} truth values, one of them true')
        observation = self.batch.reset(seeds, strides, mask).copy()
        info: dict[str, Any] = {}
        for i in np.flatnonzero(mask).tolist():
            info = self._add_info(info, _beginning(self.batch, i), i)
        return observation, info

    def _episodes_of(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The scenes' seeds and strides: they share the episodes of a seed."""
        return episode_seed(seed, 0) + np.arange(self.num_envs), np.full(self.num_envs, self.num_envs)

    def _following(self) -> tuple[np.ndarray, np.ndarray]:
        """The seeds and strides of every scene's next episode."""
        if not self.batch.begun:
            return self._episodes_of(int(self.np_random.integers(EPISODES_PER_SEED)))
        return self.batch.scenes['seed'] + self.batch.scenes['stride'], self.batch.scenes['stride'].copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Hold an acceleration in every scene for one decision."""
        result = self.batch.step(_accelerations(actions, self.action_space), self.scenario.action_repeat)
        info: dict[str, Any] = {'steps': self.batch.scenes['step'].copy(), '_steps': np.ones(self.num_envs, bool)}
        for i in np.flatnonzero(result.done).tolist():
            final = {'final_obs': result.final_observation[i].copy(), 'final_info': _ending(result, i)}
            info = self._add_info(info, {**final, **_beginning(self.batch, i)}, i)
        return (result.observation.copy(), result.reward.astype(np.float64), result.done.copy(),
                np.zeros(self.num_envs, bool), info)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Every scene from above, if asked for by render_mode='rgb_array'."""
        return self._pictures.frames()


def _beginning(batch: Batch, i: int) -> dict[str, Any]:
    return {'steps': 0, 'seed': int(batch.scenes['seed'][i])}


def _ending(result: StepResult, i: int) -> dict[str, Any]:
    return {'steps': int(result.steps[i]), 'outcome': OUTCOMES[result.outcome[i]], 'seed': int(result.seed[i]),
            'hit': int(result.hit[i])}


for _name, _scenario in ENVIRONMENTS.items():
    gymnasium.register(_name, entry_point='sim_node.envs:SceneEnv', vector_entry_point='sim_node.envs:SceneVectorEnv',
                       kwargs={'scenario': _scenario})
