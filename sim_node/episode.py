"""One scene in the order of time: episodes with stamps, as the nodes and the recorder show them. No ROS."""

from __future__ import annotations

import numpy as np

from sim_node.batch import Batch
from sim_node.episode_result import NO_COMMAND, EpisodeResult
from sim_node.episode_time import STEP_NANOSECONDS, next_start
from sim_node.scenario import Scenario
from sim_node.state import DRIVING, OUTCOMES


def vehicle_name(number: int) -> str:
    """The id of a vehicle in messages."""
    return f'vehicle_{number}'


class Episode:
    """A scene that is driven step by step; `begin` starts the next episode."""

    def __init__(self, scenario: Scenario) -> None:
        self._batch = Batch(scenario, 1, auto_reset=False)
        self._stamp = -1
        self.start = 0     # ns
        self.observation = np.zeros((1, self._batch.observation_size), np.float32)     # of the state, a batch of one
        self.scenario = scenario
        self.seed = 0
        self.result: EpisodeResult | None = None

    def begin(self, seed: int, after: int = -1) -> None:
        """Begin the episode of a seed, later than everything so far and than `after` (ns)."""
        last = max(self._stamp, after)
        self.start = 0 if last < 0 else next_start(last)
        self._stamp = self.start
        self.observation = self._batch.reset([seed])
        self.seed = seed
        self.result = None

    def warm_up(self) -> None:
        """Load or compile the simulator's kernels now, so that no step has to wait for them."""
        self._batch.reset([0])
        self._batch.step([0.0])

    def step(self, acceleration: float) -> None:
        """Drive on by 0.1 s; `result` tells when that ended the episode."""
        step = self._batch.step([acceleration])
        self._stamp += STEP_NANOSECONDS
        if step.done[0]:
            hit = int(step.hit[0])
            self._end(OUTCOMES[step.outcome[0]], float(step.reward[0]), vehicle_name(hit) if hit >= 0 else '')

    def abandon(self) -> EpisodeResult:
        """End the episode because nobody drives."""
        return self._end(NO_COMMAND, 0.0, '')

    def _end(self, outcome: str, episode_return: float, hit: str) -> EpisodeResult:
        self.result = EpisodeResult(self.scenario.name, self.scenario.row, self.seed, outcome,
                                    int(self._batch.scenes['step'][0]), episode_return, hit, self.start, self._stamp)
        return self.result

    @property
    def batch(self) -> Batch:
        """The scene as controllers take it."""
        return self._batch

    @property
    def stamp(self) -> int:
        """The time of the state, ns."""
        return self._stamp

    @property
    def ego(self) -> np.ndarray:
        """x, y, heading, speed."""
        return self._batch.ego[0]

    @property
    def others(self) -> np.ndarray:
        """x, y, heading, speed of every other vehicle, a row each."""
        return self._batch.others[0, :self._batch.counts[0]]

    @property
    def names(self) -> list[str]:
        """The others' ids, in the order of their rows."""
        return [vehicle_name(number) for number in np.flatnonzero(self._batch.cars['status'][0] == DRIVING).tolist()]

    @property
    def acceleration(self) -> float:
        """What ego's last step really accelerated by, m/s²."""
        return float(self._batch.scenes['acceleration'][0])
