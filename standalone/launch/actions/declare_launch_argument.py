"""The action that declares a launch argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import logging
from ..action import Action
from ..substitution import SomeSubstitutionsType
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from ..launch_context import LaunchContext


class DeclareLaunchArgument(Action):
    """An argument of the launch file: its default, its description, its choices."""

    def __init__(self, name: str, *, default_value: SomeSubstitutionsType | None = None,
                 description: str | None = None, choices: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.choices = choices
        self.default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)
        if choices is not None:
            if not choices:
                _refuse('Provided choices arg is empty. Use None to ignore the choice list.')
            if isinstance(default_value, str) and default_value not in choices:
                _refuse(f'Provided default_value "{default_value}" is not in provided choices "{choices}".')
        self.description = _describe(description, choices)
        self._conditionally_included = False   # set by LaunchDescription.get_launch_arguments

    def execute(self, context: LaunchContext) -> None:
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                logging.get_logger('launch.actions.declare_launch_argument').error(
                    'Required launch argument "%s" (description: "%s") was not provided', self.name, self.description)
                raise RuntimeError(f'Required launch argument "{self.name}" was not provided.')
            context.launch_configurations[self.name] = perform_substitutions(context, self.default_value)
        value = context.launch_configurations[self.name]
        if self.choices is not None and value not in self.choices:
            _refuse(f'Argument "{self.name}" provided value "{value}" is not valid. '
                    f'Valid options are: {self.choices}')


def _refuse(problem: str) -> None:
    logging.get_logger('launch.actions.declare_launch_argument').error('%s', problem)
    raise RuntimeError(problem)


def _describe(description: str | None, choices: list[str] | None) -> str:
    if choices is None:
        return 'no description given' if description is None else description
    if description is None:
        return f'One of: {choices}'
    return f"{description}{'' if description.endswith('.') else '.'} Valid choices are: {choices}"
