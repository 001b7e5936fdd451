"""Ten thousand damaged messages on every input topic of both nodes: no crash, no wild command, every one counted.

A damaged message is published as bytes. The policy node reads bytes, and must count every one under exactly the kind
that the checks give it. The simulator wants objects: what rclpy cannot read (found out here with the same reader)
vanishes below it, every other command must be counted.
"""

from __future__ import annotations

import contextlib
import math
import random
import struct
from collections.abc import Callable

import numpy as np
from geometry_msgs.msg import AccelStamped
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from nav_msgs.msg import Odometry
from node_probe import COMMAND, ODOMETRY, VEHICLES, Nodes, Probe, nanoseconds
from rcl_interfaces.srv import GetParameters
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import MultiDOFJointState
from std_srvs.srv import SetBool

from sim_node import cdr, guards
from sim_node.cdr import CdrError
from wcpg_ros.conversions import read_odometry, read_vehicles
from wcpg_ros.safety import check_odometry, check_vehicles

MESSAGES = 10_000          # to each topic
AT_ONCE = 100              # messages in an example of hypothesis
ENCAPSULATION = 4          # bytes that belong to DDS, not to the message
HEADER = 12                # bytes with the stamp, which is damaged last: one stamp can outdate all that follow
SPECIAL = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -1.0, 2.0]

def damaged(good: bytes, chance: random.Random, first: int) -> bytes:
    """A message with one damage, nowhere before byte `first`."""
    at = chance.randrange(first, len(good))
    data = bytearray(good)
    kind = chance.choice(['bit', 'bytes', 'float', 'cut', 'longer'])
    if kind == 'bit':
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 'bytes':
        data[at:at + 16] = chance.randbytes(min(chance.randint(1, 16), len(data) - at))
    elif kind == 'float':
        at = min(ENCAPSULATION + (at - ENCAPSULATION) // 8 * 8, len(data) - 8)
        data[at:at + 8] = struct.pack('<d', chance.choice(SPECIAL))
    elif kind == 'cut':
        del data[at:]
    else:
        data += chance.randbytes(chance.randint(1, 40))
    return bytes(data) + bytes(-len(data) % 4)     # as DDS would fill it up


class Topic:
    """One input of a node: what the test sends there, and what the node must have counted."""

    def __init__(self, probe: Probe, kind: type, name: str, good: bytes,
                 judge: Callable[[bytes], tuple[int, guards.Problem | None]]) -> None:
        self.good, self._judge = good, judge
        self.out = probe.speak(kind, name)
        self.expected = guards.InputGuard(name.removeprefix('/world')[1:], math.inf)
        self.sent = 0

    def send(self, data: bytes) -> None:
        self.sent += 1
        self.out.publish(data)
        with contextlib.suppress(Unheard):
            self.expected.offer(*self._judge(data))


class Unheard(Exception):
    """What rclpy cannot read never reaches a node that wants objects."""


def judge_odometry(data: bytes) -> tuple[int, guards.Problem | None]:
    try:
        reading = read_odometry(data)
    except CdrError as error:
        return 0, guards.Problem(guards.UNREADABLE, str(error))
    pose, twist = reading.poses[0], reading.twists[0]
    return reading.stamp, check_odometry(reading.frame, reading.child_frame, pose[:3], pose[3:], twist[:3], twist[3:])


def judge_vehicles(data: bytes) -> tuple[int, guards.Problem | None]:
    try:
        reading = read_vehicles(data)
    except CdrError as error:
        return 0, guards.Problem(guards.UNREADABLE, str(error))
    poses, twists = reading.poses, reading.twists
    return reading.stamp, check_vehicles(reading.frame, reading.names, poses[:, :3], poses[:, 3:], twists[:, :3],
                                         twists[:, 3:])


def judge_command(data: bytes) -> tuple[int, guards.Problem | None]:
    try:
        message = deserialize_message(data, AccelStamped)
    except Exception as error:
        raise Unheard from error
    stamp = nanoseconds(message)
    return stamp, (guards.check_command(message.header.frame_id, message.accel.linear.x)
                   or guards.check_not_ahead(stamp, 0))


def test_ten_thousand_damaged_messages_on_every_input(nodes: Nodes, probe: Probe) -> None:
    # The simulator in a namespace of its own, so that each node hears the test alone.
    running = {'sim': nodes.sim('__ns:=/world'), 'wcpg': nodes.wcpg(stale_after=3600.0)}
    states = np.array([[-1.75, 40.0, -1.57, 12.0], [-5.25, 60.0, -1.57, 14.0]])
    topics = [
        Topic(probe, Odometry, ODOMETRY, cdr.odometry(0, 'map', 'base_link', np.array([1.75, -40.0, 1.57, 8.0])),
              judge_odometry),
        Topic(probe, MultiDOFJointState, VEHICLES, cdr.vehicles(0, 'map', ['vehicle_0', 'vehicle_1'], states),
              judge_vehicles),
        Topic(probe, AccelStamped, f'/world{COMMAND}', cdr.acceleration(0, 'base_link', 1.0), judge_command),
    ]
    probe.call(SetBool, '/world/sim/run', SetBool.Request(data=False))     # the state at 0 s, whatever comes
    commands, shown = probe.listen(AccelStamped, COMMAND), probe.listen(Odometry, f'/world{ODOMETRY}')

    clients = [probe.node.create_client(GetParameters, f'{name}/get_parameters') for name in ('/world/sim', '/wcpg')]
    probe.until(lambda: all(client.service_is_ready() for client in clients), 'both nodes are there')

    def send(messages: list[bytes]) -> None:
        """To each topic one, and wait until the nodes have dealt with them: they keep only the newest.

        Messages arrive in the order in which they are sent, and the nodes take them in that order, so that an answer
        to a later question is enough.
        """
        for topic, data in zip(topics, messages, strict=True):
            topic.send(data)
        answers = [client.call_async(GetParameters.Request()) for client in clients]
        probe.until(lambda: all(answer.done() for answer in answers), 'both nodes answer')

    @settings(max_examples=MESSAGES // AT_ONCE, phases=[Phase.generate], derandomize=True, database=None, deadline=None)
    @given(seed=st.integers(0, 2**64 - 1))
    def send_damaged(seed: int) -> None:
        chance = random.Random(seed)
        first = HEADER if topics[0].sent < 0.95 * MESSAGES else ENCAPSULATION
        for _ in range(AT_ONCE):
            send([damaged(topic.good, chance, first) for topic in topics])

    send([topic.good for topic in topics])
    send_damaged()
    for process in running.values():
        assert process.process.poll() is None, process.text
        assert 'Traceback' not in process.text
    assert all(math.isfinite(message.accel.linear.x) and abs(message.accel.linear.x) <= 4.0 for message in commands)
    assert len(commands) > MESSAGES / 100     # many a damage leaves a message valid
    assert all(math.isfinite(message.pose.pose.position.y) for message in shown)
    for topic, node in zip(topics, ('wcpg', 'wcpg', 'sim'), strict=True):
        assert topic.sent == MESSAGES + 1
        counters = topic.expected.status()
        assert len(counters) > 2
        counted = probe.health(node)
        assert {key: value for key, value in counted.items() if key.startswith(topic.expected.name)} == counters
