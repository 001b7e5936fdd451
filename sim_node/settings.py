"""Settings as frozen dataclasses, filled from YAML; anything unknown, of the wrong kind or out of bounds is an error
that names it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import yaml

T = TypeVar('T')

REQUIRED = dataclasses.MISSING     # the default of a setting that has none

_WHOLE = (int, np.integer)
# Kept: to find them out takes longer than all else here.
_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


class SettingsError(ValueError):
    """A setting that is unknown, missing, of the wrong type or out of range."""


def choices(names: typing.Iterable[object]) -> str:
    """A list for the end of an error message."""
    return 'choose one of ' + ', '.join(str(name) for name in names)


def check(condition: bool, where: str, problem: str) -> None:
    """Raise a SettingsError naming the place unless the condition holds."""
    if not condition:
        raise SettingsError(f'{where}: {problem}')


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """A whole number between bounds, or a SettingsError that names it."""
    if isinstance(value, bool) or not isinstance(value, _WHOLE) or not low <= value <= high:
        raise SettingsError(f'{name}: expected a whole number from {low} to {high}, got {value!r}')
    return int(value)


def bounded(default: Any, interval: str, *, rising: bool = False) -> Any:
    """A setting's default and the interval its numbers lie in, as in `(0, 1]`; `rising` if they are [low, high]."""
    return dataclasses.field(default=default, metadata={'interval': interval, 'rising': rising})


class Group:
    """A group of settings, whose numbers are checked against their bounds however it is made."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):   # type: ignore[arg-type]
            numbers = _flat(getattr(self, item.name))
            interval = item.metadata.get('interval')
            for number in numbers:
                check(interval is None or _within(number, interval), item.name,
                      f'expected within {interval}, got {number}')
            check(not item.metadata.get('rising') or sorted(numbers) == numbers, item.name,
                  f'expected [low, high], got {numbers}')


def _flat(value: Any) -> list[Any]:
    return [number for item in value for number in _flat(item)] if isinstance(value, tuple) else [value]


def _within(number: float, interval: str) -> bool:
    low, high = (float(end) for end in interval[1:-1].split(','))
    return (low <= number if interval[0] == '[' else low < number) and (
        number <= high if interval[-1] == ']' else number < high)


def read_yaml(text: str, where: str) -> Any:
    """What a text in YAML says."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:     # the last two: dates and depths that cannot be
        raise SettingsError(f'{where}: cannot be read as YAML: {" ".join(str(error).split())}') from None


def from_mapping(kind: type[T], values: object, where: str) -> T:
    """An instance of a settings dataclass from what YAML gave; `where` names the place in errors."""
    if not isinstance(values, Mapping):
        raise SettingsError(f'{where}: expected settings (key: value), got {values!r}')
    hints = _hints(kind)
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
    return _made(kind, filled, where)


def replaced(settings: T, changes: Mapping[str, Any], where: str) -> T:
    """Settings with some changed, all at once; nested ones are given by dotted names (`traffic.spawn_rate`)."""
    hints = _hints(type(settings))
    changed: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        check(isinstance(name, str), where, f'expected the name of a setting, got {name!r}')
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
    return _made(functools.partial(dataclasses.replace, settings), changed, where)  # type: ignore[type-var]


def _made(kind: Callable[..., T], values: dict[str, Any], where: str) -> T:
    """A group knows what is wrong with its settings, but not its own place."""
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f'{where}.{error}') from None


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
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
        for key in value:
            check(isinstance(key, str), where, f'expected a name, got {key!r}; put it in quotes')
        return {key: _convert(arguments[1], item, f'{where}.{key}') for key, item in value.items()}
    if hint is float:
        # The comparison is false for NaN, and holds for whole numbers too large for math.isfinite.
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            advice = ' (YAML reads 1e-4 as text: write 1.0e-4)' if isinstance(value, str) else ''
            raise SettingsError(f'{where}: expected a finite number, got {value!r}{advice}')
        return float(value)
    if hint is Any:
        return value
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f'{where}: expected {hint.__name__}, got {value!r}')
    return value
