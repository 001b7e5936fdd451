"""Where a launch description comes from: here, a Python launch file."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import TYPE_CHECKING, Any

from .launch_description import LaunchDescription
from .substitution import SomeSubstitutionsType, TextSubstitution
from .utilities import (
    NOT_SUPPORTED,
    normalize_to_list_of_substitutions,
    perform_substitutions,
    refuse_unsupported,
)

if TYPE_CHECKING:
    from .launch_context import LaunchContext

__all__ = ['AnyLaunchDescriptionSource', 'LaunchDescriptionSource', 'PythonLaunchDescriptionSource',
           'get_launch_description_from_python_launch_file']


def get_launch_description_from_python_launch_file(python_launch_file_path: str) -> LaunchDescription:
    """Load a launch file and call its generate_launch_description()."""
    if not python_launch_file_path.endswith('.py'):
        raise RuntimeError(f"launch file '{python_launch_file_path}' is not a Python file: {NOT_SUPPORTED}")
    loader = SourceFileLoader('python_launch_file', python_launch_file_path)
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None   # a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    if not hasattr(module, 'generate_launch_description'):
        raise RuntimeError(f"launch file at '{python_launch_file_path}' does not contain the required function "
                           "'generate_launch_description()'")
    return module.generate_launch_description()


class LaunchDescriptionSource:
    """A launch file, loaded once, when it is first needed."""

    def __init__(self, launch_file_path: SomeSubstitutionsType) -> None:
        self._path = normalize_to_list_of_substitutions(launch_file_path)
        self._description: LaunchDescription | None = None
        self.location = ' + '.join(part.describe() for part in self._path)

    def get_launch_description(self, context: LaunchContext) -> LaunchDescription:
        """Return what the launch file describes."""
        if self._description is None:
            self.location = perform_substitutions(context, self._path)
            self._description = get_launch_description_from_python_launch_file(self.location)
        return self._description

    def try_get_launch_description_without_context(self) -> LaunchDescription | None:
        """Return what the launch file describes if its path is plain text, else None."""
        if self._description is None and all(isinstance(part, TextSubstitution) for part in self._path):
            self.location = ''.join(part.text for part in self._path if isinstance(part, TextSubstitution))
            self._description = get_launch_description_from_python_launch_file(self.location)
        return self._description


class PythonLaunchDescriptionSource(LaunchDescriptionSource):
    """A Python launch file."""


class AnyLaunchDescriptionSource(LaunchDescriptionSource):
    """Any launch file; here only Python ones are known."""


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
