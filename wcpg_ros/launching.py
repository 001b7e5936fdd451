"""What the launch files share: the simulator, the policy and what may go with them."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, ExecuteProcess, LogInfo, OpaqueFunction, Shutdown
from launch.events import matches_action
from launch.events.process import ProcessExited, ShutdownProcess
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from wcpg_ros.domain import ros2_command

PACKAGE = 'wcpg_ros'
RECORDED = ('/clock', '/ego/odometry', '/vehicles', '/vehicles/markers', '/ego/acceleration_command', '/wcpg/risk',
            '/sim/episode', '/diagnostics')
OF_EVERY_LAUNCH = ('launch-prefix', 'launch-prefix-filter', 'sigterm_timeout', 'sigkill_timeout')   # arguments
STORAGES = ('mcap', 'sqlite3')
SLOW_TIMEOUT = 10.0      # s of silence that are still fine where a step waits for its command
REAL_TIMEOUT = 0.5       # s, at real time
SHORTEST_TIMEOUT = 0.2   # s, however fast the simulation runs


def scene_launch(scenario: str) -> LaunchDescription:
    """The simulator and the policy of one scene."""
    share = FindPackageShare(PACKAGE)
    arguments: dict[str, tuple[Any, str]] = {
        'alpha': ('0.1', 'how much risk to take: 0.01 (cautious) to 1 (neutral)'),
        'model': (PathJoinSubstitution([share, 'models', f'{scenario}.safetensors']), 'the trained policy'),
        'seed': ('0', 'seed of the first episode; each further one adds 1'),
        'row': ('train', "row of the scene's extrapolation table"),
        'speed_factor': ('1.0', 'how much faster than real time; 0: as fast as it goes'),
        'lockstep': ('false', 'the simulator waits for the command that answers each state'),
        'episodes': ('0', 'end after this many episodes with a summary; 0: never'),
        'record': ('', 'record everything into this rosbag2 directory, from the first state on'),
        'storage': ('mcap', 'how to record: mcap or sqlite3'),
        'rviz': ('false', 'show the scene in RViz (needs a ROS 2 distribution)'),
        'keep_going': ('false', 'go on when the policy dies; the simulator then brakes by itself'),
        'scene_pose': ('[0.0, 0.0, 0.0]', "where the scene's origin lies in the map: [x, y, yaw]"),
        'params_file': (PathJoinSubstitution([share, 'config', 'nodes.yaml']), 'further parameters of both nodes'),
    }
    declared = [DeclareLaunchArgument(name, default_value=default, description=description)
                for name, (default, description) in arguments.items()]
    known = {*arguments, *OF_EVERY_LAUNCH}
    return LaunchDescription([*declared, OpaqueFunction(function=_start, args=[scenario, known])])


def silence_allowed(speed_factor: float, lockstep: bool) -> float:
    """Seconds of real time without a message after which the other side counts as dead."""
    if lockstep or speed_factor == 0.0:
        return SLOW_TIMEOUT
    return max(REAL_TIMEOUT / speed_factor, SHORTEST_TIMEOUT)


def _end_with(who: str) -> Callable[[ProcessExited, LaunchContext], Shutdown | None]:
    """What to do when a process ends: end the launch too, and as a failure if it has died."""
    def react(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
        if context.is_shutdown:
            return None
        if event.returncode:
            raise RuntimeError(f'{who} has died with exit code {event.returncode}; its last words are above')
        return Shutdown(reason=f'{who} has ended')
    return react


def _start(context: LaunchContext, scenario: str, known: set[str]) -> list[Any]:
    def given(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    def switched_on(name: str) -> bool:
        text = given(name).lower()
        if text not in ('true', 'false', '1', '0'):
            raise RuntimeError(f"launch argument {name}: expected true or false, got '{given(name)}'")
        return text in ('true', '1')

    def number(name: str, kind: type) -> Any:
        with contextlib.suppress(ValueError):
            if math.isfinite(value := kind(given(name))):
                return value
        what = 'a whole number' if kind is int else 'a number'
        raise RuntimeError(f"launch argument {name}: expected {what}, got '{given(name)}'")

    def path(name: str) -> str:
        return os.path.expanduser(given(name))     # no shell does behind a `:=`

    def pose(name: str) -> list[float]:
        try:
            x, y, yaw = (float(part) for part in given(name).strip('[] ').split(','))
        except ValueError:
            raise RuntimeError(f"launch argument {name}: expected [x, y, yaw], got '{given(name)}'") from None
        return [x, y, yaw]

    speed_factor, lockstep = number('speed_factor', float), switched_on('lockstep')
    silence = silence_allowed(speed_factor, lockstep)
    params_file = path('params_file')
    if not os.path.isfile(params_file):     # else it would be left out with a mere warning
        raise RuntimeError(f"launch argument params_file: no such file '{params_file}'")
    if switched_on('rviz'):     # looked for before anything is started
        FindPackageShare('rviz2').perform(context)
    unknown = [name for name in (argument.partition(':=')[0] for argument in context.argv) if name not in known]
    recorded, keep_going = bool(given('record')), switched_on('keep_going')

    def simulator_ended(event: ProcessExited, context: LaunchContext) -> Any:
        ending = _end_with('the simulator')(event, context)
        if ending is not None and recorded and policy.return_code is None:     # the recorder ends last: it gets it all
            return EmitEvent(event=ShutdownProcess(process_matcher=matches_action(policy)))
        return ending

    def policy_ended(event: ProcessExited, context: LaunchContext) -> Any:
        return None if keep_going and simulator.return_code is None else _end_with('the policy')(event, context)

    simulator = Node(
        package=PACKAGE, executable='sim', name='sim', output='screen',
        parameters=[params_file, {
            'scenario': scenario, 'row': given('row'), 'seed': number('seed', int), 'speed_factor': speed_factor,
            'lockstep': lockstep, 'episodes': number('episodes', int), 'command_timeout': silence,
            'await_driver': True,     # two nodes may need seconds to find each other
            'await_recorder': recorded, 'scene_pose': pose('scene_pose')}],
        on_exit=simulator_ended)
    policy = Node(
        package=PACKAGE, executable='wcpg', name='wcpg', output='screen',
        parameters=[params_file, {
            'alpha': number('alpha', float), 'model': path('model'), 'scenario': scenario,
            'scene_pose': pose('scene_pose'), 'stale_after': silence, 'await_recorder': recorded,
            'use_sim_time': True}],
        on_exit=policy_ended)
    actions: list[Any] = [
        *(LogInfo(msg=f"launch argument {name}: not one of {scenario}.launch.py, see --show-args") for name in unknown),
        simulator, policy]
    if given('storage') not in STORAGES:
        raise RuntimeError(f"launch argument storage: expected {' or '.join(STORAGES)}, got '{given('storage')}'")
    if recorded:
        command = ['bag', 'record', '-o', path('record'), '-s', given('storage'), '--topics', *RECORDED]
        actions.append(ExecuteProcess(cmd=[ros2_command(), *command], output='screen',
                                      on_exit=_end_with('the recorder')))
    if switched_on('rviz'):
        layout = PathJoinSubstitution([FindPackageShare(PACKAGE), 'config', 'scene.rviz'])
        actions.append(Node(package='rviz2', executable='rviz2', arguments=['-d', layout]))
    return actions
