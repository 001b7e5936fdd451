"""What a launch can do."""

from typing import Any

from ..utilities import refuse_unsupported
from .basic import (
    EmitEvent,
    GroupAction,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    SetLaunchConfiguration,
    Shutdown,
    TimerAction,
    UnregisterEventHandler,
)
from .declare_launch_argument import DeclareLaunchArgument
from .execute_process import ExecuteProcess
from .include_launch_description import IncludeLaunchDescription

__all__ = [
    'DeclareLaunchArgument',
    'EmitEvent',
    'ExecuteProcess',
    'GroupAction',
    'IncludeLaunchDescription',
    'LogInfo',
    'OpaqueFunction',
    'RegisterEventHandler',
    'SetEnvironmentVariable',
    'SetLaunchConfiguration',
    'Shutdown',
    'TimerAction',
    'UnregisterEventHandler',
]


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
