"""The part of the `launch` API that this project's launch files use, for a machine with no ROS 2 distribution.

Launch files are written against the real package; the names, the arguments and what is said on the screen are
the real ones. What is missing says that it is not supported here.
"""

from . import actions, conditions, events, logging, substitutions
from .action import Action
from .condition import Condition
from .event import Event
from .event_handler import EventHandler
from .launch_context import LaunchContext
from .launch_description import LaunchDescription
from .launch_description_entity import LaunchDescriptionEntity
from .launch_description_sources import LaunchDescriptionSource
from .launch_service import LaunchService
from .substitution import SomeSubstitutionsType, Substitution

__all__ = [
    'Action',
    'Condition',
    'Event',
    'EventHandler',
    'LaunchContext',
    'LaunchDescription',
    'LaunchDescriptionEntity',
    'LaunchDescriptionSource',
    'LaunchService',
    'SomeSubstitutionsType',
    'Substitution',
    'actions',
    'conditions',
    'events',
    'logging',
    'substitutions',
]
