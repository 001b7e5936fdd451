"""A launch_testing example: the launch file drives, and both nodes end well when they are told to.

Run it with `launch_test`, which only a ROS 2 distribution has. Verified with launch_testing 3.4, from the sources of
Jazzy, and not within a distribution.
"""

import unittest

import launch_testing.actions
import launch_testing.asserts

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare


def generate_test_description():
    """The left turn as fast as it goes, and the tests beside it."""
    launch_file = PathJoinSubstitution([FindPackageShare('wcpg_ros'), 'launch', 'left_turn.launch.py'])
    arguments = {'speed_factor': '0', 'lockstep': 'true', 'seed': '7'}
    return LaunchDescription([
        IncludeLaunchDescription(PythonLaunchDescriptionSource(launch_file), launch_arguments=arguments.items()),
        launch_testing.actions.ReadyToTest()])


class WhileItDrives(unittest.TestCase):
    """Runs beside the nodes."""

    def test_three_episodes_end(self, proc_output):
        """Each says how."""
        for number in (1, 2, 3):
            proc_output.assertWaitFor(f'episode {number} (seed {number + 6}): ', timeout=120)


@launch_testing.post_shutdown_test()
class AfterShutdown(unittest.TestCase):
    """Runs when all has ended."""

    def test_both_nodes_ended_well(self, proc_info):
        """No crash on the way out."""
        launch_testing.asserts.assertExitCodes(proc_info)

    def test_the_simulator_sums_up(self, proc_output):
        """Whenever it is stopped."""
        launch_testing.asserts.assertInStdout(proc_output, ' episodes: ', 'sim-1')
