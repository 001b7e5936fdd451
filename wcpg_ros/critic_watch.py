"""What the critic thought of the episodes it drove, beside what came of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.recfunctions import append_fields
from numpy.typing import NDArray

from wcpg_ros.policy import Policy

COLUMNS = ('sigma', 'sigma_peak', 'sigma_last', 'predicted_mean', 'predicted_std', 'predicted_cvar', 'drawn',
           'discounted', 'probability')


class CriticWatch:
    """Given to `drive`: keeps how each episode began, and the mean of the critic's sigma along it.

    The columns it makes:

        sigma            mean over the episode's decisions of the critic's standard deviation of the return to come …
        sigma_peak       … its largest …
        sigma_last       … and that of the last decision
        predicted_mean   … _std, _cvar: the critic's at the first decision, of the discounted return …
        drawn            … one draw from all that the critic held possible …
        discounted       … and the one that came
        probability      the critic's at the first decision, of a return no larger than that: uniform if calibrated
    """

    def __init__(self, policy: Policy, alpha: float, episodes: int, rng: np.random.Generator) -> None:
        self._policy, self._alpha, self._rng = policy, alpha, rng
        self._observation = np.zeros((episodes, policy.info.observation_size), np.float32)
        self._action = np.zeros(episodes)
        self._sigma, self._peak, self._last = (np.zeros(episodes) for _ in range(3))
        self._decisions = np.zeros(episodes, np.int64)

    def __call__(self, episode: NDArray, step: NDArray, observation: NDArray, acceleration: NDArray) -> None:
        """A decision in every scene."""
        sigma = self._policy.risk(observation, acceleration, self._alpha).std
        self._sigma[episode] += sigma
        self._peak[episode] = np.maximum(self._peak[episode], sigma)
        self._last[episode] = sigma
        self._decisions[episode] += 1
        begins = step == 0
        self._observation[episode[begins]] = observation[begins]
        self._action[episode[begins]] = acceleration[begins]

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """The rows of the episodes with the columns above."""
        risk = self._policy.risk(self._observation, self._action, self._alpha)
        discounted = rows['return'] * self._policy.info.gamma ** (self._decisions - 1.0)
        probability = self._policy.probability(self._observation, self._action, self._alpha, discounted)
        drawn = self._policy.quantile(self._observation, self._action, self._alpha, self._rng.random(len(rows)))
        values: tuple[Any, ...] = (self._sigma / self._decisions, self._peak, self._last, risk.mean, risk.std,
                                   risk.cvar, drawn, discounted, probability)
        return append_fields(rows, COLUMNS, [np.asarray(value, np.float32) for value in values], usemask=False)
