"""Compiles plain Python functions with numba, cached so that a stale cache can never be used.

The pure functions of the world (`project`, `observe`, …) stay plain Python, so that a process which must not
load numba can call them; the stepper compiles copies of them here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import config


@cache
def cache_directory(package: Path) -> Path | None:
    """The first writable place for a package's compiled code, in a folder named after the sources it was made from.

    numba itself only looks at the file that holds the compiled function, not at the files that function calls into.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.rglob('*.py')):
        digest.update(source.read_bytes())
    user = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    for root in (os.environ.get('WCPG_CACHE_DIR'), user, f'{tempfile.gettempdir()}/wcpg_ros-{os.getuid()}'):
        if root:
            folder = Path(root) / 'wcpg_ros' / digest.hexdigest()[:16]
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    return folder
            except OSError:
                continue
    return None


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function, for instance an entry point of the stepper; the machine code is kept for the next start."""
    folder = cache_directory(Path(function.__code__.co_filename).parent)
    if folder is None:
        return numba.njit(error_model='numpy', **options)(function)
    outer = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return numba.njit(error_model='numpy', cache=True, **options)(function)
    finally:
        config.CACHE_DIR = outer  # type: ignore[attr-defined]


def compiled(*functions: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Compiled copies of plain functions; each may call those named before it."""
    copies: dict[str, Callable[..., Any]] = {}
    for function in functions:
        assert isinstance(function, FunctionType)
        copy = FunctionType(function.__code__, {**function.__globals__, **copies}, function.__name__,
                            function.__defaults__)
        copies[function.__name__] = numba.njit(error_model='numpy')(copy)
    return list(copies.values())
