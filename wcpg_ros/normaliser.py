"""Running mean and variance of observations; the model file carries the last ones, frozen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A feature that hardly varies in training must not turn a small novelty into a huge input.
STD_FLOOR = 1e-2


class Normaliser:
    """Mean and variance over everything seen so far, exact however it arrives (Chan's pairwise update)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self._mean = np.zeros(size)
        self._square = np.zeros(size)   # sum of squared differences from the mean
        self.mean = np.zeros(size, np.float32)
        self.std = np.ones(size, np.float32)

    @classmethod
    def fixed(cls, mean: NDArray[np.float32], std: NDArray[np.float32]) -> Normaliser:
        """As a model file carries it."""
        normaliser = cls(len(mean))
        normaliser.mean, normaliser.std = mean, std
        return normaliser

    def update(self, observations: NDArray[np.float32]) -> None:
        """Take in a batch, one observation per row."""
        batch = observations.astype(np.float64)
        total = self.count + len(batch)
        difference = batch.mean(axis=0) - self._mean
        self._mean += difference * len(batch) / total
        self._square += ((batch - batch.mean(axis=0)) ** 2).sum(axis=0)
        self._square += difference ** 2 * self.count * len(batch) / total
        self.count = total
        self._publish()

    def columns(self, observations: NDArray[np.float32], clip: float) -> NDArray[np.float32]:
        """Normalised, clipped to ± clip, one observation per column, as the networks read them."""
        return np.ascontiguousarray(np.clip((observations - self.mean) / self.std, -clip, clip).T, dtype=np.float32)

    def _publish(self) -> None:
        self.mean = self._mean.astype(np.float32)
        self.std = np.maximum(np.sqrt(self._square / self.count), STD_FLOOR).astype(np.float32)

    def state(self) -> dict[str, NDArray]:
        """For a checkpoint."""
        return {'count': np.array(self.count), 'mean': self._mean, 'square': self._square}

    def restore(self, state: dict[str, NDArray]) -> None:
        """From a checkpoint."""
        self.count = int(state['count'])
        self._mean[:] = state['mean']
        self._square[:] = state['square']
        if self.count:
            self._publish()
