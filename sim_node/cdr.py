"""The wire form (CDR, little endian) of the messages that carry states, packed straight from numbers and read back.

Building message objects for ten vehicles costs a hundred times what packing their numbers does; the bytes are the
same (tested against rclpy's own serialisation). The simulator node publishes them, and the recorder writes them; the
policy node reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

_ENCAPSULATION = b'\x00\x01\x00\x00'     # plain CDR, little endian, no options
_NANOSECONDS = 1_000_000_000


class Writer:
    """Appends primitive values, each aligned to its own size, as CDR asks."""

    def __init__(self) -> None:
        self._parts = [_ENCAPSULATION]
        self._size = 0

    def _append(self, data: bytes, alignment: int) -> None:
        padding = -self._size % alignment
        self._parts.append(bytes(padding))
        self._parts.append(data)
        self._size += padding + len(data)

    def uint32(self, value: int) -> None:
        """An unsigned integer, or the length of a sequence."""
        self._append(struct.pack('<I', value), 4)

    def string(self, text: str) -> None:
        """A string with its length and its closing zero."""
        data = text.encode() + b'\x00'
        self.uint32(len(data))
        self._append(data, 1)

    def float64s(self, values: np.ndarray | Sequence[float]) -> None:
        """Numbers one after the other, without a length."""
        data = np.asarray(values, dtype='<f8').tobytes()
        if data:
            self._append(data, 8)

    def stamp(self, nanoseconds: int) -> None:
        """A time since the epoch."""
        self._append(struct.pack('<iI', nanoseconds // _NANOSECONDS, nanoseconds % _NANOSECONDS), 4)

    def header(self, nanoseconds: int, frame: str) -> None:
        """A std_msgs/Header."""
        self.stamp(nanoseconds)
        self.string(frame)

    def finish(self) -> bytes:
        """The whole message."""
        return b''.join(self._parts)


class CdrError(ValueError):
    """Bytes that are not the message they should be."""


class Reader:
    """Reads primitive values one after the other, in the byte order that the message names."""

    def __init__(self, data: bytes) -> None:
        if len(data) < len(_ENCAPSULATION) or data[0] != 0 or data[1] > 1:
            raise CdrError('not plain CDR')
        self._data = data
        self._order = '<' if data[1] else '>'
        self._at = self._start = len(_ENCAPSULATION)

    def _take(self, size: int, alignment: int) -> int:
        """Go on by `size` bytes; gives where they begin."""
        begin = self._at + -(self._at - self._start) % alignment
        self._at = begin + size
        if self._at > len(self._data):
            raise CdrError('cut short')
        return begin

    def uint32(self) -> int:
        """An unsigned integer, or the length of a sequence."""
        return struct.unpack_from(self._order + 'I', self._data, self._take(4, 4))[0]

    def string(self) -> str:
        """A string."""
        size = self.uint32()
        begin = self._take(size, 1)
        return self._data[begin:max(begin + size - 1, begin)].decode(errors='replace')

    def float64s(self, rows: int, columns: int) -> np.ndarray:
        """A table of numbers."""
        if not rows:
            return np.zeros((0, columns))
        begin = self._take(8 * rows * columns, 8)
        return np.frombuffer(self._data, self._order + 'f8', rows * columns, begin).reshape(rows, columns)

    def stamp(self) -> int:
        """A time since the epoch, ns."""
        seconds, nanoseconds = struct.unpack_from(self._order + 'iI', self._data, self._take(8, 4))
        return seconds * _NANOSECONDS + nanoseconds


def clock(nanoseconds: int) -> bytes:
    """A rosgraph_msgs/Clock."""
    writer = Writer()
    writer.stamp(nanoseconds)
    return writer.finish()


def odometry(nanoseconds: int, frame: str, child_frame: str, state: np.ndarray) -> bytes:
    """A nav_msgs/Odometry of a plain state (x, y, heading, speed)."""
    x, y, heading, speed = state
    writer = Writer()
    writer.header(nanoseconds, frame)
    writer.string(child_frame)
    numbers = np.zeros(7 + 36 + 6 + 36)
    numbers[:7] = x, y, 0.0, 0.0, 0.0, np.sin(heading / 2), np.cos(heading / 2)
    numbers[43] = speed
    writer.float64s(numbers)
    return writer.finish()


def vehicles(nanoseconds: int, frame: str, names: Sequence[str], states: np.ndarray) -> bytes:
    """A sensor_msgs/MultiDOFJointState of plain states, a row (x, y, heading, speed) each."""
    writer = Writer()
    writer.header(nanoseconds, frame)
    writer.uint32(len(names))
    for name in names:
        writer.string(name)
    transforms, twists = np.zeros((len(names), 7)), np.zeros((len(names), 6))
    transforms[:, 0], transforms[:, 1] = states[:, 0], states[:, 1]
    transforms[:, 5], transforms[:, 6] = np.sin(states[:, 2] / 2), np.cos(states[:, 2] / 2)
    twists[:, 0] = states[:, 3]
    for rows in (transforms, twists):
        writer.uint32(len(names))
        writer.float64s(rows)
    writer.uint32(0)     # no wrenches
    return writer.finish()


def acceleration(nanoseconds: int, frame: str, value: float) -> bytes:
    """A geometry_msgs/AccelStamped of a longitudinal acceleration."""
    writer = Writer()
    writer.header(nanoseconds, frame)
    writer.float64s([value, 0.0, 0.0, 0.0, 0.0, 0.0])
    return writer.finish()
