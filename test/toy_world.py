"""A stand-in for the simulator: a traffic light on a straight road, for many cars at once.

The light is 15 m ahead and turns green between 2 and 5 s after the start; whoever passes it before then crashes.
Full throttle is there after 2.7 s. Same interface as sim_node.batch.Batch.
"""

from types import SimpleNamespace

import numpy as np

from sim_node.observation import Layout
from sim_node.state import COLLISION, RUNNING, SUCCESS, TIMEOUT

LIGHT, MAX_STEPS = 15.0, 100   # m, steps of 0.1 s


class TrafficLight:
    layout = Layout(vehicles=1)
    observation_size = layout.size
    action_bound = 4.0

    def __init__(self, n: int) -> None:
        self.n = n
        self._cars = np.zeros(n, [('x', 'f8'), ('v', 'f8'), ('green', 'f8'), ('steps', 'i8'), ('seed', 'i8')])
        self._stride = n

    def reset(self, seeds, stride=None):
        self._stride = self.n if stride is None else stride
        self._begin(np.ones(self.n, bool), np.asarray(seeds))
        return self._observe()

    def _begin(self, where, seeds):
        cars = self._cars
        cars['seed'][where] = seeds[where]
        cars['x'][where] = cars['v'][where] = cars['steps'][where] = 0
        cars['green'][where] = 2.0 + 3.0 * ((seeds[where] * 0.6180339887498949) % 1.0)   # golden ratio: even over seeds

    def _observe(self):
        cars = self._cars
        observation = np.zeros((self.n, self.observation_size), np.float32)
        observation[:, 0], observation[:, 3] = cars['x'], cars['v']
        observation[:, 4] = cars['green'] - 0.1 * cars['steps']
        return observation

    def step(self, accelerations, repeat=1):
        cars = self._cars
        reward, outcome = np.zeros(self.n, np.float32), np.full(self.n, RUNNING, np.int8)
        for _ in range(repeat):
            on = outcome == RUNNING
            cars['v'][on] = np.clip(cars['v'] + 0.1 * accelerations, 0.0, 20.0)[on]
            cars['x'][on] += 0.1 * cars['v'][on]
            cars['steps'][on] += 1
            passed = on & (cars['x'] >= LIGHT)
            green = 0.1 * cars['steps'] >= cars['green']
            outcome[passed & green], outcome[passed & ~green] = SUCCESS, COLLISION
            outcome[on & ~passed & (cars['steps'] >= MAX_STEPS)] = TIMEOUT
        reward[outcome == SUCCESS] = (50.0 * np.exp(-cars['steps'] / 50.0) + 10.0)[outcome == SUCCESS]
        reward[outcome == COLLISION] = -50.0
        done, final, steps, seed = outcome != RUNNING, self._observe(), cars['steps'].copy(), cars['seed'].copy()
        self._begin(done, seed + self._stride)
        return SimpleNamespace(observation=self._observe(), final_observation=final, reward=reward, done=done,
                               outcome=outcome, steps=steps, seed=seed)

    def state(self):
        return {'cars': self._cars.copy()}

    def restore(self, state):
        self._cars[:] = state['cars']
        return self._observe()
