"""The numbers in a bag's serialized messages (CDR), taken out one by one where they are needed. No ROS, no objects.

A message that does not hold what it should raises MalformedError.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from sim_node.episode_result import EpisodeResult
from sim_node.markers import ADD, CUBE
from wcpg_ros.conversions import NANOSECONDS, RISK_FIELDS, heading

_START = 4                     # bytes of encapsulation, from which alignment counts
_TIME = struct.Struct('<iI')
_SOUND_QUATERNION = 0.01       # how far from 1 the length may be


class MalformedError(ValueError):
    """A message whose bytes or numbers are not what its type says."""


class Cursor:
    """Reads a message from its beginning."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _START or data[0] != 0 or data[1] > 1:
            raise MalformedError('not plain CDR')
        self._data = data
        self._order = '<' if data[1] else '>'
        self._at = _START

    def _place(self, size: int, alignment: int) -> int:
        start = self._at + -(self._at - _START) % alignment
        if start + size > len(self._data):
            raise MalformedError('cut short')
        self._at = start + size
        return start

    def unpack(self, kinds: str, alignment: int) -> tuple:
        """Values of one size after another."""
        form = self._order + kinds
        return struct.unpack_from(form, self._data, self._place(struct.calcsize(form), alignment))

    def uint32(self) -> int:
        """A number, or the length of a sequence."""
        return self.unpack('I', 4)[0]

    def stamp(self) -> int:
        """A time, ns."""
        seconds, nanoseconds = self.unpack('iI', 4)
        return seconds * NANOSECONDS + nanoseconds

    def text(self) -> str:
        """A string."""
        size = self.uint32()
        start = self._place(size, 1)
        return self._data[start:start + size - 1].decode(errors='replace') if size else ''

    def skip_text(self) -> None:
        """A string that nobody wants."""
        self._place(self.uint32(), 1)

    def skip(self, size: int, alignment: int) -> None:
        """Values that nobody wants."""
        self._place(size, alignment)

    def numbers(self, count: int) -> np.ndarray:
        """Float64 values one after the other."""
        if not count:
            return np.zeros(0)
        return np.frombuffer(self._data, f'{self._order}f8', count, self._place(8 * count, 8))


def header_stamp(data: bytes) -> int:
    """The stamp (ns) of a message that begins with a header."""
    if len(data) >= 12 and data[1] == 1:     # as nearly always
        seconds, nanoseconds = _TIME.unpack_from(data, _START)
        return seconds * NANOSECONDS + nanoseconds
    return Cursor(data).stamp()


def ego_state(data: bytes) -> tuple[float, float, float, float]:
    """x, y, heading, speed from a nav_msgs/Odometry."""
    cursor = Cursor(data)
    cursor.stamp()
    cursor.skip_text()
    cursor.skip_text()
    x, y, _, *quaternion = cursor.unpack('7d', 8)
    cursor.skip(36 * 8, 8)
    speed = cursor.unpack('d', 8)[0]
    if not (math.isfinite(x + y + speed) and abs(math.hypot(*quaternion) - 1.0) < _SOUND_QUATERNION):
        raise MalformedError('a pose or a speed that is none')
    return x, y, heading(*quaternion), speed


def vehicle_states(data: bytes) -> tuple[list[str], np.ndarray]:
    """Names, and x, y, heading, speed in a row each, from a sensor_msgs/MultiDOFJointState."""
    cursor = Cursor(data)
    cursor.stamp()
    cursor.skip_text()
    names = [cursor.text() for _ in range(cursor.uint32())]
    poses = cursor.numbers(7 * cursor.uint32()).reshape(-1, 7)
    twists = cursor.numbers(6 * cursor.uint32()).reshape(-1, 6)
    if not len(names) == len(poses) == len(twists):
        raise MalformedError('names, transforms and twists of different numbers')
    states = np.empty((len(names), 4))
    states[:, :2], states[:, 3] = poses[:, :2], twists[:, 0]
    x, y, z, w = poses[:, 3:].T
    states[:, 2] = np.where((x == 0.0) & (y == 0.0), 2.0 * np.arctan2(z, w),
                            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
    lengths = np.sqrt((poses[:, 3:] ** 2).sum(axis=1))
    if not (np.isfinite(states).all() and (np.abs(lengths - 1.0) < _SOUND_QUATERNION).all()):
        raise MalformedError('a pose or a speed that is none')
    return names, states


def acceleration(data: bytes) -> float:
    """m/s², from a geometry_msgs/AccelStamped."""
    cursor = Cursor(data)
    cursor.stamp()
    cursor.skip_text()
    value = cursor.unpack('d', 8)[0]
    if not math.isfinite(value):
        raise MalformedError('an acceleration that is none')
    return value


def risk_level(data: bytes) -> tuple[int, float]:
    """The stamp (ns) of a decision and its alpha, from a labelled std_msgs/Float64MultiArray."""
    cursor = Cursor(data)
    labels = []
    for _ in range(cursor.uint32()):
        labels.append(cursor.text())
        cursor.skip(8, 4)
    cursor.skip(4, 4)
    values = cursor.numbers(cursor.uint32())
    fields = labels[0].split(',') if labels else []
    if len(fields) != len(values) or not {'stamp', 'alpha'} <= set(fields):
        raise MalformedError(f'a label that does not name {", ".join(RISK_FIELDS)}')
    return round(values[fields.index('stamp')] * NANOSECONDS), float(values[fields.index('alpha')])


def episode_results(data: bytes) -> list[EpisodeResult]:
    """The ended episodes that a diagnostic_msgs/DiagnosticArray tells of."""
    cursor = Cursor(data)
    cursor.stamp()
    cursor.skip_text()
    results = []
    for _ in range(cursor.uint32()):
        cursor.skip(1, 1)
        for _ in range(3):
            cursor.skip_text()
        texts = {cursor.text(): cursor.text() for _ in range(cursor.uint32())}
        try:
            results.append(EpisodeResult.from_texts(texts))
        except (KeyError, ValueError) as error:
            raise MalformedError(f'no result of an episode ({error})') from None
    return results


def box_sizes(data: bytes) -> dict[tuple[str, int], tuple[float, float]]:
    """Length and width of the boxes in a visualization_msgs/MarkerArray, by namespace and number."""
    cursor = Cursor(data)
    sizes = {}
    for _ in range(cursor.uint32()):
        cursor.stamp()
        cursor.skip_text()
        namespace = cursor.text()
        number, kind, action = cursor.unpack('3i', 4)
        length, width, _ = cursor.unpack('10d', 8)[7:]
        if kind == CUBE and action == ADD:
            sizes[namespace, number] = (length, width)
        cursor.skip(4 * 4 + 8 + 1, 4)                    # colour, lifetime, locked
        for size, alignment in ((24, 8), (16, 4)):       # points, colours
            count = cursor.uint32()
            cursor.skip(size * count, alignment if count else 1)
        cursor.skip_text()                               # texture: resource, header, format, data
        cursor.stamp()
        cursor.skip_text()
        cursor.skip_text()
        cursor.skip(cursor.uint32(), 1)
        cursor.skip(8 * cursor.uint32(), 4)              # its coordinates
        for _ in range(3):                               # text, mesh and its file's name
            cursor.skip_text()
        cursor.skip(cursor.uint32(), 1)                  # that file
        cursor.skip(1, 1)
    return sizes
