"""The wire form (CDR, little endian) of the messages that are sent often, packed straight from numbers and read back.

Building message objects for ten vehicles costs a hundred times what packing their numbers does; the bytes are the
same (tested against rclpy's own serialisation). The nodes publish and read them, and so do bags, without ROS.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

_ENCAPSULATION = b'\x00\x01\x00\x00'     # plain CDR, little endian, no options
_NANOSECONDS = 1_000_000_000
_NO_COVARIANCE = bytes(36 * 8)


class Writer:
    """Appends primitive values, each aligned to its own size, as CDR asks."""

    def __init__(self) -> None:
        self._parts = [_ENCAPSULATION]
        self._size = 0

    def packed(self, data: bytes, alignment: int) -> None:
        """Bytes that are packed already, aligned as their first value asks."""
        padding = -self._size % alignment
        self._parts.append(data if not padding else bytes(padding) + data)
        self._size += padding + len(data)

    def uint32(self, value: int) -> None:
        """An unsigned integer, or the length of a sequence."""
        self.packed(struct.pack('<I', value), 4)

    def int32s(self, *values: int) -> None:
        """Signed integers one after the other."""
        self.packed(struct.pack(f'<{len(values)}i', *values), 4)

    def string(self, text: str) -> None:
        """A string with its length and its closing zero."""
        data = text.encode() + b'\x00'
        self.packed(struct.pack('<I', len(data)) + data, 4)

    def float64s(self, values: np.ndarray | Sequence[float]) -> None:
        """Numbers one after the other, without a length."""
        data = np.asarray(values, dtype='<f8').tobytes()
        if data:
            self.packed(data, 8)

    def stamp(self, nanoseconds: int) -> None:
        """A time since the epoch."""
        self.packed(struct.pack('<iI', nanoseconds // _NANOSECONDS, nanoseconds % _NANOSECONDS), 4)

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

    def int32s(self, count: int) -> tuple[int, ...]:
        """Signed integers one after the other."""
        return struct.unpack_from(f'{self._order}{count}i', self._data, self._take(4 * count, 4))

    def skip(self, size: int, alignment: int = 1) -> None:
        """Bytes that nobody wants."""
        self._take(size, alignment)

    def skip_string(self) -> None:
        """A string that nobody wants."""
        self._take(self.uint32(), 1)


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
    pose = struct.pack('<7d', x, y, 0.0, 0.0, 0.0, np.sin(heading / 2), np.cos(heading / 2))
    writer.packed(pose + _NO_COVARIANCE + struct.pack('<6d', speed, 0.0, 0.0, 0.0, 0.0, 0.0) + _NO_COVARIANCE, 8)
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


def status(nanoseconds: int, name: str, hardware: str, level: int, message: str, values: Mapping[str, object]) -> bytes:
    """A diagnostic_msgs/DiagnosticArray of one status."""
    writer = Writer()
    writer.header(nanoseconds, '')
    writer.uint32(1)
    writer.packed(bytes([level]), 1)
    for text in (name, message, hardware):
        writer.string(text)
    writer.uint32(len(values))
    for key, value in values.items():
        writer.string(key)
        writer.string(str(value))
    return writer.finish()


def numbers(fields: Sequence[str], values: Sequence[float]) -> bytes:
    """A std_msgs/Float64MultiArray whose label names each of its numbers."""
    writer = Writer()
    writer.uint32(1)
    writer.string(','.join(fields))
    for size in (len(fields), 1, 0, len(values)):     # size and stride, the offset of the data, their number
        writer.uint32(size)
    writer.float64s(values)
    return writer.finish()
