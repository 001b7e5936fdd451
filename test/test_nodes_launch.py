"""The launch files: arguments, episodes and summary, recording, and what happens when somebody dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launch_api import problems
from node_probe import Nodes
from rosbags.rosbag2 import Reader

from launch import LaunchContext
from sim_node.scenario import load_scenario
from sim_node.state import OUTCOMES
from wcpg_ros.controllers import prepare
from wcpg_ros.domain import STANDALONE, Ros, Running, eventually
from wcpg_ros.episodes import drive
from wcpg_ros.launching import scene_launch, silence_allowed

ROOT = Path(__file__).parent.parent


def group_is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def started(running: Running, name: str) -> int:
    return int(running.wait_for(rf'\[{name}\]: process started with pid \[(\d+)\]')[1])


def all_gone(running: Running) -> None:
    for pid in re.findall(r'process started with pid \[(\d+)\]', running.text):
        eventually(lambda pid=pid: group_is_gone(int(pid)), 10, f'process {pid} gone')


@pytest.mark.parametrize(('scenario', 'row'), [('left_turn', '+10/8%'), ('merge', 'train')])
def test_episodes_with_a_clean_exit_a_summary_and_a_bag(
        nodes: Nodes, ros: Ros, tmp_path: Path, scenario: str, row: str) -> None:
    model, bag = nodes.model(12, scenario=scenario), tmp_path / 'bag'
    launch = ros.ros2('launch', 'wcpg_ros', f'{scenario}.launch.py', 'lockstep:=true',
                      'speed_factor:=20', 'episodes:=3', 'seed:=7000000', 'alpha:=1', f'row:={row}', f'model:={model}',
                      f'record:={bag}')
    assert launch.ended(60) == 0
    rows = drive(*prepare(scenario, row, str(model), 1.0), episodes=3, seed=7)
    said = re.findall(r'episode (\d) \(seed (\d+)\): (\w+) after ([\d.]+) s', launch.text)
    assert said == [(str(i + 1), str(row['seed']), OUTCOMES[row['outcome']], f'{row["steps"] / 10:.1f}')
                    for i, row in enumerate(rows)]
    assert '[sim-1] 3 episodes: ' in launch.text
    assert launch.text.count('process has finished cleanly') == 3
    all_gone(launch)
    with Reader(bag) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
    # The recorder joins while the first episode runs; what it hears from then on it keeps.
    assert {'/clock', '/ego/odometry', '/vehicles', '/ego/acceleration_command'} <= counts.keys()
    assert counts['/sim/episode'] == 3     # whenever it joined


def test_a_policy_that_dies_ends_the_launch(nodes: Nodes, ros: Ros) -> None:
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', f'model:={nodes.model(0)}')
    pid = started(launch, 'wcpg-2')
    launch.wait_for('driving left_turn')
    launch.wait_for('simulating left_turn, row train, from seed 0')
    os.kill(pid, signal.SIGKILL)
    assert launch.ended() == 1
    assert re.search(rf'\[ERROR\] \[wcpg-2\]: process has died \[pid {pid}, exit code -9', launch.text)
    assert 'the policy has died with exit code -9; its last words are above' in launch.text
    assert '[INFO] [sim-1]: process has finished cleanly' in launch.text
    all_gone(launch)


def test_keep_going_keeps_the_simulator(nodes: Nodes, ros: Ros) -> None:
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', f'model:={nodes.model(0)}', 'keep_going:=true')
    pid = started(launch, 'wcpg-2')
    launch.wait_for('the first command has come')
    os.kill(pid, signal.SIGKILL)
    launch.wait_for('no command for 0.5 s: ego brakes by itself')
    assert launch.process.poll() is None
    launch.signal(signal.SIGINT)
    assert launch.ended() == 0
    assert re.search(r'\[sim-1\] \d+ episodes?: ', launch.text)
    all_gone(launch)


def test_a_killed_launch_leaves_nobody(nodes: Nodes, ros: Ros) -> None:
    launch = ros.ros2('launch', 'wcpg_ros', 'merge.launch.py', f'model:={nodes.model(0, scenario="merge")}')
    launch.wait_for('driving merge')
    launch.signal(signal.SIGKILL)
    launch.ended()
    all_gone(launch)


@pytest.mark.parametrize(('argument', 'said'), [
    ('row:=nope', "sim: row 'nope': left_turn has no such row; choose one of train"),
    ('model:=/no/such/file.safetensors', 'wcpg: /no/such/file.safetensors: '),
    (f'model:={ROOT / "models" / "merge.safetensors"}', 'merge.safetensors: trained for merge, not for left_turn'),
    ('seed:=x', "launch argument seed: expected a whole number, got 'x'"),
    ('rviz:=true', 'rviz2'),
])
def test_a_bad_argument_ends_the_launch_and_is_named(nodes: Nodes, ros: Ros, argument: str, said: str) -> None:
    given = [argument] if argument.startswith('model') else [argument, f'model:={nodes.model()}']
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', *given)
    assert launch.ended() == 1
    assert said in launch.text
    assert 'Traceback' not in launch.text
    all_gone(launch)


def test_told_to_stop_while_its_nodes_load_it_ends_quietly(nodes: Nodes, ros: Ros) -> None:
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', f'model:={nodes.model()}')
    for node in ('sim-1', 'wcpg-2'):
        maps = Path('/proc', str(started(launch, node)), 'maps')
        eventually(lambda maps=maps: '/rclpy/' in maps.read_text(), 10, f'{node} is loading')
    launch.signal(signal.SIGINT)
    assert launch.ended() == 0
    assert 'Traceback' not in launch.text
    assert launch.text.count('process has finished cleanly') == 2
    all_gone(launch)


@pytest.mark.parametrize(('program', 'module', 'exit_code'), [
    ("sim_node.__main__ import main", 'rclpy', 0), ("sim_node.__main__ import main", 'numba.core', 0),
    ("wcpg_ros.__main__ import main", 'wcpg_ros.policy', 0),
    pytest.param("ros2_standalone.cli import main", 'launch.actions', 2, marks=pytest.mark.skipif(
        STANDALONE is None, reason='a ROS 2 distribution is used instead of standalone/'))])
def test_a_program_told_to_stop_while_it_loads_says_nothing(program: str, module: str, exit_code: int) -> None:
    """The signal comes when it imports this module."""
    code = f'''
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from {program}
sys.exit(main())
'''
    ended = subprocess.run([sys.executable, '-c', code, 'launch', 'wcpg_ros', 'left_turn.launch.py'],
                           capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_code, '', '')


@pytest.mark.parametrize(('name', 'value', 'said'), [
    ('episodes', 'two', "expected a whole number, got 'two'"), ('alpha', 'low', "expected a number, got 'low'"),
    ('lockstep', 'maybe', "expected true or false, got 'maybe'"), ('speed_factor', '', "expected a number, got ''"),
    ('speed_factor', 'nan', "expected a number, got 'nan'"), ('params_file', '/no/file', "no such file '/no/file'"),
    ('scene_pose', '[1, 2]', r"expected \[x, y, yaw\], got '\[1, 2\]'"), ('rviz', 'x', 'expected true or false'),
    ('storage', 'zip', "expected mcap or sqlite3, got 'zip'"),
])
def test_each_argument_is_checked(name: str, value: str, said: str) -> None:
    context = LaunchContext()
    *declared, start = scene_launch('left_turn').entities
    for argument in declared:
        argument.execute(context)
    assert start.execute(context)     # the defaults are fine
    context.launch_configurations[name] = value
    *_, start = scene_launch('left_turn').entities
    with pytest.raises(RuntimeError, match=f'launch argument {name}: {said}'):
        start.execute(context)


def test_paths_may_be_at_home_and_unknown_arguments_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv('HOME', str(tmp_path))
    context = LaunchContext(argv=['params_file:=~/mine.yaml', 'alhpa:=1', 'launch-prefix:=nice'])
    *declared, start = scene_launch('merge').entities
    context.launch_configurations['params_file'] = '~/mine.yaml'
    for argument in declared:
        argument.execute(context)
    with pytest.raises(RuntimeError, match=f"no such file '{tmp_path}/mine.yaml'"):
        start.execute(context)
    (tmp_path / 'mine.yaml').write_text('/**:\n  ros__parameters: {}\n')
    said, *_ = start.execute(context)
    assert said.msg[0].text == 'launch argument alhpa: not one of merge.launch.py, see --show-args'


def test_show_args_describes_every_argument(ros: Ros) -> None:
    for scene in ('left_turn', 'merge'):
        shown = ros.run_ros2('launch', 'wcpg_ros', f'{scene}.launch.py', '--show-args').stdout
        for name in ('alpha', 'model', 'seed', 'row', 'speed_factor', 'lockstep', 'episodes', 'record', 'storage',
                     'rviz', 'keep_going', 'scene_pose', 'params_file'):
            assert re.search(rf"^    '{name}':\n        \S.*\n        \(default: ", shown, re.MULTILINE), name
        assert load_scenario(scene)


def test_the_silence_allowed_follows_the_pace() -> None:
    assert silence_allowed(1.0, False) == 0.5
    assert silence_allowed(0.1, False) == 5.0
    assert silence_allowed(100.0, False) == 0.2     # no machine answers in 5 ms every time
    assert silence_allowed(0.0, False) == silence_allowed(1.0, True) == 10.0


@pytest.mark.parametrize('file', [*sorted(ROOT.glob('launch/*.launch.py')), ROOT / 'wcpg_ros' / 'launching.py'])
def test_only_what_the_real_launch_has_too_is_used(file: Path) -> None:
    assert problems(file) == []
