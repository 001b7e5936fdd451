"""The substitutions launch files use."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .substitution import SomeSubstitutionsType, Substitution, TextSubstitution
from .utilities import normalize_to_list_of_substitutions, perform_substitutions, refuse_unsupported

if TYPE_CHECKING:
    from .launch_context import LaunchContext

__all__ = ['EnvironmentVariable', 'FindExecutable', 'LaunchConfiguration', 'PathJoinSubstitution',
           'PythonExpression', 'SubstitutionFailure', 'TextSubstitution', 'ThisLaunchFile', 'ThisLaunchFileDir']


def _describe(subs: Iterable[Substitution]) -> str:
    return ' + '.join(sub.describe() for sub in subs)


class SubstitutionFailure(RuntimeError):
    """A substitution that could not be performed."""


class LaunchConfiguration(Substitution):
    """The value of a launch argument."""

    def __init__(self, variable_name: SomeSubstitutionsType, *, default: Any = None) -> None:
        self.variable_name = normalize_to_list_of_substitutions(variable_name)
        self._default = None if default is None else _as_substitutions(default)

    def describe(self) -> str:
        return f'LaunchConfig({_describe(self.variable_name)})'

    def perform(self, context: LaunchContext) -> str:
        name = perform_substitutions(context, self.variable_name)
        if name in context.launch_configurations:
            return context.launch_configurations[name]
        if self._default is None:
            raise SubstitutionFailure(f"launch configuration '{name}' does not exist")
        return perform_substitutions(context, self._default)


class PathJoinSubstitution(Substitution):
    """Path components, joined."""

    def __init__(self, substitutions: Iterable[str | Substitution]) -> None:
        self.substitutions = normalize_to_list_of_substitutions(substitutions)

    def describe(self) -> str:
        return f"PathJoin('{_describe(self.substitutions)}')"

    def perform(self, context: LaunchContext) -> str:
        return os.path.join(*(sub.perform(context) for sub in self.substitutions))


class PythonExpression(Substitution):
    """The value of a Python expression, as text; `math` is in scope."""

    def __init__(self, expression: SomeSubstitutionsType, python_modules: SomeSubstitutionsType = ('math',)) -> None:
        self.expression = normalize_to_list_of_substitutions(expression)
        self.python_modules = normalize_to_list_of_substitutions(python_modules)

    def describe(self) -> str:
        return f"PythonExpr({_describe(self.expression)}, [{', '.join(m.describe() for m in self.python_modules)}])"

    def perform(self, context: LaunchContext) -> str:
        scope: dict[str, Any] = {}
        for module in self.python_modules:
            name = context.perform_substitution(module)
            scope[name] = importlib.import_module(name)
            if name == 'math':
                scope.update(vars(scope[name]))
        return str(eval(perform_substitutions(context, self.expression), {}, scope))


class EnvironmentVariable(Substitution):
    """The value of an environment variable."""

    def __init__(self, name: SomeSubstitutionsType, *, default_value: SomeSubstitutionsType | None = None) -> None:
        self.name = normalize_to_list_of_substitutions(name)
        self.default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)

    def describe(self) -> str:
        return f'EnvVar({_describe(self.name)})'

    def perform(self, context: LaunchContext) -> str:
        name = perform_substitutions(context, self.name)
        if name in context.environment:
            return context.environment[name]
        if self.default_value is None:
            raise SubstitutionFailure(f"environment variable '{name}' does not exist")
        return perform_substitutions(context, self.default_value)


class FindExecutable(Substitution):
    """The full path of a program on PATH."""

    def __init__(self, *, name: SomeSubstitutionsType) -> None:
        self.name = normalize_to_list_of_substitutions(name)

    def describe(self) -> str:
        return f'FindExec({_describe(self.name)})'

    def perform(self, context: LaunchContext) -> str:
        name = perform_substitutions(context, self.name)
        found = shutil.which(name)
        if found is None:
            raise SubstitutionFailure(f"executable '{name}' not found on the PATH")
        return found


class ThisLaunchFile(Substitution):
    """The path of the launch file being run."""

    def describe(self) -> str:
        return 'ThisLaunchFile()'

    def perform(self, context: LaunchContext) -> str:
        return _launch_file(context)


class ThisLaunchFileDir(Substitution):
    """The directory of the launch file being run."""

    def describe(self) -> str:
        return 'ThisLaunchFileDir()'

    def perform(self, context: LaunchContext) -> str:
        return os.path.dirname(_launch_file(context))


def _launch_file(context: LaunchContext) -> str:
    path = getattr(context.locals, 'current_launch_file_path', None)
    if path is None:
        raise SubstitutionFailure('ThisLaunchFile used outside of a launch file (in a script)')
    return path


def _as_substitutions(value: Any) -> list[Substitution]:
    """A default may also be a number or a bool: 5 stands for '5'."""
    if isinstance(value, (str, Substitution, Iterable)):
        return normalize_to_list_of_substitutions(value)
    return [TextSubstitution(text=str(value))]


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
