"""n-step returns: a transition waits until the rewards of its next n decisions are summed, or its episode ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wcpg_ros.networks import Array
from wcpg_ros.replay import Replay


class NStep:
    """Feeds a replay from scenes driven side by side.

    Row k of a waiting array is the decision made k steps before the oldest one's successor, for every scene;
    `live` marks those whose transition has not been passed on yet.
    """

    def __init__(self, replay: Replay, n: int, scenes: int) -> None:
        self._replay = replay
        self._n = n
        d = replay.observation_size
        self._waiting: dict[str, NDArray] = {
            'state': np.zeros((n, scenes, d), np.float32), 'action': np.zeros((n, scenes), np.float32),
            'alpha': np.zeros((n, scenes), np.float32), 'reward': np.zeros((n, scenes), np.float32),
            'discount': np.zeros((n, scenes), np.float32), 'live': np.zeros((n, scenes), np.bool_)}

    def add(self, state: Array, next_state: Array, action: Array, reward: Array, discount: Array,
            done: NDArray[np.bool_], alpha: Array, outcome: NDArray[np.int8]) -> None:
        """One decision of every scene, and what came of it."""
        w = self._waiting
        for name, values in w.items():
            w[name] = np.roll(values, -1, axis=0)
        w['state'][-1], w['action'][-1], w['alpha'][-1] = state, action, alpha
        w['reward'][-1], w['discount'][-1], w['live'][-1] = 0.0, 1.0, True
        w['reward'] += w['discount'] * reward
        w['discount'] *= discount
        for k in range(self._n):
            ready = w['live'][k] & (done | (k == 0))
            if ready.any():
                self._replay.add(w['state'][k, ready], next_state[ready], action=w['action'][k, ready],
                                 reward=w['reward'][k, ready], discount=w['discount'][k, ready], done=done[ready],
                                 alpha=w['alpha'][k, ready], outcome=outcome[ready])
            w['live'][k] &= ~ready

    def state(self) -> dict[str, NDArray]:
        """For a checkpoint."""
        return self._waiting

    def restore(self, state: dict[str, NDArray]) -> None:
        """From a checkpoint."""
        for name, values in self._waiting.items():
            values[:] = state[name]
