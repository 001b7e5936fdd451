"""Settings as frozen dataclasses, filled from YAML; anything unknown or of the wrong kind is an error that names it."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar('T')


class SettingsError(ValueError):
    """A setting that is unknown, missing, of the wrong type or out of range."""


def choices(names: typing.Iterable[object]) -> str:
    """A list for the end of an error message."""
    return 'choose one of ' + ', '.join(str(name) for name in names)


def from_mapping(kind: type[T], values: object, where: str) -> T:
    """An instance of a settings dataclass from what YAML gave; `where` names the place in errors."""
    if not isinstance(values, Mapping):
        raise SettingsError(f'{where}: expected settings (key: value), got {values!r}')
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise SettingsError(f'{where}: unknown setting {name!r}; {choices(fields)}')
    filled = {}
    for name, field in fields.items():
        if name in values:
            filled[name] = _convert(hints[name], values[name], f'{where}.{name}')
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise SettingsError(f'{where}: setting {name!r} is missing')
    return kind(**filled)


def replaced(settings: T, changes: Mapping[str, Any], where: str) -> T:
    """Settings with some changed, all at once; nested ones are given by dotted names (`traffic.spawn_rate`)."""
    hints = typing.get_type_hints(type(settings))
    changed: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        head, _, rest = name.partition('.')
        if head not in hints:
            raise SettingsError(f'{where}: unknown setting {head!r}; {choices(hints)}')
        if rest:
            nested.setdefault(head, {})[rest] = value
        else:
            changed[head] = _convert(hints[head], value, f'{where}.{head}')
    for head, inner_changes in nested.items():
        inner = changed.get(head, getattr(settings, head))
        if not dataclasses.is_dataclass(inner):
            raise SettingsError(f'{where}: {head!r} holds no further settings')
        changed[head] = replaced(inner, inner_changes, f'{where}.{head}')
    return dataclasses.replace(settings, **changed)  # type: ignore[type-var]


def check(condition: bool, where: str, problem: str) -> None:
    """Raise a SettingsError naming the place unless the condition holds."""
    if not condition:
        raise SettingsError(f'{where}: {problem}')


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_mapping(hint, value, where)  # type: ignore[arg-type]
    if origin is typing.Literal:
        if value not in arguments:
            raise SettingsError(f'{where}: unknown choice {value!r}; {choices(arguments)}')
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError(f'{where}: expected a list, got {value!r}')
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise SettingsError(f'{where}: expected {len(arguments)} values, got {len(value)}')
        return tuple(_convert(arguments[0], item, f'{where}[{index}]') for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise SettingsError(f'{where}: expected settings (key: value), got {value!r}')
        return {str(key): _convert(arguments[1], item, f'{where}.{key}') for key, item in value.items()}
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            hint = ' (YAML reads 1e-4 as text: write 1.0e-4)' if isinstance(value, str) else ''
            raise SettingsError(f'{where}: expected a finite number, got {value!r}{hint}')
        return float(value)
    if hint is Any:
        return value
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f'{where}: expected {hint.__name__}, got {value!r}')
    return value
