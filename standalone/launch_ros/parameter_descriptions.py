"""How launch files give parameters: as values with a type, one by one, or as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from launch import LaunchContext, SomeSubstitutionsType, Substitution
from launch.utilities import coerce_to_type, normalize_to_list_of_substitutions, perform, refuse_keywords

__all__ = ['Parameter', 'ParameterFile', 'ParameterValue', 'evaluate_parameter_dict']


class ParameterValue:
    """A value; text that substitutions give is read as `value_type`."""

    def __init__(self, value: Any, *, value_type: Any = None) -> None:
        self.value = value
        self.value_type = value_type

    def evaluate(self, context: LaunchContext) -> Any:
        """Return the value."""
        if _is_text(self.value):
            return coerce_to_type(perform(context, self.value), self.value_type)
        return list(self.value) if isinstance(self.value, tuple) else self.value


class Parameter:
    """A name and a value."""

    def __init__(self, name: SomeSubstitutionsType, value: Any, *, value_type: Any = None) -> None:
        self.name = normalize_to_list_of_substitutions(name)
        self._value = ParameterValue(value, value_type=value_type)

    def evaluate(self, context: LaunchContext) -> tuple[str, Any]:
        """Return the name and the value."""
        return perform(context, self.name), self._value.evaluate(context)


class ParameterFile:
    """A YAML file of parameters."""

    def __init__(self, param_file: SomeSubstitutionsType | os.PathLike[str], **unsupported: Any) -> None:
        refuse_keywords('ParameterFile', unsupported)
        self.param_file = os.fspath(param_file) if isinstance(param_file, os.PathLike) else param_file

    def evaluate(self, context: LaunchContext) -> str:
        """Return the path."""
        return perform(context, self.param_file)


def evaluate_parameter_dict(context: LaunchContext, parameters: Mapping[Any, Any], prefix: str = '') -> dict[str, Any]:
    """Return plain names and values; a dictionary within gives names with a dot."""
    evaluated: dict[str, Any] = {}
    for key, value in parameters.items():
        name = prefix + perform(context, key)
        if isinstance(value, Mapping):
            evaluated.update(evaluate_parameter_dict(context, value, name + '.'))
        else:
            evaluated[name] = _evaluate(context, name, value)
    return evaluated


def _evaluate(context: LaunchContext, name: str, value: Any) -> Any:
    if isinstance(value, ParameterValue):
        return value.evaluate(context)
    if isinstance(value, (str, bool, int, float)):
        return value
    if _is_text(value):
        return _from_yaml(name, perform(context, value))
    if isinstance(value, Sequence):
        items = [_from_yaml(name, perform(context, item)) if _is_text(item) and not isinstance(item, str) else item
                 for item in value]
        kinds = {type(item) for item in items}
        if kinds == {int, float}:
            return [float(item) for item in items]
        if len(kinds) == 1 and kinds < {bool, int, float, str}:
            return items
        raise TypeError('Expected a non-empty sequence, with items of uniform type. Allowed sequence item types are '
                        f'bool, int, float, str. Got inconsistent input for "{name}"')
    raise TypeError(f'Unexpected type for parameter value {value!r}')


def _is_text(value: Any) -> bool:
    """Text, a substitution, or a list of both with at least one substitution in it: together they are one text."""
    if isinstance(value, (list, tuple)):
        return (any(isinstance(item, Substitution) for item in value)
                and all(isinstance(item, (str, Substitution)) for item in value))
    return isinstance(value, (str, Substitution))


def _from_yaml(name: str, text: str) -> Any:
    try:
        return coerce_to_type(text)
    except Exception as problem:
        raise TypeError(
            f'Unable to parse the value of parameter {name} as yaml. If the parameter is meant to be a string, try '
            'wrapping it in launch_ros.parameter_descriptions.ParameterValue(value, value_type=str)') from problem
