"""The ros2 command of standalone/ against a real node over real DDS, in the words of the real tools."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from wcpg_ros.domain import Ros, Running

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('ros2_standalone', reason='a ROS 2 distribution is used instead of standalone/')

DEMO = Path(__file__).with_name('demo_node.py')


@pytest.fixture
def demo(ros: Ros) -> Running:
    running = ros.start_python('-m', 'demo_node')
    running.wait_for('^ready')
    return running


def said(ros: Ros, *arguments: str | Path) -> str:
    result = ros.run_ros2(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.usefixtures('demo')
def test_param_set_get_describe_list(ros: Ros) -> None:
    assert said(ros, 'param', 'set', '/demo', 'alpha', '0.1') == 'Set parameter successful\n'
    assert said(ros, 'param', 'get', '/demo', 'alpha') == 'Double value is: 0.1\n'
    assert said(ros, 'param', 'get', 'demo', 'names', '--hide-type') == "['a', 'b']\n"
    refused = ros.run_ros2('param', 'set', '/demo', 'alpha', '1.5')
    assert refused.returncode == 0   # as the real one
    assert refused.stderr == \
        'Setting parameter failed: Parameter alpha out of range Min: 0.01, Max: 1.0, value: 1.5\n'
    assert said(ros, 'param', 'describe', '/demo', 'alpha') == (
        'Parameter name: alpha\n  Type: double\n  Description: how much risk to take\n'
        '  Constraints:\n    Min value: 0.01\n    Max value: 1.0\n')
    listed = said(ros, 'param', 'list', '/demo')
    assert listed.splitlines()[:4] == ['  alpha', '  limits.jerk', '  names', '  seed']
    missing = ros.run_ros2('param', 'get', '/demo', 'speed')
    assert (missing.returncode, missing.stderr) == (1, 'Parameter not set\n')


@pytest.mark.usefixtures('demo')
def test_param_dump_is_a_file_that_load_takes(ros: Ros, tmp_path: Path) -> None:
    dumped = said(ros, 'param', 'dump', '/demo')
    assert dumped.startswith('/demo:\n  ros__parameters:\n    alpha: 0.5\n    limits:\n      jerk: 2.0\n'
                             '    names:\n    - a\n    - b\n    seed: 3\n')
    file = tmp_path / 'demo.yaml'
    file.write_text(dumped.replace('seed: 3', 'seed: 8').replace('alpha: 0.5', 'alpha: 7.0'))
    loaded = ros.run_ros2('param', 'load', '/demo', file)
    assert 'Set parameter seed successful\n' in loaded.stdout
    assert 'Set parameter alpha failed: Parameter alpha out of range' in loaded.stderr
    assert said(ros, 'param', 'get', '/demo', 'seed') == 'Integer value is: 8\n'
    file.write_text('/**:\n  ros__parameters:\n    seed: 9\n/other:\n  ros__parameters:\n    alpha: 0.25\n')
    assert said(ros, 'param', 'load', '/demo', file) == ('Set parameter seed successful\n'
                                                         'Set parameter alpha successful\n')
    missing = ros.run_ros2('param', 'load', '/demo', '/no/file')
    assert (missing.returncode, missing.stderr) == (1, "[Errno 2] No such file or directory: '/no/file'\n")


@pytest.mark.usefixtures('demo')
def test_node_and_service(ros: Ros) -> None:
    assert said(ros, 'node', 'list') == '/demo\n'
    info = said(ros, 'node', 'info', '/demo')
    assert info.startswith('/demo\n  Subscribers:\n    /words: std_msgs/msg/String\n  Publishers:\n')
    assert '    /numbers: std_msgs/msg/Float64MultiArray\n' in info
    assert '  Service Servers:\n    /demo/describe_parameters: rcl_interfaces/srv/DescribeParameters\n' in info
    assert info.endswith('  Service Clients:\n\n  Action Servers:\n\n  Action Clients:\n\n')
    assert '/run [std_srvs/srv/SetBool]\n' in said(ros, 'service', 'list', '-t')
    assert said(ros, 'service', 'call', '/run', 'std_srvs/srv/SetBool', '{data: true}').endswith(
        'requester: making request: std_srvs.srv.SetBool_Request(data=True)\n\n'
        "response:\nstd_srvs.srv.SetBool_Response(success=True, message='as you wish')\n\n")
    wrong = ros.run_ros2('service', 'call', '/run', 'std_srvs/srv/SetBool', '{speed: 1}')
    assert wrong.returncode == 1
    assert wrong.stderr.startswith('Failed to populate field: ')


@pytest.mark.usefixtures('demo')
def test_topic_list_info_echo(ros: Ros) -> None:
    assert '/numbers [std_msgs/msg/Float64MultiArray]\n' in said(ros, 'topic', 'list', '-t')
    assert said(ros, 'topic', 'info', '/words') == \
        'Type: std_msgs/msg/String\nPublisher count: 0\nSubscription count: 1\n'
    verbose = said(ros, 'topic', 'info', '/latched', '-v')
    assert 'Node name: demo\n' in verbose
    assert '  Durability: TRANSIENT_LOCAL\n' in verbose
    # The latched message is heard although it was sent long ago: echo asks for what the publisher offers.
    assert said(ros, 'topic', 'echo', '/latched', '--once') == 'data: once\n---\n'
    assert re.fullmatch(r'layout:\n  dim: \[\]\n  data_offset: 0\ndata:\n- \d+\.0\n- 2\.5\n- \.\.\.\n---\n',
                        said(ros, 'topic', 'echo', '/numbers', '--once', '-l', '2').replace("'...'", '...'))
    assert '<sequence type: double, length: 3>' in said(ros, 'topic', 'echo', '/numbers', '--once', '--no-arr')
    assert re.fullmatch(r"array\('d', \[\d+\.0, 2\.5, 3\.0\]\)\n---\n",
                        said(ros, 'topic', 'echo', '/numbers', '--once', '--field', 'data'))
    unknown = ros.run_ros2('topic', 'info', '/nothing')
    assert (unknown.returncode, unknown.stderr) == (1, "Unknown topic '/nothing'\n")


def test_topic_pub_and_hz(ros: Ros, demo: Running) -> None:
    published = said(ros, 'topic', 'pub', '--once', '/words', 'std_msgs/msg/String', '{data: hello}')
    assert published.endswith("publisher: beginning loop\npublishing #1: std_msgs.msg.String(data='hello')\n\n")
    demo.wait_for('^heard hello$')
    assert said(ros, 'topic', 'pub', '-t', '2', '-r', '20', '/words', 'std_msgs/String', 'data: twice').count('#') == 2
    wrong = ros.run_ros2('topic', 'pub', '--once', '/words', 'std_msgs/msg/String', 'hello')
    assert (wrong.returncode, wrong.stderr) == (1, 'The passed value needs to be a dictionary in YAML format\n')
    hz = ros.ros2('topic', 'hz', '/numbers', '-w', '40')
    rate = hz.wait_for(r'^average rate: ([\d.]+)\n\tmin: [\d.]+s max: [\d.]+s std dev: [\d.]+s window: \d+$')
    assert 25 < float(rate[1]) < 75   # published at 50 Hz, on a machine that may be busy
    hz.signal(signal.SIGINT)
    assert hz.ended() == 2


def test_a_stamp_now_is_filled_in(ros: Ros) -> None:
    text = said(ros, 'topic', 'pub', '--once', '-w', '0', '/odometry', 'nav_msgs/msg/Odometry',
                '{header: auto, child_frame_id: base_link, pose: {pose: {position: {x: 1.5}}, covariance: '
                f'{[0.0] * 36}}}}}')
    assert 'position=geometry_msgs.msg.Point(x=1.5, y=0.0, z=0.0)' in text
    assert int(re.search(r'sec=(\d+)', text)[1]) > 1_000_000_000


def test_what_is_not_there_or_not_supported(ros: Ros) -> None:
    missing = ros.run_ros2('param', 'get', '/nobody', 'alpha')
    assert (missing.returncode, missing.stderr) == (1, 'Node not found\n')
    for arguments in (('doctor',), ('topic', 'bw', '/x'), ('topic', 'list', '--fancy')):
        result = ros.run_ros2(*arguments)
        assert result.returncode == 2
        assert 'not supported here, install a ROS 2 distribution' in result.stderr
    assert ros.run_ros2('run', 'wcpg_ros', 'no_such_program').stderr == 'No executable found\n'
    assert ros.run_ros2('run', 'no_such_package', 'x').stderr == "Package 'no_such_package' not found\n"
    assert ros.run_ros2('pkg', 'prefix', 'no_such_package').stderr == 'Package not found\n'
    broken = ros.run_ros2('topic', 'pub', '--once', '/x', 'std_msgs/msg/String', '{bad')
    assert (broken.returncode, broken.stderr.partition(':')[0]) == (1, 'not YAML')


def test_a_launched_node_gets_its_name_parameters_and_remappings(ros: Ros, tmp_path: Path) -> None:
    (tmp_path / 'demo.yaml').write_text('/**:\n  ros__parameters:\n    seed: 5\n    alpha: 0.25\n')
    (tmp_path / 'demo.launch.py').write_text(f'''
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution, ThisLaunchFileDir
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

def generate_launch_description():
    return LaunchDescription([
        DeclareLaunchArgument('alpha', default_value='1'),
        Node(executable={sys.executable!r}, arguments=['-u', {str(DEMO)!r}], exec_name='demo',
             name='car', namespace='left', output='screen',
             parameters=[PathJoinSubstitution([ThisLaunchFileDir(), 'demo.yaml']),
                         {{'alpha': ParameterValue(LaunchConfiguration('alpha'), value_type=float),
                           'limits': {{'jerk': 4.5}}, 'names': ['x', 'y']}}],
             remappings=[('words', 'sentences'), ('numbers', '/digits')])])
''')
    running = ros.ros2('launch', tmp_path / 'demo.launch.py')
    ready = running.wait_for(r'^\[demo-1\] ready (.*)$')
    assert ready[1] == "{'alpha': 1.0, 'seed': 5, 'limits.jerk': 4.5, 'names': ['x', 'y']} /left/car"
    topics = said(ros, 'topic', 'list').splitlines()
    assert {'/left/sentences', '/digits', '/left/latched'} <= set(topics)
    running.signal(signal.SIGINT)
    assert running.ended() == 0
    assert '[demo-1] stopped' in running.text
    assert '[INFO] [demo-1]: process has finished cleanly' in running.text
