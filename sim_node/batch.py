"""N independent scenes at once: reset by seeds, stepped by accelerations."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_node import stepper
from sim_node.geometry import build_geometry
from sim_node.roads import new_way
from sim_node.scenario import Scenario
from sim_node.seeds import EPISODES_PER_SEED, LAST_SEED
from sim_node.settings import SettingsError, check, whole_number
from sim_node.state import CAR, RESULT, SCENE, constants

MOST = 1_000_000     # scenes at once, or steps under one acceleration

_KINDS = {'iu': 'whole numbers', 'fiu': 'numbers', 'b': 'truth values'}     # by the kinds of NumPy's types


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
    Without `auto_reset` a scene whose episode has ended stands still, done and paid with nothing more.
    """

    def __init__(self, scenario: Scenario, n: int, auto_reset: bool = True) -> None:
        self.n = whole_number('number of scenes', n, 1, MOST)
        self.scenario = scenario
        self.geometry = build_geometry(scenario)
        self.layout = scenario.layout
        self.observation_size = scenario.layout.size
        self.action_bound = scenario.vehicle.acceleration_limit
        self.auto_reset = auto_reset
        vehicles = scenario.traffic.platoon + scenario.traffic.spawned
        self.scenes = np.zeros(self.n, SCENE)
        self.cars = np.zeros((self.n, vehicles), CAR)
        self.ego = np.zeros((self.n, 4))                  # x, y, heading, speed
        self.others = np.zeros((self.n, vehicles, 4))     # the same of those who drive, in the order of their numbers
        self.counts = np.zeros(self.n, np.int64)          # how many rows of `others` are filled
        self._drivers = np.zeros(vehicles, np.int64)      # room for one scene's numbers of those who drive
        self._way = new_way()                             # room to predict one ego's way in
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
        self._shape = (self.n,)
        self._chosen = np.zeros(self._shape, np.bool_)
        scene = hashlib.sha256(b''.join(table.tobytes() for table in self._world[:4])).digest()
        self._memory = {'scene': np.frombuffer(scene, np.uint8), 'scenes': self.scenes, 'cars': self.cars,
                        'ego': self.ego, 'others': self.others, 'counts': self.counts, 'observation': self._observation}
        self.begun = False     # whether there has been a reset

    def reset(self, seeds: np.ndarray | list[int] | int, stride: np.ndarray | int | None = None,
              chosen: np.ndarray | None = None) -> np.ndarray:
        """Begin the episodes of these seeds, one per scene; gives the first observations (reused by later calls).

        `chosen` tells by a truth value per scene where to; the other scenes go on.
        """
        wanted = self._row('seeds', seeds, 'iu')
        strides = self._row('stride', np.full(self.n, self.n if stride is None else stride), 'iu')
        for name, row, highest in (('seeds', wanted, LAST_SEED), ('stride', strides, EPISODES_PER_SEED)):
            wrong = row[(row < 0) | (row > highest)]
            if wrong.size:
                raise SettingsError(f'{name}: expected from 0 to {highest}, got {wrong[:1]}')
        self._chosen[:] = True if chosen is None else self._row('chosen', chosen, 'b')
        where = self._chosen
        check(self.begun or bool(where.all()), 'chosen', 'expected everywhere at the first reset')
        self.scenes['seed'][where], self.scenes['stride'][where] = wanted[where], strides[where]
        stepper.reset_batch(*self._world, self._way, where, self._observation)
        self.begun = True
        return self._observation

    def step(self, accelerations: np.ndarray | list[float] | float, repeat: int = 1) -> StepResult:
        """Drive every scene on by up to `repeat` steps of 0.1 s under its acceleration (m/s², clipped to the limit)."""
        check(self.begun, 'step', 'call reset(seeds) first')
        self._accelerations[:] = self._row('accelerations', accelerations, 'fiu')
        repeat = whole_number('repeat', repeat, 1, MOST)
        culprit = stepper.step_batch(*self._world, self._way, self._drivers, self._accelerations, repeat,
                                     self.auto_reset, self._observation, self._final, self._results)
        if culprit >= 0:
            raise SettingsError(
                f'accelerations[{culprit}]: expected a finite number, got {self._accelerations[culprit]}')
        return self._result

    def state(self) -> dict[str, np.ndarray]:
        """A copy of everything that the future depends on; `restore` takes it back."""
        check(self.begun, 'state', 'call reset(seeds) first')
        return {name: array.copy() for name, array in self._memory.items()}

    def restore(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Go on from a `state`; gives the observations of that moment."""
        for name, array in self._memory.items():
            if name not in state or state[name].shape != array.shape or state[name].dtype != array.dtype:
                raise SettingsError(f'state: {name!r} does not fit this batch of {self.n} scenes')
        check(np.array_equal(state['scene'], self._memory['scene']), 'state', 'of another scene, or of other settings')
        for name, array in self._memory.items():
            if name != 'scene':
                array[...] = state[name]
        self.begun = True
        return self._observation

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are batches of their own: the results are views, which would be torn from their array."""
        return _revived, (self.scenario, self.n, self.auto_reset, self.state() if self.begun else None)

    def _row(self, name: str, given: object, kinds: str) -> np.ndarray:
        """An argument as an array with an entry per scene."""
        try:
            row = np.asarray(given)
        except ValueError:     # lists of unequal lengths
            row = np.asarray(given, dtype=object)
        if row.shape != self._shape and self.n == row.size == 1:
            row = row.reshape(1)
        if row.shape != self._shape or row.dtype.kind not in kinds:
            raise SettingsError(f'{name}: expected {self.n} {_KINDS[kinds]}, got {row.dtype} of shape {row.shape}')
        return row


def _revived(scenario: Scenario, n: int, auto_reset: bool, state: dict[str, np.ndarray] | None) -> Batch:
    batch = Batch(scenario, n, auto_reset)
    if state is not None:
        batch.restore(state)
    return batch
