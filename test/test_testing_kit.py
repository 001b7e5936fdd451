"""The test kit itself: the three kinds of controllers, the same episodes each time, and what it says when they fail."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim_node.episode_result import EpisodeResult
from wcpg_ros import domain
from wcpg_ros.testing import Result, TrafficScene

EXAMPLES = Path(__file__).parent.parent / 'examples'
CONTROLLER = [sys.executable, EXAMPLES / 'patient_driver.py']

pytestmark = pytest.mark.usefixtures('kernels')


def episode(seed: int, outcome: str, steps: int = 100) -> EpisodeResult:
    return EpisodeResult('left_turn', 'train', seed, outcome, steps, 0.125, '', 0, 0)


def test_a_result_counts_and_names_the_seeds_to_look_at() -> None:
    result = Result((episode(1, 'success', 50), episode(2, 'collision'), episode(3, 'success', 70),
                     episode(4, 'timeout'), episode(5, 'no_command'), episode(6, 'collision')))
    assert (result.successes, result.collisions, result.timeouts, result.unanswered) == (2, 2, 1, 1)
    assert result.mean_steps == 60.0
    assert repr(result) == ('<6 episodes: 2 success, 2 collision (seeds 2, 6), 1 timeout (seeds 4), '
                            '1 no_command (seeds 5)>')


def test_a_result_survives_the_message_to_the_last_bit() -> None:
    result = EpisodeResult('merge', '+5/1%', 2**60, 'collision', 31, 0.1 + 0.2, 'vehicle_3', 10**10, 2 * 10**10)
    assert EpisodeResult.from_texts(result.texts()) == result
    assert result.texts()['return'] == '0.30000000000000004'


def test_a_command_line_a_launch_file_and_a_node_drive_the_same_episodes(
        traffic_scene: TrafficScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    from patient_driver import PatientDriver

    launch_file = tmp_path / 'controller.launch.py'
    launch_file.write_text(f'''
from launch import LaunchDescription
from launch.actions import ExecuteProcess

def generate_launch_description():
    return LaunchDescription([ExecuteProcess(cmd={[str(part) for part in CONTROLLER]})])
''')
    drives = [traffic_scene.drive(controller, episodes=2, seed=11, row='+0/8%')
              for controller in (CONTROLLER, launch_file, PatientDriver)]
    assert drives[0] == drives[1] == drives[2]
    assert [result.seed for result in drives[0].episodes] == [11, 12]
    assert drives[0].episodes[0].row == '+0/8%'


def test_a_controller_that_ends_is_named_with_its_last_words(traffic_scene: TrafficScene) -> None:
    with pytest.raises(AssertionError, match=r'a publisher of /ego/acceleration_command: the controller ended with 3'
                                             r'\n--- controller:\nno gas\n'):
        traffic_scene.drive([sys.executable, '-c', 'print("no gas"); raise SystemExit(3)'])


def test_a_controller_that_says_nothing_is_given_up(traffic_scene: TrafficScene) -> None:
    with pytest.raises(AssertionError, match=r'nothing new for 0\.5 s'):
        traffic_scene.drive([sys.executable, '-c', 'import time; time.sleep(60)'], patience=0.5)
    with pytest.raises(ValueError, match='give a command line as a list'):
        traffic_scene.drive('my_controller.py')


def test_a_drive_that_would_show_nothing_is_refused(traffic_scene: TrafficScene) -> None:
    for wrong, words in (({'episodes': 0}, 'a drive of none shows nothing'),
                         ({'parameters': {'traffic.spwan_rate': 0.5}}, 'no parameter traffic.spwan_rate')):
        with pytest.raises(ValueError, match=words):
            traffic_scene.drive(CONTROLLER, **wrong)
    for controller, words in (('/no/such.launch.py', 'there is no such file'), (['no_such_command'], 'no command'),
                              (3, 'give a command line as a list'), ([], 'give a command line as a list')):
        with pytest.raises(ValueError, match=words):
            traffic_scene.drive(controller)


def test_a_command_that_was_refused_is_shown(traffic_scene: TrafficScene) -> None:
    from geometry_msgs.msg import AccelStamped
    from nav_msgs.msg import Odometry
    from rclpy.node import Node

    class Dreamer(Node):
        def __init__(self) -> None:
            super().__init__('dreamer')
            self.commands = self.create_publisher(AccelStamped, 'ego/acceleration_command', 10)
            self.create_subscription(Odometry, 'ego/odometry', self.answer, 1)

        def answer(self, state: Odometry) -> None:
            command = AccelStamped(header=state.header)
            command.header.frame_id = 'base_link'
            command.accel.linear.x = float('nan')
            self.commands.publish(command)

    result = traffic_scene.drive(Dreamer, episodes=1, parameters={'command_timeout': 1.0})
    assert result.unanswered == 1
    assert 'not finite' in repr(result)


def test_an_unknown_row_is_the_simulator_s_to_refuse(traffic_scene: TrafficScene) -> None:
    with pytest.raises(AssertionError, match="sim: row 'nope': left_turn has no such row"):
        traffic_scene.drive(CONTROLLER, row='nope')


def test_a_node_s_own_exception_fails_the_test(traffic_scene: TrafficScene) -> None:
    from geometry_msgs.msg import AccelStamped
    from nav_msgs.msg import Odometry
    from rclpy.node import Node

    class Broken(Node):
        def __init__(self) -> None:
            super().__init__('broken')
            self.create_publisher(AccelStamped, 'ego/acceleration_command', 10)
            self.create_subscription(Odometry, 'ego/odometry', lambda message: 1 / 0, 1)

    with pytest.raises(ZeroDivisionError):
        traffic_scene.drive(Broken)


def test_the_plugin_costs_nothing_to_those_who_do_not_use_it() -> None:
    """It is loaded in every pytest run of the environment, so it must not bring ROS or the simulator with it."""
    code = ('import sys, pytest, wcpg_ros.testing\n'
            'print([name for name in ("rclpy", "numpy", "numba", "torch", "yaml") if name in sys.modules])')
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout == '[]\n'


def test_memory_of_the_dead_is_removed_and_that_of_the_living_kept(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, 'SHARED_MEMORY', tmp_path)
    dead, alive, newborn = (tmp_path / f'fastrtps_{number:016x}' for number in range(3))
    for segment in (dead, alive, newborn):
        segment.touch()
        lock = Path(f'{segment}_el')
        lock.touch()
        if segment != newborn:
            os.utime(lock, (0, 0))
    other = tmp_path / 'fastrtps_port7410_el'
    other.touch()
    os.utime(other, (0, 0))
    with Path(f'{alive}_el').open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        domain.remove_dead_segments()
    assert set(tmp_path.iterdir()) == {alive, Path(f'{alive}_el'), newborn, Path(f'{newborn}_el'), other}
