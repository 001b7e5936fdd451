"""N independent scenes at once: reset by seeds, stepped by accelerations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_node import stepper
from sim_node.geometry import build_geometry
from sim_node.scenario import Scenario
from sim_node.settings import SettingsError
from sim_node.state import CAR, RESULT, SCENE, constants


@dataclass(frozen=True)
class StepResult:
    """What a step gave, one entry per scene. The arrays are the batch's own and are overwritten by the next step."""

    observation: np.ndarray         # of the running episode: where one ended, of the next one's beginning
    final_observation: np.ndarray   # the state that the step led to, also where the episode ended there
    reward: np.ndarray
    done: np.ndarray
    outcome: np.ndarray             # sim_node.state.OUTCOMES
    steps: np.ndarray               # of 0.1 s since the episode began
    seed: np.ndarray
    hit: np.ndarray                 # the number of the vehicle hit, or -1


class Batch:
    """N scenes of one scenario.

    `reset(seeds)` begins an episode per seed; an episode that ends is followed by the one of seed + stride (by default
    N, so that seeds counted up over the scenes never meet). A seed's episode does not depend on N or on its neighbours.
    """

    def __init__(self, scenario: Scenario, n: int, auto_reset: bool = True) -> None:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise SettingsError(f'number of scenes: expected a whole number of at least 1, got {n!r}')
        self.scenario = scenario
        self.geometry = build_geometry(scenario)
        self.layout = scenario.layout
        self.observation_size = scenario.layout.size
        self.action_bound = scenario.vehicle.acceleration_limit
        self.n = int(n)
        self.auto_reset = auto_reset
        vehicles = max(scenario.traffic.platoon + scenario.traffic.spawned, 1)
        self.scenes = np.zeros(self.n, SCENE)
        self.cars = np.zeros((self.n, vehicles), CAR)
        self.ego = np.zeros((self.n, 4))                  # x, y, heading, speed
        self.others = np.zeros((self.n, vehicles, 4))     # the same of those who drive, in the order of their numbers
        self.counts = np.zeros(self.n, np.int64)          # how many rows of `others` are filled
        self._drivers = np.zeros(vehicles, np.int64)      # room for one scene's numbers of those who drive
        self._accelerations = np.zeros(self.n)
        self._observation = np.zeros((self.n, self.observation_size), np.float32)
        self._final = np.zeros_like(self._observation)
        self._results = np.zeros(self.n, RESULT)
        self._world = (constants(scenario, self.geometry), self.geometry.segments, self.geometry.lanes,
                       self.geometry.view, self.scenes, self.cars, self.ego, self.others, self.counts)
        # What a rule may know of the scenes: constants, tables, and the plain states of everybody.
        self.seen = (*self._world[:4], self.ego, self.others, self.counts)
        self._result = StepResult(self._observation, self._final, *(
            self._results[name] for name in ('reward', 'done', 'outcome', 'steps', 'seed', 'hit')))
        self._ready = False

    def reset(self, seeds: np.ndarray | list[int] | int, stride: int | None = None) -> np.ndarray:
        """Begin the episodes of these seeds, one per scene; gives the first observations (reused by later calls)."""
        wanted = np.atleast_1d(np.asarray(seeds))
        if wanted.shape != (self.n,) or wanted.dtype.kind not in 'iu':
            raise SettingsError(f'seeds: expected {self.n} whole numbers, got {seeds!r}')
        self.scenes['seed'] = wanted
        self.scenes['stride'] = self.n if stride is None else stride
        stepper.reset_batch(*self._world, self._observation)
        self._ready = True
        return self._observation

    def step(self, accelerations: np.ndarray | list[float] | float, repeat: int = 1) -> StepResult:
        """Drive every scene on by up to `repeat` steps of 0.1 s under its acceleration (m/s², clipped to the limit)."""
        if not self._ready:
            raise SettingsError('step: call reset(seeds) first')
        given = np.asarray(accelerations, dtype=np.float64)
        if given.shape != (self.n,) and not (self.n == 1 and given.size == 1):
            raise SettingsError(f'accelerations: expected shape ({self.n},), got {given.shape}')
        self._accelerations[:] = given
        culprit = stepper.step_batch(*self._world, self._drivers, self._accelerations, repeat, self.auto_reset,
                                     self._observation, self._final, self._results)
        if culprit >= 0:
            raise SettingsError(
                f'accelerations[{culprit}]: expected a finite number, got {self._accelerations[culprit]}')
        return self._result

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything that the future depends on; `restore` takes it back."""
        return {'scenes': self.scenes.copy(), 'cars': self.cars.copy(), 'observation': self._observation.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Go on from a `state`; gives the observations of that moment."""
        for name, array in (('scenes', self.scenes), ('cars', self.cars), ('observation', self._observation)):
            if name not in state or state[name].shape != array.shape or state[name].dtype != array.dtype:
                raise SettingsError(f'state: {name!r} does not fit this batch of {self.n} scenes')
            array[...] = state[name]
        self._ready = True
        return self._observation
