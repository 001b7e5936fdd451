"""The simulator node: time, episodes, pause, step, reset, what it shows, and what it does when nobody drives."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from node_probe import COMMAND, ODOMETRY, VEHICLES, Nodes, Probe, command, nanoseconds
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import MultiDOFJointState
from visualization_msgs.msg import Marker, MarkerArray

from sim_node import guards
from wcpg_ros.domain import Ros

SECOND = 1_000_000_000


class Driver:
    """A controller in the test process: the same command to every state, in lock-step."""

    def __init__(self, probe: Probe, acceleration: float) -> None:
        self.acceleration = acceleration
        self._commands = probe.node.create_publisher(AccelStamped, COMMAND, 1000)
        probe.node.create_subscription(Odometry, ODOMETRY, self._answer, 1)

    def _answer(self, state: Odometry) -> None:
        self._commands.publish(command(nanoseconds(state), self.acceleration))


def stamps(messages: list) -> list[int]:
    return [nanoseconds(message) for message in messages]


def test_pause_repeats_step_steps_and_run_goes_on(nodes: Nodes, probe: Probe) -> None:
    states = probe.listen(Odometry, ODOMETRY)
    nodes.sim(speed_factor=1.0, lockstep=False)
    probe.until(lambda: len(states) > 3, 'it runs')
    refused = probe.trigger('/sim/step')
    assert not refused.success
    assert refused.message == 'the simulation is running; pause it first (~/run: data false)'
    assert probe.run(False).message == 'paused'
    probe.until(lambda: stamps(states)[-8:] == [stamps(states)[-1]] * 8, 'the same state again and again')
    standing = stamps(states)[-1]
    assert probe.health('sim', lambda values: values['says'] == 'paused')['level'] == '0'
    for step in (1, 2):
        assert probe.trigger('/sim/step').message == f'at {standing / SECOND + step * 0.1:.1f} s'
    probe.until(lambda: stamps(states)[-1] == standing + 200_000_000, 'two steps')
    assert probe.run(True).message == 'running'
    probe.until(lambda: stamps(states)[-1] > standing + 500_000_000, 'it runs again')


def test_time_never_goes_back_and_shows_the_episodes(nodes: Nodes, probe: Probe) -> None:
    """Resets by service at phases on both sides of 5 s, and by episodes that end."""
    clocks, states = probe.listen(Clock, '/clock'), probe.listen(Odometry, ODOMETRY)
    results = probe.results()
    nodes.sim(seed=20)
    probe.run(False)
    probe.until(lambda: clocks and states, 'time')
    Driver(probe, -4.0)
    for steps in (3, 60):
        for _ in range(steps):
            probe.until(lambda: probe.trigger('/sim/step').success, 'a step')
        probe.trigger('/sim/reset')
    probe.run(True)
    probe.until(lambda: len(results) == 2, 'two episodes of 30 s each, at the brakes')
    probe.until(lambda: stamps(states)[-1] > results[1].end, 'the next episode')
    # 0.3 s is followed by 10 s; 16 s would leave 4 s to 20 s, which is no jump, so 30 s; then 60 + 5 → 70, 110.
    starts = [later for earlier, later in zip([-10 * SECOND, *stamps(states)], stamps(states), strict=False)
              if later - earlier >= 5 * SECOND]
    assert starts == [0, 10 * SECOND, 30 * SECOND, 70 * SECOND, 110 * SECOND]
    assert [(result.seed, result.outcome, result.steps, result.start, result.end) for result in results] == [
        (22, 'timeout', 300, 30 * SECOND, 60 * SECOND), (23, 'timeout', 300, 70 * SECOND, 100 * SECOND)]
    for heard in (stamps(clocks), stamps(states)):
        assert (np.diff(heard) >= 0).all()
    assert set(stamps(clocks)) == set(stamps(states))


def test_reset_takes_the_seed_newly_set_or_else_the_next(nodes: Nodes, probe: Probe) -> None:
    vehicles = probe.listen(MultiDOFJointState, VEHICLES)
    nodes.sim(seed=5)
    probe.run(False)
    assert probe.trigger('/sim/reset').message == 'episode of seed 6'
    assert probe.set('sim', 'seed', 100) == ''
    assert [probe.trigger('/sim/reset').message for _ in range(2)] == ['episode of seed 100', 'episode of seed 101']
    assert probe.set('sim', 'seed', 100) == ''     # the same again: newly set
    assert probe.trigger('/sim/reset').message == 'episode of seed 100'
    # The scene, the row and the traffic count from the next reset on.
    for name, value in (('scenario', 'merge'), ('traffic.platoon', 0), ('traffic.spawned', 0)):
        assert probe.set('sim', name, value) == ''
    probe.until(lambda: vehicles and vehicles[-1].joint_names, 'still the left turn')
    probe.trigger('/sim/reset')
    probe.until(lambda: vehicles[-1].joint_names == [], 'an empty merge: a message that says so')
    assert nanoseconds(vehicles[-1]) == 50 * SECOND


def test_an_episode_that_nobody_drives_ends_as_such_and_is_reported_once(nodes: Nodes, probe: Probe) -> None:
    results = probe.results()
    sim = nodes.sim(command_timeout=0.4, episodes=2)
    assert sim.ended() == 0
    probe.until(lambda: len(results) == 2, 'both results')
    assert [(result.outcome, result.steps, result.episode_return) for result in results] == [('no_command', 0, 0.0)] * 2
    assert sim.text.count('no command for 0.4 s: the episode ends') == 1
    assert '2 episodes: 2 no_command' in sim.text


def test_commands_are_refused_counted_and_named(nodes: Nodes, probe: Probe) -> None:
    sim = nodes.sim()
    probe.run(False)
    out = probe.speak(AccelStamped, COMMAND)
    for message, kind in ((command(0, float('nan')), guards.NOT_FINITE), (command(0, 1.0, 'map'), guards.WRONG_FRAME),
                          (command(0, float('-inf')), guards.NOT_FINITE), (command(SECOND, 1.0), guards.AHEAD)):
        said = sim.text.count(f'refused: {kind}')
        out.publish(message)
        probe.until(lambda kind=kind, said=said: sim.text.count(f'refused: {kind}') == said + 1, kind)
    out.publish(command(0, 2.0))
    probe.until(lambda: probe.trigger('/sim/step').success, 'a good one is believed')
    out.publish(command(-SECOND, 2.0))
    sim.wait_for(f'refused: {guards.BACKWARDS}')
    name = 'ego/acceleration_command'
    counted = probe.health('sim', lambda values: f'{name} refused, {guards.BACKWARDS}' in values)
    assert {key: value for key, value in counted.items() if key.startswith(name)} == {
        f'{name} accepted': '1', f'{name} refused, {guards.NOT_FINITE}': '2', f'{name} refused, {guards.AHEAD}': '1',
        f'{name} refused, {guards.BACKWARDS}': '1', f'{name} refused, {guards.WRONG_FRAME}': '1'}


def test_without_commands_ego_brakes_by_itself_and_drives_on_when_they_return(nodes: Nodes, probe: Probe) -> None:
    """At real time. The policy is killed, then started anew."""
    states = probe.listen(Odometry, ODOMETRY)
    sim = nodes.sim(lockstep=False, speed_factor=1.0, command_timeout=0.5, seed=1)
    policy = nodes.wcpg(model=nodes.model(0), stale_after=0.5)     # which would drive off
    commands = probe.listen(AccelStamped, COMMAND)
    probe.until(lambda: commands and commands[-1].accel.linear.x > 0, 'it drives')
    policy.signal(signal.SIGKILL)
    sim.wait_for('no command for 0.5 s: ego brakes by itself')
    assert probe.health('sim', lambda values: values['level'] == '2')['says'] == 'no command comes: fail-safe'
    seen = len(states)
    probe.until(lambda: len(states) >= seen + 8, 'a second of braking')
    braking = [message.twist.twist.linear.x for message in states[seen:]]
    assert np.allclose(np.diff(braking), [max(-0.4, -speed) for speed in braking[:-1]])     # 4 m/s²
    assert sim.text.count('ego brakes by itself') == 1
    policy = nodes.wcpg(model=nodes.model(0), stale_after=0.5)
    probe.until(lambda: states[-1].twist.twist.linear.x > 3.0, 'it drives on')
    probe.health('sim', lambda values: values['says'] == 'running' and values['level'] == '0')


def test_time_stands_until_a_first_command_where_that_is_asked_for(nodes: Nodes, probe: Probe) -> None:
    states = probe.listen(Odometry, ODOMETRY)
    sim = nodes.sim(speed_factor=1.0, lockstep=False, await_driver=True, command_timeout=0.2)
    probe.until(lambda: len(states) > 8, 'the first state again and again')
    assert set(stamps(states)) == {0}
    assert 'no command' not in sim.text
    Driver(probe, -1.0)
    probe.until(lambda: nanoseconds(states[-1]) > SECOND, 'it drives')
    assert states[-1].twist.twist.linear.x < states[0].twist.twist.linear.x - 0.5
    assert 'no command' not in sim.text


def test_markers_have_the_vehicles_ids_and_sizes(nodes: Nodes, probe: Probe) -> None:
    markers, vehicles = probe.listen(MarkerArray, '/vehicles/markers'), probe.listen(MultiDOFJointState, VEHICLES)
    results = probe.results()
    Driver(probe, 0.0)
    nodes.sim(seed=4, episodes=2)
    probe.until(lambda: len(results) == 2, 'two episodes')
    names: set[int] = set()
    roads = 0
    shown: dict[int, set[int]] = {}
    for array in markers:
        for marker in array.markers:
            assert marker.header.frame_id == 'map'
            if marker.ns == 'vehicles':
                (names.add if marker.action == Marker.ADD else names.discard)(marker.id)
                if marker.action == Marker.ADD:
                    assert (marker.scale.x, marker.scale.y) == (4.6, 1.9)
            roads += marker.ns == 'road'
        if array.markers[0].ns == 'ego':
            shown[nanoseconds(array.markers[0])] = set(names)
    assert roads >= 2
    expected = {nanoseconds(message): {int(name.removeprefix('vehicle_')) for name in message.joint_names}
                for message in vehicles}
    common = shown.keys() & expected.keys()
    assert len(common) > 50
    assert {stamp: shown[stamp] for stamp in common} == {stamp: expected[stamp] for stamp in common}


def test_a_namespace_and_remappings_move_the_names(nodes: Nodes, probe: Probe, ros: Ros) -> None:
    nodes.sim('__ns:=/left', 'vehicles:=traffic', '__node:=world')
    nodes.wcpg('__ns:=/left', 'vehicles:=traffic', 'ego/odometry:=/gps/odometry')
    wanted = {'/left/traffic', '/left/ego/odometry', '/left/world/episode', '/left/vehicles/markers', '/clock',
              '/left/ego/acceleration_command', '/left/wcpg/risk', '/gps/odometry', '/diagnostics'}
    probe.until(lambda: wanted <= {name for name, _ in probe.node.get_topic_names_and_types()}, 'all topics')
    names = {name for name, _ in probe.node.get_topic_names_and_types()}
    assert not names & {'/vehicles', '/ego/odometry', '/sim/episode', COMMAND}
    services = {'/left/world/reset', '/left/world/step', '/left/world/run'}
    probe.until(lambda: services <= {name for name, _ in probe.node.get_service_names_and_types()}, 'all services')


@pytest.mark.parametrize('signum', [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_sums_up_and_ends_well(nodes: Nodes, probe: Probe, signum: signal.Signals) -> None:
    states = probe.listen(Odometry, ODOMETRY)
    sim = nodes.sim()
    probe.until(lambda: states, 'it runs')
    sim.signal(signum)
    assert sim.ended() == 0
    assert sim.text.endswith('simulating left_turn, row train, from seed 0\n0 episodes: none ended\n')
    assert len(sim.text.splitlines()) == 2
