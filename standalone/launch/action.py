"""The base of what a launch does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .condition import Condition
from .launch_description_entity import LaunchDescriptionEntity

if TYPE_CHECKING:
    from .launch_context import LaunchContext


class Action(LaunchDescriptionEntity):
    """Something a launch does, if its condition holds."""

    def __init__(self, *, condition: Condition | None = None) -> None:
        self.condition = condition

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity] | None:
        if self.condition is None or self.condition.evaluate(context):
            return self.execute(context)
        return None

    def execute(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity] | None:
        """Do it; return what to do next."""
        return None

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        """Return what this action holds, as far as it is known before launching."""
        return []

    def describe_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.get_sub_entities() if self.condition is None else []

    def describe_conditional_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.get_sub_entities() if self.condition is not None else []
