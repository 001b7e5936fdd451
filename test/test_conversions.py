"""States read straight from bytes: what rclpy writes, in either byte order, and nothing else."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from node_probe import odometry, vehicles
from rclpy.serialization import serialize_message

from sim_node.cdr import CdrError
from wcpg_ros.conversions import heading, read_odometry, read_vehicles

SECOND = 1_000_000_000


def test_odometry_as_rclpy_writes_it() -> None:
    message = odometry(12 * SECOND + 345, x=1.5, y=-2.5, speed=7.25, heading=0.8)
    message.twist.twist.angular.z = 0.125
    message.pose.covariance[0] = 9.0
    reading = read_odometry(serialize_message(message))
    assert (reading.stamp, reading.frame, reading.child_frame) == (12 * SECOND + 345, 'map', 'base_link')
    assert reading.poses.tolist() == [[1.5, -2.5, 0.0, 0.0, 0.0, math.sin(0.4), math.cos(0.4)]]
    assert reading.twists.tolist() == [[7.25, 0.0, 0.0, 0.0, 0.0, 0.125]]
    assert reading.states()[0] == pytest.approx([1.5, -2.5, 0.8, 7.25], abs=1e-15)


@pytest.mark.parametrize('count', [0, 1, 2, 7])
def test_vehicles_as_rclpy_writes_them(count: int) -> None:
    message = vehicles(-3 * SECOND, count)
    reading = read_vehicles(serialize_message(message))
    assert (reading.stamp, reading.frame, reading.names) == (-3 * SECOND, 'map', list(message.joint_names))
    assert reading.poses.shape == (count, 7)
    assert reading.poses[:, 1].tolist() == [30.0 + 20.0 * i for i in range(count)]
    assert reading.twists[:, 0].tolist() == [12.0] * count


def test_unequal_arrays_are_read_as_they_are() -> None:
    message = vehicles(0, 3)
    message.twist = message.twist[:1]
    message.joint_names = ['ein', 'zwei ü']
    reading = read_vehicles(serialize_message(message))
    assert (reading.names, len(reading.poses), len(reading.twists)) == (['ein', 'zwei ü'], 3, 1)


def test_the_other_byte_order_is_read_too() -> None:
    frames = struct.pack('>II', 5, 6) + struct.pack('>I4s', 4, b'map\x00') + struct.pack('>I10s', 10, b'base_link\x00')
    numbers = np.arange(85, dtype='>f8').tobytes()
    data = b'\x00\x00\x00\x00' + frames + bytes(-len(frames) % 8) + numbers
    reading = read_odometry(data)
    assert (reading.stamp, reading.frame, reading.child_frame) == (5 * SECOND + 6, 'map', 'base_link')
    assert reading.poses.tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert reading.twists.tolist() == [[43, 44, 45, 46, 47, 48]]


def test_every_shortened_message_is_refused() -> None:
    for read, message in ((read_odometry, odometry(0)), (read_vehicles, vehicles(0))):
        data = serialize_message(message)
        for size in range(len(data)):
            with pytest.raises(CdrError):
                read(data[:size])


def test_a_length_beyond_the_message_is_refused_at_once() -> None:
    data = bytearray(serialize_message(vehicles(0)))
    data[20:24] = struct.pack('<I', 2**32 - 1)     # the number of names
    with pytest.raises(CdrError, match='cut short'):
        read_vehicles(bytes(data))
    with pytest.raises(CdrError, match='not plain CDR'):
        read_vehicles(b'\x00\x07\x00\x00' + bytes(data[4:]))


@pytest.mark.parametrize('angle', [-3.1, -math.pi / 2, 0.0, 1e-9, 0.3, 3.1])
def test_heading_of_a_flat_and_of_a_tilted_quaternion(angle: float) -> None:
    assert heading(0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2)) == pytest.approx(angle, abs=1e-15)
    roll = 0.2     # about the vehicle's own axis: heading stays
    x, w = math.sin(roll / 2), math.cos(roll / 2)
    z, c = math.sin(angle / 2), math.cos(angle / 2)
    assert heading(c * x, z * x, z * w, c * w) == pytest.approx(angle, abs=1e-12)
