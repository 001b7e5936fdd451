"""A policy at the wheel of one car: when to decide, and what it then sees. No ROS."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim_node.episode_time import EPISODE_JUMP, STEP_NANOSECONDS, episode_start
from sim_node.geometry import build_geometry
from sim_node.observation import observe
from sim_node.roads import new_way
from sim_node.scenario import STEP_SECONDS, load_scenario
from wcpg_ros.model_file import ModelError
from wcpg_ros.policy import Policy, Risk


def load_driver(model: str, scenario: str = '') -> Driver:
    """The driver of a model file, for a scene if one is named; a ModelError says why there is none."""
    if not model:
        raise ModelError('model: give the path of a trained policy (.safetensors)')
    driver = Driver(Policy.load(Path(model)))
    if scenario not in ('', driver.scenario):
        raise ModelError(f'{model}: trained for {driver.scenario}, not for {scenario}')
    return driver


class Driver:
    """Decides every 0.4 s of an episode's time, and holds the command in between."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.scenario = policy.info.scenario
        self._layout = policy.info.layout
        self._geometry = build_geometry(load_scenario(self.scenario, changes=self._layout.changes()))
        self._observation = np.zeros(self._layout.size, np.float32)
        self._way = new_way()
        self._period = policy.info.action_repeat * STEP_NANOSECONDS
        self._start = 0
        self._last: int | None = None
        self._command = 0.0
        self._decided_at: int | None = None    # ns
        self.decisions = 0                     # so far
        self.alpha = 1.0                       # of the last decision

    def check_alpha(self, alpha: float) -> None:
        """Refuse a risk level that the policy was not trained for."""
        low, high = self._policy.info.alpha_min, self._policy.info.alpha_max
        if not low <= alpha <= high:
            raise ModelError(f'alpha: this model takes {low:g} to {high:g}, got {alpha:g}')

    def take_over(self, other: Driver) -> None:
        """Go on where another driver is in the episode: hold its command until the next decision."""
        self._start, self._last, self._command = other._start, other._last, other._command
        self._decided_at = other._decided_at

    def act(self, stamp: int, ego: np.ndarray, others: np.ndarray, alpha: float) -> float:
        """The acceleration (m/s²) that answers the state at `stamp` (ns)."""
        if self._last is None or stamp < self._last or stamp - self._last >= EPISODE_JUMP:
            self._start, self._decided_at = episode_start(stamp), None
        self._last = stamp
        elapsed = stamp - self._start
        if self._decided_at is None or (elapsed % self._period == 0 and stamp != self._decided_at):
            self._decided_at = None     # until this has succeeded; else the next state tries again
            seconds = elapsed // STEP_NANOSECONDS * STEP_SECONDS
            observe(self._geometry.segments, self._geometry.lanes, self._geometry.view, ego, others, len(others),
                    seconds, self._layout.time, self._way, self._observation)
            self._command = float(self._policy.act(self._observation, alpha))
            self.alpha, self._decided_at = alpha, stamp
            self.decisions += 1
        return self._command

    def risk(self) -> Risk:
        """What the critic thinks of the last decision."""
        return self._policy.risk(self._observation, self._command, self.alpha)
