"""The action that runs a node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from launch import LaunchContext, SomeSubstitutionsType, logging
from launch.actions import ExecuteProcess
from launch.utilities import normalize_to_list_of_substitutions, perform, refuse_unsupported

from .parameter_descriptions import Parameter, ParameterFile, evaluate_parameter_dict
from .substitutions import ExecutableInPackage

__all__ = ['Node']

# The key under which a parameter file reaches a node whose full name the launch does not know.
ANY_NODE = '/**'


class Node(ExecuteProcess):
    """Runs a package's program with a node name, a namespace, parameters and remappings."""

    def __init__(self, *, executable: SomeSubstitutionsType, package: SomeSubstitutionsType | None = None,
                 name: SomeSubstitutionsType | None = None, namespace: SomeSubstitutionsType | None = None,
                 exec_name: SomeSubstitutionsType | None = None,
                 parameters: Sequence[Any] | None = None,
                 remappings: Iterable[tuple[SomeSubstitutionsType, SomeSubstitutionsType]] | None = None,
                 ros_arguments: Iterable[SomeSubstitutionsType] | None = None,
                 arguments: Iterable[SomeSubstitutionsType] | None = None, **kwargs: Any) -> None:
        program = executable if package is None else ExecutableInPackage(package=package, executable=executable)
        cmd: list[SomeSubstitutionsType] = [program, *(arguments or [])]
        if ros_arguments:
            cmd += ['--ros-args', *ros_arguments]
        super().__init__(cmd=[*cmd, '--ros-args'], name=exec_name, **kwargs)
        if parameters is not None and not isinstance(parameters, (list, tuple)):
            raise TypeError(f'Node expected the parameters in a list, got {parameters!r}')
        self._node_name = name
        self._namespace = namespace
        self._parameters = list(parameters or [])
        self._remappings = list(remappings or [])
        self._files: tempfile.TemporaryDirectory[str] | None = None   # gone when the launch is

    def execute(self, context: LaunchContext) -> None:
        for argument in self._ros_arguments(context):
            self.cmd.append(normalize_to_list_of_substitutions(argument))
        super().execute(context)

    def _ros_arguments(self, context: LaunchContext) -> list[str]:
        found: list[str] = []
        key = ANY_NODE
        name = None if self._node_name is None else perform(context, self._node_name)
        if name is not None:
            found += ['-r', f'__node:={name}']
        if self._namespace is not None:
            namespace = '/' + perform(context, self._namespace).strip('/')
            found += ['-r', f'__ns:={namespace}']
            if name is not None:
                key = f"{namespace.rstrip('/')}/{name}"
        for parameter in self._parameters:
            if isinstance(parameter, Parameter):
                parameter_name, value = parameter.evaluate(context)
                found += ['-p', f'{parameter_name}:={yaml.dump(value)}']
            elif isinstance(parameter, Mapping):
                found += ['--params-file', self._write({key: {
                    'ros__parameters': evaluate_parameter_dict(context, parameter)}})]
            else:
                file = parameter if isinstance(parameter, ParameterFile) else ParameterFile(parameter)
                path = file.evaluate(context)
                if os.path.isfile(path):
                    found += ['--params-file', path]
                else:
                    logging.get_logger('launch_ros.actions.node').warning(
                        'Parameter file path is not a file: %s', path)
        for source, target in self._remappings:
            found += ['-r', f'{perform(context, source)}:={perform(context, target)}']
        return found

    def _write(self, content: dict[str, Any]) -> str:
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix='launch_params_')
        path = os.path.join(self._files.name, f'{len(os.listdir(self._files.name))}.yaml')
        with open(path, 'w') as file:
            yaml.dump(content, file, Dumper=_QuotingDumper)
        return path


class _QuotingDumper(yaml.SafeDumper):
    """Quotes all text: to a node's parser y, no and off are not text but booleans."""


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar('tag:yaml.org,2002:str', text, style='"'))


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
