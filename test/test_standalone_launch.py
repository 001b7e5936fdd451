"""ros2 launch of standalone/: what it says, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from wcpg_ros.domain import Ros, Running, eventually

pytest.importorskip('ros2_standalone', reason='a ROS 2 distribution is used instead of standalone/')

HEAD = '''
import sys
from launch import LaunchDescription
from launch.actions import (DeclareLaunchArgument, EmitEvent, ExecuteProcess, GroupAction, IncludeLaunchDescription,
    LogInfo, OpaqueFunction, RegisterEventHandler, SetEnvironmentVariable, SetLaunchConfiguration, Shutdown,
    TimerAction)
from launch.conditions import IfCondition, UnlessCondition
from launch.event_handlers import OnProcessExit, OnProcessStart, OnShutdown
from launch.events import Shutdown as ShutdownEvent
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import (EnvironmentVariable, LaunchConfiguration, PathJoinSubstitution, PythonExpression,
    ThisLaunchFileDir)

MERGE = PythonExpression(["'", LaunchConfiguration('scene'), "' == 'merge'"])

def python(code, **options):
    return ExecuteProcess(cmd=[sys.executable, '-u', '-c', code], **{'output': 'screen', **options})

def generate_launch_description():
    return LaunchDescription(['''

# Says that it is ready, then waits; says which signal it was.
PATIENT = ("import signal, sys, time\n"
           "for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, lambda n, f: (print('got', n), sys.exit(0)))\n"
           "print('ready')\n"
           "time.sleep(60)")
# Neither Ctrl-C nor a polite request ends it.
STUBBORN = ("import signal, time\n"
            "for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
            "print('ready')\n"
            "time.sleep(60)")


@pytest.fixture
def launch(ros: Ros, tmp_path: Path) -> Callable[..., Running]:
    ros.environment['ROS_LOG_DIR'] = str(tmp_path / 'log')

    def start(body: str, *arguments: str) -> Running:
        file = tmp_path / 'test.launch.py'
        file.write_text(f'{HEAD}{body}])\n')
        return ros.ros2('launch', file, *arguments)
    return start


def group_is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def pids(running: Running, count: int) -> list[int]:
    """The process numbers of all that was started."""
    eventually(lambda: len(re.findall(r'process started with pid', running.text)) == count, 10, 'processes started')
    return [int(pid) for pid in re.findall(r'process started with pid \[(\d+)\]', running.text)]


def test_a_process_that_finishes_is_reported(launch: Callable[..., Running]) -> None:
    running = launch("python('print(1); import sys; print(2, file=sys.stderr)', name='one')")
    assert running.ended() == 0
    assert re.search(r'^\[INFO\] \[launch\]: All log files can be found below /', running.text, re.MULTILINE)
    assert '[INFO] [launch]: Default logging verbosity is set to INFO\n' in running.text
    assert re.search(r'^\[INFO\] \[one-1\]: process started with pid \[\d+\]$', running.text, re.MULTILINE)
    assert '\n[one-1] 1\n' in running.text
    assert '\n[one-1] 2\n' in running.text
    assert re.search(r'^\[INFO\] \[one-1\]: process has finished cleanly \[pid \d+\]$', running.text, re.MULTILINE)


def test_a_process_that_dies_is_reported_and_the_rest_goes_on(launch: Callable[..., Running]) -> None:
    running = launch("ExecuteProcess(cmd=['sh', '-c', 'exit 3']), python('print(7)', name='other')")
    assert running.ended() == 0
    assert re.search(r"^\[ERROR\] \[sh-1\]: process has died \[pid \d+, exit code 3, cmd 'sh -c exit 3'\]\.$",
                     running.text, re.MULTILINE)
    assert '[other-2] 7' in running.text


def test_output_log_keeps_stdout_off_the_screen_and_in_the_log(launch: Callable[..., Running], tmp_path: Path) -> None:
    running = launch("python('print(11); import sys; print(22, file=sys.stderr)', output='log', name='one')")
    assert running.ended() == 0
    assert '[one-1] 22' in running.text
    assert '[one-1] 11' not in running.text
    [log] = tmp_path.glob('log/*/launch.log')
    assert '[one-1] 11' in log.read_text()


def test_a_process_finds_ros2_without_an_activated_environment(launch: Callable[..., Running]) -> None:
    running = launch("ExecuteProcess(cmd=['ros2', 'pkg', 'executables', 'wcpg_ros'], output='screen')")
    assert running.ended() == 0
    assert '[ros2-1] wcpg_ros evaluate' in running.text


def test_a_missing_program_is_reported(launch: Callable[..., Running]) -> None:
    running = launch("ExecuteProcess(cmd=['/no/such/program'])")
    assert running.ended() == 0
    assert '[ERROR] [program-1]: exception occurred while executing process:' in running.text


def test_on_exit_ends_the_launch(launch: Callable[..., Running]) -> None:
    running = launch(f"python({PATIENT!r}, name='rest'), "
                     "python('raise SystemExit(4)', on_exit=[LogInfo(msg='over'), Shutdown(reason='it died')])")
    assert running.ended() == 0
    assert '[INFO] [launch.user]: over' in running.text
    assert re.search(r'\[launch\]: process\[python\S*-2\] was required: shutting down launched system', running.text)
    assert "[INFO] [rest-1]: sending signal 'SIGINT' to process[rest-1]" in running.text


def test_event_handlers_react_to_start_exit_and_shutdown(launch: Callable[..., Running]) -> None:
    running = launch('''
        RegisterEventHandler(OnProcessStart(on_start=lambda event, context: [
            LogInfo(msg='began ' + event.process_name)])),
        RegisterEventHandler(OnProcessExit(on_exit=lambda event, context: [
            LogInfo(msg=f'ended with {event.returncode}'), EmitEvent(event=ShutdownEvent(reason='enough'))])),
        RegisterEventHandler(OnShutdown(on_shutdown=lambda event, context: [LogInfo(msg='because ' + event.reason)])),
        python('raise SystemExit(5)', name='one')''')
    assert running.ended() == 0
    said = re.findall(r'\[launch.user\]: (.*)', running.text)
    assert said == ['began one-1', 'ended with 5', 'because enough']


def test_arguments_conditions_and_substitutions(launch: Callable[..., Running], tmp_path: Path) -> None:
    body = '''
        DeclareLaunchArgument('alpha', default_value='0.5', description='how much risk to take'),
        DeclareLaunchArgument('scene', default_value='left', choices=['left', 'merge']),
        DeclareLaunchArgument('where', default_value=PathJoinSubstitution([ThisLaunchFileDir(), 'x'])),
        LogInfo(msg=['alpha ', LaunchConfiguration('alpha'), ' in ', LaunchConfiguration('where')]),
        LogInfo(msg='merging', condition=IfCondition(MERGE)),
        LogInfo(msg='turning', condition=UnlessCondition(MERGE)),
        OpaqueFunction(function=lambda context: [LogInfo(msg='seen ' + LaunchConfiguration('scene').perform(context))]),
        SetEnvironmentVariable('COLOUR', 'red'),
        python("import os; print(os.environ['COLOUR'])", name='child'),
        GroupAction([SetLaunchConfiguration('alpha', '9'), LogInfo(msg=['inside ', LaunchConfiguration('alpha')])]),
        LogInfo(msg=['outside ', LaunchConfiguration('alpha')]),
        TimerAction(period=0.05, actions=[LogInfo(msg='later')]),'''
    running = launch(body, 'alpha:=0.1', 'scene:=merge')
    assert running.ended() == 0
    assert re.findall(r'\[launch.user\]: (.*)', running.text) == [
        f'alpha 0.1 in {tmp_path}/x', 'merging', 'seen merge', 'inside 9', 'outside 0.1', 'later']
    assert '[child-1] red' in running.text

    shown = launch(body, '--show-args')
    assert shown.ended() == 0
    assert shown.text == """\
Arguments (pass arguments as '<name>:=<value>'):

    'alpha':
        how much risk to take
        (default: '0.5')

    'scene':
        One of: ['left', 'merge']
        (default: 'left')

    'where':
        no description given
        (default: PathJoin('ThisLaunchFileDir() + 'x''))
"""

    refused = launch(body, 'scene:=roundabout')
    assert refused.ended() == 1
    assert 'Argument "scene" provided value "roundabout" is not valid. Valid options are: [\'left\', \'merge\']' \
        in refused.text

    malformed = launch(body, 'alpha')
    assert malformed.ended() == 1
    assert malformed.text == "malformed launch argument 'alpha', expected format '<name>:=<value>'\n"


def test_a_required_argument_that_is_missing_is_an_error(launch: Callable[..., Running]) -> None:
    running = launch("DeclareLaunchArgument('seed', description='of the traffic')")
    assert running.ended() == 1
    assert ("[ERROR] [launch]: Caught exception in launch (see debug for traceback): Included launch description "
            "missing required argument 'seed' (description: 'of the traffic'), given: []") in running.text


def test_a_launch_that_fails_while_it_starts_starts_nothing_more(launch: Callable[..., Running]) -> None:
    running = launch(f"python({PATIENT!r}, name='one'), LogInfo(msg=LaunchConfiguration('nothing'))")
    assert running.ended() == 1
    assert "launch configuration 'nothing' does not exist" in running.text
    assert 'process started' not in running.text


def test_an_included_launch_file_gets_its_arguments(launch: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / 'inner.launch.py').write_text(
        f"{HEAD}DeclareLaunchArgument('seed'), LogInfo(msg=['seed ', LaunchConfiguration('seed')])])\n")
    running = launch("IncludeLaunchDescription(PythonLaunchDescriptionSource("
                     "PathJoinSubstitution([ThisLaunchFileDir(), 'inner.launch.py'])), "
                     "launch_arguments={'seed': '7'}.items())")
    assert running.ended() == 0
    assert '[launch.user]: seed 7' in running.text


def test_respawn_starts_a_process_again_until_shutdown(launch: Callable[..., Running]) -> None:
    running = launch("python('pass', name='again', respawn=True, respawn_delay=0.05)")
    eventually(lambda: running.text.count('process started') >= 3, 10, 'three starts')
    running.signal(signal.SIGINT)
    assert running.ended() == 0


@pytest.mark.parametrize(('signum', 'exit_code', 'said'), [
    (signal.SIGINT, 0, '[WARNING] [launch]: user interrupted with ctrl-c (SIGINT)'),
    (signal.SIGTERM, 1, '[ERROR] [launch]: user interrupted with ctrl-\\ (SIGTERM), terminating...')])
def test_a_signal_reaches_all(launch: Callable[..., Running], signum: signal.Signals, exit_code: int,
                              said: str) -> None:
    running = launch(f"python({PATIENT!r}, name='one'), python({PATIENT!r}, name='two')")
    running.wait_for(r'\[one-1\] ready')
    running.wait_for(r'\[two-2\] ready')
    started = pids(running, 2)
    running.signal(signum)
    assert running.ended() == exit_code
    assert said in running.text
    for name in ('one-1', 'two-2'):
        assert f"[INFO] [{name}]: sending signal 'SIGINT' to process[{name}]" in running.text
        assert f'[{name}] got 2' in running.text
        assert f'[INFO] [{name}]: process has finished cleanly' in running.text
    assert all(group_is_gone(pid) for pid in started)


def test_a_process_that_ignores_signals_is_killed_in_the_end(launch: Callable[..., Running]) -> None:
    running = launch(f"python({STUBBORN!r}, name='one')", 'sigterm_timeout:=0.3', 'sigkill_timeout:=0.3')
    running.wait_for('ready')
    running.signal(signal.SIGINT)
    assert running.ended() == 0
    assert re.findall(r'\[one-1\]: (.*)', running.text)[1:] == [
        "sending signal 'SIGINT' to process[one-1]",
        "process[one-1] failed to terminate '0.3' seconds after receiving 'SIGINT', escalating to 'SIGTERM'",
        "sending signal 'SIGTERM' to process[one-1]",
        "process[one-1] failed to terminate '0.6' seconds after receiving 'SIGTERM', escalating to 'SIGKILL'",
        "sending signal 'SIGKILL' to process[one-1]",
        *re.findall(r'process has died \[pid .*exit code -9.*', running.text)]


def test_a_second_ctrl_c_is_ignored(launch: Callable[..., Running]) -> None:
    running = launch(f"python({STUBBORN!r}, name='one')", 'sigterm_timeout:=0.5', 'sigkill_timeout:=0.1')
    running.wait_for('ready')
    running.signal(signal.SIGINT)
    running.wait_for('user interrupted')
    running.signal(signal.SIGINT)
    assert running.ended() == 0
    assert 'user interrupted with ctrl-c (SIGINT) again, ignoring...' in running.text


def test_a_killed_launch_leaves_no_orphans(launch: Callable[..., Running]) -> None:
    """Neither its children nor theirs: the second process is a shell that runs another program."""
    running = launch(f"python({PATIENT!r}, name='one'), "
                     "ExecuteProcess(cmd=['sh', '-c', 'sleep 60 & echo ready; wait'], output='screen')")
    running.wait_for(r'\[one-1\] ready')
    running.wait_for(r'\[sh-2\] ready')
    started = pids(running, 2)
    running.signal(signal.SIGKILL)
    running.ended()
    for pid in started:
        eventually(lambda pid=pid: group_is_gone(pid), 5, f'group {pid} gone')


def test_what_a_process_leaves_behind_ends_with_the_launch(launch: Callable[..., Running]) -> None:
    running = launch("ExecuteProcess(cmd=['sh', '-c', 'sleep 60 & echo left $!'], output='screen')")
    assert running.ended() == 0
    [started] = pids(running, 1)
    assert group_is_gone(started)


def test_a_package_without_the_launch_file_says_where_it_looked(ros: Ros) -> None:
    result = ros.run_ros2('launch', 'wcpg_ros', 'no_such.launch.py')
    assert result.returncode == 1
    assert "file 'no_such.launch.py' was not found in the share directory of package 'wcpg_ros'" in result.stderr
    result = ros.run_ros2('launch', 'no_such_package', 'x.launch.py')
    assert result.returncode == 1
    assert "Package 'no_such_package' not found: " in result.stderr
