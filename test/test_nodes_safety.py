"""The policy node between bad states and the road, through real topics."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from node_probe import COMMAND, ODOMETRY, VEHICLES, Nodes, Probe, nanoseconds, odometry, vehicles
from sensor_msgs.msg import MultiDOFJointState

from sim_node import guards
from wcpg_ros.domain import STANDALONE, Ros, Running, shared_ports
from wcpg_ros.safety import Safety

SECOND = 1_000_000_000
NAN, INFINITY = float('nan'), float('inf')


class Driven:
    """A policy node that the test shows states to."""

    def __init__(self, nodes: Nodes, probe: Probe, **parameters: Any) -> None:
        self.probe = probe
        self.commands = probe.listen(AccelStamped, COMMAND)
        self.process: Running = nodes.wcpg(**parameters)
        self.odometry, self.vehicles = probe.speak(Odometry, ODOMETRY), probe.speak(MultiDOFJointState, VEHICLES)
        probe.until(lambda: probe.node.count_publishers(COMMAND), 'the policy speaks')

    def show(self, stamp: int) -> None:
        self.odometry.publish(odometry(stamp))
        self.vehicles.publish(vehicles(stamp))

    def answer(self, stamp: int) -> float:
        """Show a state and wait for the command that answers it."""
        before = len(self.commands)
        self.probe.insist(lambda: self.show(stamp),
                          lambda: stamp in [nanoseconds(message) for message in self.commands[before:]],
                          f'an answer to {stamp}')
        return self.commands[-1].accel.linear.x


def changed(message: Any, **values: Any) -> Any:
    """A message with fields set by dotted names (dots written as __)."""
    for path, value in values.items():
        *parents, last = path.split('__')
        target = message
        for parent in parents:
            target = target[int(parent)] if parent.isdigit() else getattr(target, parent)
        setattr(target, last, value)
    return message


BAD_ODOMETRY: list[tuple[str, dict[str, Any]]] = [
    (guards.NOT_FINITE, {'pose__pose__position__x': NAN}),
    (guards.WRONG_FRAME, {'header__frame_id': 'odom'}),
    (guards.NOT_FINITE, {'twist__twist__linear__x': INFINITY}),
    (guards.NOT_A_ROTATION, {'pose__pose__orientation__w': 0.0}),
    (guards.WRONG_FRAME, {'child_frame_id': 'base_footprint'}),
    (guards.BACKWARDS, {'header__stamp__sec': -5}),
]
BAD_VEHICLES: list[tuple[str, dict[str, Any]]] = [
    (guards.UNEQUAL_LENGTHS, {'joint_names': ['vehicle_0']}),
    (guards.DUPLICATE_ID, {'joint_names': ['vehicle_0', 'vehicle_0']}),
    (guards.NOT_FINITE, {'transforms__1__translation__y': -INFINITY}),
    (guards.NOT_A_ROTATION, {'transforms__0__rotation__z': 3.0}),
    (guards.WRONG_FRAME, {'header__frame_id': ''}),
    (guards.NOT_FINITE, {'twist__0__angular__z': NAN}),
    (guards.UNEQUAL_LENGTHS, {'twist': []}),
    (guards.BACKWARDS, {'header__stamp__sec': -5}),
]


def test_no_command_before_the_first_valid_state(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe, stale_after=0.3)
    assert probe.health('wcpg')['says'] == Safety.WAITING
    driven.odometry.publish(odometry(0))
    driven.vehicles.publish(changed(vehicles(0), header__frame_id='odom'))
    driven.process.wait_for('vehicles refused: wrong frame')
    probe.spin(1.0)     # a stale odometry alone is no reason to brake either: nobody has driven yet
    assert driven.commands == []
    driven.answer(0)
    assert all(nanoseconds(message) == 0 for message in driven.commands)


def test_bad_states_are_refused_counted_and_named(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe)
    expected: dict[str, int] = {}
    stamp = 0
    for topic, publisher, make, cases in (('ego/odometry', driven.odometry, odometry, BAD_ODOMETRY),
                                          ('vehicles', driven.vehicles, vehicles, BAD_VEHICLES)):
        for kind, values in cases:
            stamp += 100_000_000
            good = driven.answer(stamp)
            assert -4.0 <= good <= 4.0
            publisher.publish(changed(make(stamp), **values))
            driven.process.wait_for(f'{topic} refused: {kind}')
            probe.get('wcpg', 'alpha')     # it has dealt with what came before this question
            expected[f'{topic} refused, {kind}'] = expected.get(f'{topic} refused, {kind}', 0) + 1
    before = len(driven.commands)
    counted = probe.health('wcpg', lambda values: expected.items() <= {
        key: int(value) for key, value in values.items() if 'refused' in key}.items())
    assert counted['says'] == Safety.DRIVING
    assert counted['ego/odometry accepted'] == counted['vehicles accepted'] == str(len(BAD_ODOMETRY + BAD_VEHICLES))
    assert sum('refused' in key for key in counted) == len(expected)
    assert before == len(driven.commands)     # a refused state is not answered
    assert 'vehicles is valid again' in driven.process.text


def test_refused_states_age_like_missing_ones(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe, stale_after=0.5, failsafe_deceleration=3.0)
    driven.answer(0)
    before = len(driven.commands)

    def flooded() -> bool:
        driven.odometry.publish(odometry(SECOND))
        driven.vehicles.publish(changed(vehicles(SECOND), header__frame_id='odom'))
        return 'vehicles is stale' in driven.process.text

    probe.until(flooded, 'the last good state is too old')
    probe.until(lambda: len(driven.commands) > before + 3, 'it brakes')
    assert {(nanoseconds(message), message.accel.linear.x) for message in driven.commands[before:]} == {(0, -3.0)}


def test_stale_states_brake_until_fresh_ones_come_whatever_their_stamps(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe, stale_after=0.4)
    driven.answer(500 * SECOND)
    before = len(driven.commands)
    probe.until(lambda: len(driven.commands) >= before + 10, 'braking, again and again')
    assert {(nanoseconds(message), message.accel.linear.x) for message in driven.commands[before:]} == {
        (500 * SECOND, -4.0)}
    counted = probe.health('wcpg', lambda values: values['says'] == Safety.STALE)
    assert counted['level'] == '2'
    for topic in ('ego/odometry', 'vehicles'):
        assert driven.process.text.count(f'{topic} is stale: nothing valid for 0.4 s') == 1     # once, on the edge
    driven.answer(0)     # a simulator started anew
    driven.process.wait_for('vehicles is valid again')


def test_a_policy_that_fails_brakes_and_works_again(nodes: Nodes, probe: Probe) -> None:
    """Finite numbers that overflow on the way to the network."""
    driven = Driven(nodes, probe)
    good = driven.answer(0)
    driven.odometry.publish(changed(odometry(10 * SECOND), pose__pose__position__x=1e300))
    driven.vehicles.publish(vehicles(10 * SECOND))
    driven.process.wait_for('the policy failed, braking: ')
    probe.until(lambda: nanoseconds(driven.commands[-1]) == 10 * SECOND, 'a command all the same')
    assert driven.commands[-1].accel.linear.x == -4.0
    assert probe.health('wcpg')['says'] == Safety.FAILED
    assert driven.answer(10 * SECOND + 100_000_000) == good     # the next state already, not the next decision
    driven.process.wait_for('the policy works again')


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_leaves_the_brakes_on(nodes: Nodes, probe: Probe, signum: signal.Signals) -> None:
    driven = Driven(nodes, probe, failsafe_deceleration=2.5)
    driven.answer(SECOND)
    before = len(driven.commands)
    driven.process.signal(signum)
    assert driven.process.ended() == 0
    probe.until(lambda: len(driven.commands) > before, 'a last command')
    probe.spin(0.3)
    assert [(nanoseconds(message), message.accel.linear.x) for message in driven.commands[before:]] == [(SECOND, -2.5)]
    assert 'Traceback' not in driven.process.text


def test_limits_and_jerk_hold_through_the_topics(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe, acceleration_limit=1.5, model=nodes.model(0))     # a model that wants more
    assert driven.answer(0) == 1.5
    assert probe.set('wcpg', 'acceleration_limit', 4.0) == ''
    assert probe.set('wcpg', 'jerk_limit', 2.0) == ''
    assert [round(driven.answer(step * 100_000_000), 9) for step in (1, 2, 3)] == [1.7, 1.9, 2.1]


def test_scene_pose_moves_the_scene(nodes: Nodes, probe: Probe) -> None:
    driven = Driven(nodes, probe, model=nodes.model(12), alpha=0.3)
    here = driven.answer(0)
    x, y = 120.0, -45.0     # the scene lies there, turned by a quarter to the left
    assert probe.set('wcpg', 'scene_pose', [x, y, 1.5707963267948966]) == ''
    moved = odometry(10 * SECOND, x=x + 40.0, y=y + 1.75, heading=3.141592653589793)
    others = vehicles(10 * SECOND)
    for transform in others.transforms:
        position = transform.translation
        position.x, position.y = x - position.y, y + position.x
        transform.rotation.z, transform.rotation.w = 0.0, 1.0
    driven.odometry.publish(moved)
    driven.vehicles.publish(others)
    probe.until(lambda: nanoseconds(driven.commands[-1]) == 10 * SECOND, 'an answer')
    assert driven.commands[-1].accel.linear.x == pytest.approx(here, abs=1e-4)
    assert abs(here) < 3.99     # not merely at the limit


def test_the_simulator_dies_and_returns(nodes: Nodes, probe: Probe) -> None:
    """At real time: brakes within 0.6 s on an idle machine, three times that here; then drives on."""
    commands, states = probe.listen(AccelStamped, COMMAND), probe.listen(Odometry, ODOMETRY)
    real = {'lockstep': False, 'speed_factor': 1.0, 'command_timeout': 0.5}
    sim = nodes.sim(**real)
    policy = nodes.wcpg(model=nodes.model(0), stale_after=0.5)
    probe.until(lambda: len(commands) > 3 and commands[-1].accel.linear.x > 0.0, 'it drives')
    sim.signal(signal.SIGKILL)
    killed = time.monotonic()
    probe.until(lambda: commands[-1].accel.linear.x == -4.0, 'it brakes')
    assert time.monotonic() - killed < 1.8
    policy.wait_for('ego/odometry is stale')
    seen = len(states)
    nodes.sim(seed=9, **real)
    probe.until(lambda: len(states) > seen + 5 and commands[-1].accel.linear.x > 0.0, 'it drives on')
    assert nanoseconds(commands[-1]) < 20 * SECOND
    assert policy.text.count('ego/odometry is stale') == 1
    assert policy.text.count('ego/odometry is valid again') == 1
    probe.health('wcpg', lambda values: values['says'] == Safety.DRIVING)


@pytest.mark.parametrize('discovery', ['SUBNET', pytest.param('LOCALHOST', marks=pytest.mark.skipif(
    STANDALONE is None, reason='only a profile keeps rmw_fastrtps out of shared memory there'))])
def test_there_is_no_shared_memory_to_die_in(ros: Ros, nodes: Nodes, discovery: str) -> None:
    """Who is killed while it owns a lock there stalls the others: after one kill in seventy the brake came late."""
    if discovery == 'SUBNET':
        ros.environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'OFF'     # the same transports, but nobody else is met
        ros.environment.pop('FASTRTPS_DEFAULT_PROFILES_FILE', None)
    nodes.wcpg().wait_for('driving left_turn')
    nodes.sim().wait_for('simulating left_turn')
    assert shared_ports(ros.domain) == []


def test_two_simulators_are_told_apart_and_do_not_flood_the_log(nodes: Nodes, probe: Probe) -> None:
    """Their states come in turn, those of the younger one with earlier stamps."""
    began = time.monotonic()
    real = {'lockstep': False, 'speed_factor': 1.0}
    states = probe.listen(Odometry, ODOMETRY)
    policy, _ = nodes.wcpg(), nodes.sim(**real)
    probe.until(lambda: len(states) > 3, 'the first one runs')
    nodes.sim('__node:=other', **real)
    name = 'ego/odometry refused, stamp goes backwards'
    probe.health('wcpg', lambda values: int(values.get(name, 0)) >= 10)
    assert 'does another node publish it too?' in policy.text
    assert policy.text.count('ego/odometry refused') <= 1 + (time.monotonic() - began) / 5


def test_the_policy_loads_neither_torch_nor_numba_and_stays_small(fresh_nodes: Nodes, probe: Probe) -> None:
    driven = Driven(fresh_nodes, probe)
    for step in range(50):
        driven.answer(step * 100_000_000)
    process = Path('/proc', str(driven.process.process.pid))
    loaded = process.joinpath('maps').read_text()
    assert re.search(r'/numpy/', loaded)
    assert not re.search(r'/(torch|numba|llvmlite|scipy)/', loaded)
    resident = re.search(r'VmRSS:\s+(\d+) kB', process.joinpath('status').read_text())
    assert resident is not None
    assert int(resident[1]) < 150 * 1024


def test_both_nodes_start_within_nine_seconds(fresh_nodes: Nodes, probe: Probe) -> None:
    """Three on an idle machine (bench/ros.py): from the start of the process to its first message."""
    states, commands = probe.listen(Odometry, ODOMETRY), probe.listen(AccelStamped, COMMAND)
    began = time.monotonic()
    fresh_nodes.sim()
    probe.until(lambda: states, 'the first state')
    assert time.monotonic() - began < 9.0
    began = time.monotonic()
    fresh_nodes.wcpg()
    probe.until(lambda: commands, 'the first command')
    assert time.monotonic() - began < 9.0
