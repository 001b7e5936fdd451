"""Parameters of both nodes, by the ros2 command and at the start: what is taken, what is refused and why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from node_probe import COMMAND, ODOMETRY, VEHICLES, Nodes, Probe, nanoseconds, odometry, vehicles
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import MultiDOFJointState

from wcpg_ros.domain import Ros

SECOND = 1_000_000_000


def answer(probe: Probe, states: tuple, commands: list, stamp: int) -> float:
    """The command that answers a state."""
    def show() -> None:
        for publisher, message in zip(states, (odometry(stamp), vehicles(stamp)), strict=True):
            publisher.publish(message)

    probe.insist(show, lambda: any(nanoseconds(message) == stamp for message in commands), f'an answer to {stamp}')
    return next(message.accel.linear.x for message in commands if nanoseconds(message) == stamp)


def param(ros: Ros, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A ros2 param command; a distribution's own would else leave a daemon behind, and give up too soon."""
    return ros.run_ros2('param', *arguments, '--no-daemon', '--spin-time', '3')


@pytest.fixture
def states(probe: Probe) -> tuple:
    return tuple(probe.node.create_publisher(kind, topic, 1000)
                 for kind, topic in ((Odometry, ODOMETRY), (MultiDOFJointState, VEHICLES)))


def test_alpha_by_the_ros2_command(nodes: Nodes, probe: Probe, ros: Ros, states: tuple) -> None:
    commands = probe.listen(AccelStamped, COMMAND)
    wcpg = nodes.wcpg(model=nodes.model(2), alpha=0.5)
    wcpg.wait_for('driving left_turn')
    probe.until(lambda: all(publisher.get_subscription_count() for publisher in states), 'the policy listens')
    probe.until(lambda: probe.node.count_publishers(COMMAND), 'the policy speaks')
    driven = {0.5: answer(probe, states, commands, 0)}

    described = param(ros, 'describe', '/wcpg', 'alpha').stdout
    assert 'Type: double' in described
    assert 'Min value: 0.01' in described
    assert 'Max value: 1.0' in described
    stamp = 0
    for text, value in (('0.1', 0.1), ('1', 1.0)):
        assert param(ros, 'set', '/wcpg', 'alpha', text).stdout == 'Set parameter successful\n'
        stamp += 10 * SECOND     # an episode of its own, so that it decides anew
        driven[value] = answer(probe, states, commands, stamp)
    assert len(set(driven.values())) == 3     # each has acted
    for text, reason in (('0', 'out of range Min: 0.01, Max: 1.0, value: 0.0'), ('1.5', 'out of range'),
                         ('.nan', 'nan'), ('nan', 'Wrong parameter type'), ('hello', 'Wrong parameter type')):
        result = param(ros, 'set', '/wcpg', 'alpha', text)
        assert 'Set parameter successful' not in result.stdout
        assert 'Setting parameter failed: ' in result.stderr
        assert reason in result.stderr
    assert param(ros, 'get', '/wcpg', 'alpha').stdout == 'Double value is: 1.0\n'
    assert answer(probe, states, commands, stamp + 10 * SECOND) == driven[1.0]     # the old value keeps driving


def test_a_parameter_cannot_be_deleted(nodes: Nodes, probe: Probe) -> None:
    nodes.wcpg()
    [result] = probe.call(SetParameters, '/wcpg/set_parameters',
                          SetParameters.Request(parameters=[ParameterMessage(name='alpha')])).results
    assert not result.successful
    assert probe.get('wcpg', 'alpha') == 0.1


def test_whole_numbers_are_taken_for_floats_at_the_start_and_later(nodes: Nodes, probe: Probe) -> None:
    nodes.wcpg(alpha=1, stale_after=20, scene_pose=[1, 2, 0])
    nodes.sim(speed_factor=3, command_timeout=20)
    assert probe.get('wcpg', 'alpha') == 1.0
    assert list(probe.get('wcpg', 'scene_pose')) == [1.0, 2.0, 0.0]
    assert probe.get('sim', 'speed_factor') == 3.0
    assert probe.set('wcpg', 'scene_pose', [0, 0, 1]) == ''
    assert probe.set('sim', 'speed_factor', 2) == ''
    assert probe.set('wcpg', 'scene_pose', [0, 0]) == 'scene_pose: expected 3 numbers, got 2'
    assert probe.set('wcpg', 'scene_pose', [0.0, 0.0, float('inf')]).startswith('scene_pose: expected finite numbers')
    assert 'read-only' in probe.set('sim', 'lockstep', False)
    assert 'read-only' in probe.set('wcpg', 'map_frame', 'odom')


def test_a_node_takes_no_other_arguments(ros: Ros) -> None:
    running = ros.start_python('-m', 'sim_node', 'seed:=3')
    assert running.ended() == 2
    assert running.text == ('sim: seed:=3: parameters are given as --ros-args -p NAME:=VALUE, and listed in '
                            'docs/interface.md\n')


def test_an_unknown_parameter_is_named(nodes: Nodes) -> None:
    nodes.wcpg(alhpa=0.3).wait_for('parameter alhpa is not one of /wcpg: left alone')


def test_the_scene_s_parameters_are_checked_together(nodes: Nodes, probe: Probe) -> None:
    nodes.sim()
    assert probe.set('sim', 'scenario', 'roundabout') == \
        "scenario: 'roundabout' is unknown; choose one of left_turn, merge"
    assert probe.set('sim', 'row', '+0/3%').startswith("row '+0/3%': left_turn has no such row; choose one of train, ")
    assert probe.set('sim', 'traffic.speed_min', 50.0).endswith('speed: expected [low, high], got [50.0, 20.0]')
    assert probe.set('sim', 'traffic.spawn_rate', 0.5) == ''
    assert probe.set('sim', 'traffic.spawn_rate', -0.5) == \
        "traffic.spawn_rate: expected -1 (the row's) or at least 0, got -0.5"
    assert 'out of range' in probe.set('sim', 'seed', -1)
    assert probe.get('sim', 'scenario') == 'left_turn'


@pytest.mark.parametrize(('node', 'parameters', 'said'), [
    ('wcpg', {'alpha': 2.0}, 'wcpg: .*Parameter alpha out of range Min: 0.01, Max: 1.0, value: 2.0'),
    ('wcpg', {'alpha': 'high'}, "wcpg: .*'alpha'.*'high'.*'STRING'.*'DOUBLE'"),
    ('wcpg', {'model': '/no/such/model.safetensors'}, 'wcpg: /no/such/model.safetensors: '),
    ('wcpg', {'model': '""'}, 'wcpg: model: give the path of a trained policy'),
    ('wcpg', {'scenario': 'merge'}, 'wcpg: .*: trained for left_turn, not for merge'),
    ('sim', {'row': 'nope'}, "sim: row 'nope': left_turn has no such row; choose one of train"),
    ('sim', {'scenario': 'nope'}, "sim: scenario: 'nope' is unknown; choose one of left_turn, merge"),
])
def test_a_bad_start_says_why_in_one_line(nodes: Nodes, node: str, parameters: dict, said: str) -> None:
    running = getattr(nodes, node)(**parameters)
    assert running.ended() == 2
    running.wait_for(said)
    assert 'Traceback' not in running.text
    assert len(running.text.splitlines()) == 1


def test_a_model_can_be_changed_while_driving_and_a_bad_one_is_refused(
        nodes: Nodes, probe: Probe, states: tuple, tmp_path: Path) -> None:
    commands = probe.listen(AccelStamped, COMMAND)
    first, second = nodes.model(2), nodes.model(6)
    narrow = nodes.model(8, alpha_min=0.3)
    wcpg = nodes.wcpg(model=first)
    probe.until(lambda: all(publisher.get_subscription_count() for publisher in states), 'the policy listens')
    probe.until(lambda: probe.node.count_publishers(COMMAND), 'the policy speaks')
    old = answer(probe, states, commands, 0)

    broken = tmp_path / 'broken.safetensors'
    broken.write_bytes(first.read_bytes()[:-100])
    assert probe.set('wcpg', 'model', str(broken)).startswith(f'{broken}: ')
    assert probe.set('wcpg', 'model', '/no/such.safetensors').startswith('/no/such.safetensors: ')
    assert probe.set('wcpg', 'model', str(narrow)) == 'alpha: this model takes 0.3 to 1, got 0.1'
    assert probe.get('wcpg', 'model') == str(first)
    assert probe.set('wcpg', 'jerk_limit', 0.0) == ''     # which does not bring a refused model in
    assert answer(probe, states, commands, SECOND // 10) == old

    assert probe.set('wcpg', 'model', str(second)) == ''
    assert answer(probe, states, commands, SECOND // 5) == old      # held until the next decision
    new = answer(probe, states, commands, 2 * SECOND // 5)
    assert new != old
    wcpg.wait_for(f'driving left_turn with {second}')
    assert probe.set('wcpg', 'alpha', 0.9) == ''
    assert answer(probe, states, commands, 4 * SECOND // 5) != new
