"""What a launch file returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .launch_description_entity import LaunchDescriptionEntity

if TYPE_CHECKING:
    from .action import Action
    from .actions import DeclareLaunchArgument
    from .launch_context import LaunchContext


class LaunchDescription(LaunchDescriptionEntity):
    """A list of things to do."""

    def __init__(self, initial_entities: Iterable[LaunchDescriptionEntity] | None = None) -> None:
        self.entities = list(initial_entities or [])

    def add_entity(self, entity: LaunchDescriptionEntity) -> None:
        """Add one more thing to do."""
        self.entities.append(entity)

    def add_action(self, action: Action) -> None:
        """Add one more action."""
        self.add_entity(action)

    def visit(self, context: LaunchContext) -> list[LaunchDescriptionEntity]:
        return self.entities

    def describe_sub_entities(self) -> list[LaunchDescriptionEntity]:
        return self.entities

    def get_launch_arguments(self, conditional_inclusion: bool = False) -> list[DeclareLaunchArgument]:
        """Return every argument that is declared in here, as far as it is known before launching."""
        from .actions import DeclareLaunchArgument  # the actions import this module
        found: list[DeclareLaunchArgument] = []

        def search(entities: Iterable[LaunchDescriptionEntity], conditional: bool) -> None:
            for entity in entities:
                if isinstance(entity, DeclareLaunchArgument):
                    entity._conditionally_included = conditional or entity.condition is not None
                    found.append(entity)
                search(entity.describe_sub_entities(), conditional)
                search(entity.describe_conditional_sub_entities(), True)

        search(self.entities, conditional_inclusion)
        return found
