"""The numbers in a bag's serialized messages (CDR), taken out one by one where they are needed. No ROS, no objects.

A message that does not hold what it should raises CdrError.
"""

from __future__ import annotations

import struct

import numpy as np

from sim_node.cdr import CdrError, Reader
from sim_node.episode_result import EpisodeResult
from sim_node.markers import ADD, CUBE
from wcpg_ros.conversions import NANOSECONDS, RISK_FIELDS, Reading, read_odometry, read_vehicles

_TIME = struct.Struct('<iI')
_TIME_AT = 4                   # bytes of encapsulation before it
_SOUND_QUATERNION = 0.01       # how far from 1 its length may be


def header_stamp(data: bytes) -> int:
    """The stamp (ns) of a message that begins with a header."""
    if len(data) >= _TIME_AT + _TIME.size and data[0] == 0 and data[1] == 1:     # as nearly always
        seconds, nanoseconds = _TIME.unpack_from(data, _TIME_AT)
        return seconds * NANOSECONDS + nanoseconds
    return Reader(data).stamp()


def ego_state(data: bytes) -> np.ndarray:
    """x, y, heading, speed from a nav_msgs/Odometry."""
    return _states(read_odometry(data))[0]


def ego_position(data: bytes) -> tuple[float, float]:
    """x and y from a nav_msgs/Odometry, and nothing else of it."""
    reader = Reader(data)
    reader.stamp()
    reader.skip_string()
    reader.skip_string()
    x, y = reader.float64s(1, 2)[0].tolist()
    return x, y


def vehicle_states(data: bytes) -> tuple[list[str], np.ndarray]:
    """Names, and x, y, heading, speed in a row each, from a sensor_msgs/MultiDOFJointState."""
    reading = read_vehicles(data)
    if not len(reading.names) == len(reading.poses) == len(reading.twists):
        raise CdrError('names, transforms and twists of different numbers')
    return reading.names, _states(reading)


def _states(reading: Reading) -> np.ndarray:
    lengths = np.sqrt((reading.poses[:, 3:] ** 2).sum(axis=1))
    states = reading.states()
    if not (np.isfinite(states).all() and (np.abs(lengths - 1.0) < _SOUND_QUATERNION).all()):
        raise CdrError('a pose or a speed that is none')
    return states


def acceleration(data: bytes) -> float:
    """m/s², from a geometry_msgs/AccelStamped."""
    reader = Reader(data)
    reader.stamp()
    reader.skip_string()
    value = float(reader.float64s(1, 6)[0, 0])
    if not np.isfinite(value):
        raise CdrError('an acceleration that is none')
    return value


def risk_level(data: bytes) -> tuple[int, float]:
    """The stamp (ns) of a decision and its alpha, from a labelled std_msgs/Float64MultiArray."""
    reader = Reader(data)
    labels = []
    for _ in range(reader.uint32()):
        labels.append(reader.string())
        reader.skip(8, 4)
    reader.skip(4, 4)
    values = reader.float64s(reader.uint32(), 1)[:, 0]
    fields = labels[0].split(',') if labels else []
    if len(fields) != len(values) or not {'stamp', 'alpha'} <= set(fields):
        raise CdrError(f'a label that does not name {", ".join(RISK_FIELDS)}')
    return round(values[fields.index('stamp')] * NANOSECONDS), float(values[fields.index('alpha')])


def episode_results(data: bytes) -> list[EpisodeResult]:
    """The ended episodes that a diagnostic_msgs/DiagnosticArray tells of."""
    reader = Reader(data)
    reader.stamp()
    reader.skip_string()
    results = []
    for _ in range(reader.uint32()):
        reader.skip(1)
        for _ in range(3):
            reader.skip_string()
        texts = {reader.string(): reader.string() for _ in range(reader.uint32())}
        try:
            results.append(EpisodeResult.from_texts(texts))
        except (KeyError, ValueError) as error:
            raise CdrError(f'no result of an episode ({error})') from None
    return results


def box_sizes(data: bytes) -> dict[tuple[str, int], tuple[float, float]]:
    """Length and width of the boxes in a visualization_msgs/MarkerArray, by namespace and number."""
    reader = Reader(data)
    sizes = {}
    for _ in range(reader.uint32()):
        reader.stamp()
        reader.skip_string()
        namespace = reader.string()
        number, kind, action = reader.int32s(3)
        length, width = reader.float64s(1, 10)[0, 7:9].tolist()
        if kind == CUBE and action == ADD and length > 0.0 and width > 0.0:
            sizes[namespace, number] = (length, width)
        reader.skip(4 * 4 + 8 + 1, 4)                    # colour, lifetime, locked
        for size, alignment in ((24, 8), (16, 4)):       # points, colours
            count = reader.uint32()
            reader.skip(size * count, alignment if count else 1)
        reader.skip_string()                               # texture: resource, header, format, data
        reader.stamp()
        reader.skip_string()
        reader.skip_string()
        reader.skip(reader.uint32())
        reader.skip(8 * reader.uint32(), 4)              # its coordinates
        for _ in range(3):                               # text, mesh and its file's name
            reader.skip_string()
        reader.skip(reader.uint32())                  # that file
        reader.skip(1)
    return sizes
