"""The action that runs another launch description."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..action import Action
from ..launch_description_entity import LaunchDescriptionEntity
from ..launch_description_sources import AnyLaunchDescriptionSource, LaunchDescriptionSource
from ..substitution import SomeSubstitutionsType
from ..utilities import perform
from .basic import SetLaunchConfiguration

if TYPE_CHECKING:
    from ..launch_context import LaunchContext


class IncludeLaunchDescription(Action):
    """Runs another launch file, with arguments."""

    def __init__(self, launch_description_source: LaunchDescriptionSource | SomeSubstitutionsType, *,
                 launch_arguments: Iterable[tuple[SomeSubstitutionsType, SomeSubstitutionsType]] | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(launch_description_source, LaunchDescriptionSource):
            launch_description_source = AnyLaunchDescriptionSource(launch_description_source)
        self.launch_description_source = launch_description_source
        self.launch_arguments = tuple(launch_arguments or ())

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        description = self.launch_description_source.try_get_launch_description_without_context()
        return [] if description is None else [description]

    def execute(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        description = self.launch_description_source.get_launch_description(context)
        context.extend_locals({'current_launch_file_path': os.path.abspath(self.launch_description_source.location)})
        given = [perform(context, name) for name, _ in self.launch_arguments]
        for argument in description.get_launch_arguments():
            needed = argument.default_value is None and not argument._conditionally_included
            if needed and argument.name not in [*given, *context.launch_configurations]:
                raise RuntimeError(
                    f"Included launch description missing required argument '{argument.name}' "
                    f"(description: '{argument.description}'), given: [{', '.join(given)}]")
        return [*(SetLaunchConfiguration(name, value) for name, value in self.launch_arguments), description]
