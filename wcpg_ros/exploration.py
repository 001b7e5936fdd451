"""How training's actions differ from the actor's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wcpg_ros.networks import Array
from wcpg_ros.settings import ExplorationSettings


class Exploration:
    """Gaussian noise every decision, and now and then full throttle or full braking held for a while.

    Noise that is fresh every 0.4 s averages out: a car that dithers never learns what going through with it brings.
    But a car that is thrown about all the time hardly sees where its own policy leads: spread over the scenes, both
    are learnt from.
    """

    def __init__(self, settings: ExplorationSettings, scenes: int, bound: float, rng: np.random.Generator) -> None:
        self._settings = settings
        self._bound = bound
        self._rng = rng
        self._strength = (np.arange(scenes) + 1.0) / scenes if settings.spread else np.ones(scenes)
        self._held = np.zeros(scenes, np.float32)       # m/s²
        self._left = np.zeros(scenes, np.int64)         # decisions for which it is still held

    def random(self) -> Array:
        """Uniform actions."""
        return self._rng.uniform(-self._bound, self._bound, self._held.size).astype(np.float32)

    def perturb(self, actions: Array) -> Array:
        """The actor's actions, changed."""
        s, n = self._settings, self._held.size
        noise = s.noise_std * self._strength * self._rng.standard_normal(n)
        noisy = np.clip(actions + noise, -self._bound, self._bound)
        if s.hold_probability:
            starts = (self._left == 0) & (self._rng.random(n) < s.hold_probability * self._strength)
            signs = np.where(self._rng.random(n) < 0.5, -1.0, 1.0)
            lengths = self._rng.geometric(1.0 / s.hold_decisions, n)
            self._held[starts] = (self._bound * signs)[starts]
            self._left[starts] = lengths[starts]
            noisy = np.where(self._left > 0, self._held, noisy)
            self._left = np.maximum(self._left - 1, 0)
        return noisy.astype(np.float32)

    def end(self, done: NDArray[np.bool_]) -> None:
        """Let go where an episode ended."""
        self._left[done] = 0

    def state(self) -> dict[str, NDArray]:
        """For a checkpoint; the random stream is the caller's."""
        return {'held': self._held, 'left': self._left}

    def restore(self, state: dict[str, NDArray]) -> None:
        """From a checkpoint."""
        self._held[:], self._left[:] = state['held'], state['left']
