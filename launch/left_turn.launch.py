"""The unprotected left turn: simulator and policy. `--show-args` lists what can be set."""

from launch import LaunchDescription
from wcpg_ros.launching import scene_launch


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` starts."""
    return scene_launch('left_turn')
