"""Seeded random numbers: one seed per episode, split into streams that never disturb each other.

The generator is splitmix64 (Steele, Lea and Flood 2014): a counter that is mixed. A stream is the pair of the
episode's seed and the stream's number, so the traffic of seed 7 is the same whatever ego's start has consumed.
"""

from __future__ import annotations

import numpy as np

from sim_node.compiled import compiled

EGO_START, BIRTHS, TEMPERS = 0, 1, 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_DROP = np.uint64(11)
_TO_UNIT = 2.0 ** -53


def mix(z):
    """Scramble 64 bits."""
    z = (z ^ (z >> _SHIFTS[0])) * _MIX_1
    z = (z ^ (z >> _SHIFTS[1])) * _MIX_2
    return z ^ (z >> _SHIFTS[2])


def stream(seed, number):
    """The start of a stream: its state, to be handed to `uniform` with the count of numbers drawn."""
    return mix(mix(np.uint64(seed) + _GOLDEN) + np.uint64(number) * _GOLDEN)


def uniform(state, count):
    """Number `count` of a stream, in [0, 1)."""
    return np.float64(mix(state + (np.uint64(count) + np.uint64(1)) * _GOLDEN) >> _DROP) * _TO_UNIT


mix, stream, uniform = compiled(mix, stream, uniform)
