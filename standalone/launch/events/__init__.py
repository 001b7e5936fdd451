"""The events of a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..event import Event
from ..utilities import refuse_unsupported

if TYPE_CHECKING:
    from ..action import Action

__all__ = ['Shutdown', 'matches_action']


class Shutdown(Event):
    """The launch should end; processes are asked to stop."""

    name = 'launch.events.Shutdown'

    def __init__(self, *, reason: str = 'reason not given', due_to_sigint: bool = False) -> None:
        self.reason = reason
        self.due_to_sigint = due_to_sigint


def matches_action(target_action: Action) -> Callable[[Action], bool]:
    """Return a matcher for one action."""
    return lambda action: action is target_action


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
