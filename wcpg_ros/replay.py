"""Replay: preallocated, O(1) to add, nothing copied but the minibatch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wcpg_ros.networks import ONE, Array, compiled

# What follows state and next state in a row. `done` and the discount are kept apart: a decision cut short by an
# early end discounts less, and only `done` says that nothing follows.
COLUMNS = ('action', 'reward', 'discount', 'done', 'alpha', 'outcome')


class Minibatch(NamedTuple):
    """Samples by column; states are normalised, rewards in the critic's units, actions in units of the bound."""

    state: Array         # [d, n]
    next_state: Array    # [d, n]
    action: Array        # [n]
    reward: Array
    bootstrap: Array     # the discount, or 0 after a terminal
    alpha: Array


def empty_minibatch(observation_size: int, size: int) -> Minibatch:
    """Room for `size` samples."""
    states = (np.zeros((observation_size, size), np.float32) for _ in range(2))
    return Minibatch(*states, *(np.zeros(size, np.float32) for _ in range(4)))


class Replay:
    """A ring of transitions, one row each, so that a random one costs three cache lines and not eight."""

    def __init__(self, capacity: int, observation_size: int) -> None:
        self.capacity = capacity
        self.observation_size = observation_size
        self.size = 0
        self.next = 0   # the row the next transition goes to
        # Zeros are reserved at once but take memory only as they are written over.
        self.rows = np.zeros((capacity, 2 * observation_size + len(COLUMNS)), np.float32)

    def add(self, state: ArrayLike, next_state: ArrayLike, **columns: ArrayLike) -> None:
        """Append one row per transition, over the oldest ones when full."""
        count, d = len(np.asarray(state)), self.observation_size
        if count > self.capacity:
            raise ValueError(f'{count} transitions at once do not fit a replay of {self.capacity}')
        rows = np.empty((count, self.rows.shape[1]), np.float32)
        rows[:, :d] = state
        rows[:, d:2 * d] = next_state
        for i, name in enumerate(COLUMNS, start=2 * d):
            rows[:, i] = columns.pop(name)
        if columns:
            raise TypeError(f'unknown columns {", ".join(columns)}: choose from {", ".join(COLUMNS)}')
        before_end = min(count, self.capacity - self.next)
        self.rows[self.next:self.next + before_end] = rows[:before_end]
        self.rows[:count - before_end] = rows[before_end:]
        self.next = (self.next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def column(self, name: str) -> Array:
        """One column of what is stored, as a view."""
        return self.rows[:self.size, 2 * self.observation_size + COLUMNS.index(name)]

    def gather(self, indices: NDArray[np.int64], mean: Array, std: Array, clip: float, action_bound: float,
               return_scale: float, out: Minibatch) -> None:
        """Copy those transitions into `out`, in the networks' units."""
        units = (np.float32(clip), np.float32(action_bound), np.float32(return_scale))
        _gather(self.rows, indices, mean, std, *units, out)

    def state(self) -> dict[str, NDArray]:
        """The filled part, for a checkpoint."""
        return {'rows': self.rows[:self.size], 'next': np.array(self.next)}

    def restore(self, state: dict[str, NDArray]) -> None:
        """From a checkpoint."""
        self.size, self.next = len(state['rows']), int(state['next'])
        self.rows[:self.size] = state['rows']


@compiled
def _gather(rows: Array, indices: NDArray[np.int64], mean: Array, std: Array, clip: np.float32, bound: np.float32,
            scale: np.float32, out: Minibatch) -> None:
    d = mean.size
    for j in range(indices.size):
        row = rows[indices[j]]
        _normalise(row[:d], mean, std, clip, out.state[:, j])
        _normalise(row[d:2 * d], mean, std, clip, out.next_state[:, j])
        out.action[j] = row[2 * d] / bound
        out.reward[j] = row[2 * d + 1] / scale
        out.bootstrap[j] = row[2 * d + 2] * (ONE - row[2 * d + 3])
        out.alpha[j] = row[2 * d + 4]


@compiled
def _normalise(observation: Array, mean: Array, std: Array, clip: np.float32, out: Array) -> None:
    for i in range(mean.size):
        z = (observation[i] - mean[i]) / std[i]
        out[i] = -clip if z < -clip else clip if z > clip else z   # a NaN passes, and is noticed later
