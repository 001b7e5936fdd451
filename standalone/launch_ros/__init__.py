"""The part of the `launch_ros` API that this project's launch files use, for a machine with no ROS 2 distribution."""

from . import actions, descriptions, parameter_descriptions, substitutions

__all__ = ['actions', 'descriptions', 'parameter_descriptions', 'substitutions']
