"""Helpers for arguments that may be text, a substitution, or a list of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml

from .substitution import SomeSubstitutionsType, Substitution, TextSubstitution

if TYPE_CHECKING:
    from .launch_context import LaunchContext

NOT_SUPPORTED = 'not supported here, install a ROS 2 distribution'


def normalize_to_list_of_substitutions(subs: SomeSubstitutionsType) -> list[Substitution]:
    """Turn text, a substitution or a list of both into a list of substitutions."""
    if isinstance(subs, str):
        return [TextSubstitution(text=subs)]
    if isinstance(subs, Substitution):
        return [subs]
    if isinstance(subs, Iterable):
        return [part for sub in subs for part in normalize_to_list_of_substitutions(sub)]
    raise TypeError(f'expected text or a substitution, got {subs!r}')


def perform_substitutions(context: LaunchContext, subs: Iterable[Substitution]) -> str:
    """Perform each substitution and join the results."""
    return ''.join(context.perform_substitution(sub) for sub in subs)


def perform(context: LaunchContext, subs: SomeSubstitutionsType) -> str:
    """Normalize and perform in one go."""
    return perform_substitutions(context, normalize_to_list_of_substitutions(subs))


def coerce_to_type(value: str, data_type: Any = None) -> Any:
    """Read text as `data_type`: bool, int, float, str, a list of one of them, or None for YAML's own rules."""
    if data_type is str:
        return value
    loaded = yaml.safe_load(value) if value else value
    if data_type is None:
        accepted = isinstance(loaded, (bool, int, float, str)) or _is_uniform_list(loaded)
    elif get_origin(data_type) is list:
        (item,) = get_args(data_type)
        accepted = isinstance(loaded, list) and all(type(each) is item for each in loaded)
    elif data_type is float:
        # YAML takes 1e-3 for text, float() does not.
        return float(value)
    else:
        accepted = type(loaded) is data_type
    if not accepted:
        raise ValueError(f"Failed to convert '{value}' to '{getattr(data_type, '__name__', data_type)}'")
    return loaded


def _is_uniform_list(value: Any) -> bool:
    return (isinstance(value, list) and len({type(item) for item in value}) == 1
            and isinstance(value[0], (bool, int, float, str)))


def refuse_unsupported(module: str, name: str) -> None:
    """Answer a module's `__getattr__`: the real module may have this name, this one has not."""
    if name.startswith('__'):
        raise AttributeError(name)
    raise ImportError(f'{module}.{name}: {NOT_SUPPORTED}')


def refuse_keywords(owner: str, keywords: dict[str, Any]) -> None:
    """Refuse keyword arguments that the real class may take and this one does not."""
    if keywords:
        raise TypeError(f"{owner}({', '.join(sorted(keywords))}): {NOT_SUPPORTED}")
