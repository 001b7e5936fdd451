"""Messages as text and back, in the form the real tools use."""

from __future__ import annotations

import array
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy
import yaml
from rosidl_parser import definition


def interface_class(name: str, kind: str) -> Any:
    """Return the class of 'package/msg/Name' or 'package/Name'; `kind` is 'msg' or 'srv'."""
    parts = name.split('/')
    if len(parts) == 2:
        parts.insert(1, kind)
    if len(parts) != 3 or parts[1] != kind:
        raise RuntimeError(f"The passed {'message' if kind == 'msg' else 'service'} type is invalid")
    try:
        return getattr(importlib.import_module(f'{parts[0]}.{kind}'), parts[2])
    except (AttributeError, ModuleNotFoundError, ValueError):
        raise RuntimeError(f"The passed {'message' if kind == 'msg' else 'service'} type is invalid") from None


def to_yaml(message: Any, *, truncate: int | None = None, no_arr: bool = False, no_str: bool = False,
            flow_style: bool = False) -> str:
    """Return a message as YAML, fields in their own order."""
    return yaml.dump(_plain(message, None, truncate, no_arr, no_str), allow_unicode=True, width=sys.maxsize,
                     default_flow_style=flow_style, sort_keys=False, Dumper=_Dumper)


class _Dumper(yaml.SafeDumper):
    """Writes every list in full, also one that stands in two places; fields stand in lines in either style."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(dict, lambda dumper, data: dumper.represent_mapping(
    'tag:yaml.org,2002:map', data.items(), flow_style=False))


def _plain(value: Any, kind: Any, truncate: int | None, no_arr: bool, no_str: bool) -> Any:
    """Return a value as what YAML knows; `kind` is the field's type if the value is one."""
    if isinstance(value, bytes):
        value = ''.join(map(chr, value))
        return value if truncate is None or len(value) <= truncate else f'{value[:truncate]}...'
    if isinstance(value, str):
        if no_str:
            return f'<string length: <{len(value)}>>'
        return value if truncate is None or len(value) <= truncate else f'{value[:truncate]}...'
    if isinstance(value, (list, tuple, array.array, numpy.ndarray)):
        if no_arr and kind is not None:
            return _abbreviated(value, kind)
        shown = value if truncate is None else value[:truncate]
        items = [_plain(item, None, truncate, no_arr, no_str) for item in shown]
        return [*items, '...'] if len(shown) < len(value) else items
    if isinstance(value, numpy.number):
        return value.item()
    if isinstance(value, (bool, int, float)):
        return value
    return {name: _plain(getattr(value, name), kind, truncate, no_arr, no_str)
            for name, kind in zip(value.get_fields_and_field_types(), value.SLOT_TYPES, strict=True)}


def _abbreviated(value: Any, kind: Any) -> str:
    item = kind.value_type
    if isinstance(item, definition.BasicType):
        name = item.typename
    elif isinstance(item, definition.NamespacedType):
        name = '/'.join(item.namespaced_name())
    else:
        name = 'wstring' if isinstance(item, definition.AbstractWString) else 'string'
    if isinstance(kind, definition.Array):
        return f'<array type: {name}[{kind.size}]>'
    if isinstance(kind, definition.BoundedSequence):
        return f'<sequence type: {name}[{kind.maximum_size}], length: {len(value)}>'
    return f'<sequence type: {name}, length: {len(value)}>'


def set_fields(message: Any, values: Any, stamps: list[Callable[[Any], None]] | None = None) -> None:
    """Fill a message from YAML values.

    With `stamps`, a header given as 'auto' and a time given as 'now' leave a function there that sets them.
    """
    if not isinstance(values, dict):
        raise TypeError(f"Value '{values}' is expected to be a dictionary but is a {type(values).__name__}")
    kinds = dict(zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True))
    for name, value in values.items():
        field = getattr(message, name)
        where = f'{type(field).__module__}.{type(field).__name__}'
        if stamps is not None and where == 'std_msgs.msg._header.Header' and value == 'auto':
            stamps.append(functools.partial(setattr, field, 'stamp'))
        elif stamps is not None and where == 'builtin_interfaces.msg._time.Time' and value == 'now':
            stamps.append(functools.partial(setattr, message, name))
        else:
            setattr(message, name, _converted(field, value, kinds[name], stamps))


def _converted(field: Any, value: Any, kind: Any, stamps: list[Callable[[Any], None]] | None) -> Any:
    if isinstance(kind, definition.NamespacedType):
        sub_message = type(field)()
        set_fields(sub_message, value, stamps)
        return sub_message
    if isinstance(kind, definition.AbstractNestedType) and isinstance(kind.value_type, definition.NamespacedType):
        module = importlib.import_module('.'.join(kind.value_type.namespaces))
        items = []
        for item in value:
            items.append(getattr(module, kind.value_type.name)())
            set_fields(items[-1], item, stamps)
        return items
    if isinstance(field, array.array):
        return array.array(field.typecode, value)
    if isinstance(field, numpy.ndarray):
        return numpy.array(value, dtype=field.dtype)
    return value if isinstance(value, type(field)) else type(field)(value)
