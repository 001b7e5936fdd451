"""Compiles plain Python functions with numba, cached so that a stale cache can never be used.

The pure functions of the world (`project`, `observe`, …) stay plain Python, so that a process which must not
load numba can call them; the stepper compiles copies of them here.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import event

# Kernels allocate nothing. Told so, numba leaves out the reference counts around every call: a step is a sixth quicker.
# They touch no Python object, so another thread may run meanwhile.
_OPTIONS: dict[str, Any] = {'error_model': 'numpy', '_nrt': False, 'nogil': True}


@cache
def cache_directory(package: Path = Path(__file__).parent) -> Path | None:
    """The first writable place for a package's compiled code, in a folder named after the sources it was made from.

    numba itself only looks at the file that holds the compiled function, not at the files that function calls into.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.rglob('*.py')):
        digest.update(source.read_bytes())
    for place in _places():
        folder = place / 'wcpg_ros' / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def _places() -> Iterator[Path]:
    """Where compiled code may be kept, best first."""
    if chosen := os.environ.get('WCPG_CACHE_DIR'):
        yield Path(chosen)
    user = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    if os.path.isabs(user):    # it is not where there is no home
        yield Path(user)
    try:
        temporary = Path(tempfile.gettempdir(), f'wcpg_ros-{os.getuid()}')
        temporary.mkdir(mode=0o700, exist_ok=True)
        if temporary.lstat().st_uid == os.getuid():    # else somebody else could leave code there for us to run
            yield temporary
    except OSError:
        return


class _Notice(event.Listener):
    """Says, once in a process, why a kernel's first call takes so long; a kernel that is only loaded needs no words."""

    def __init__(self) -> None:
        self.kernels: dict[Callable[..., Any], Path | None] = {}     # and where their code is kept
        self._told = False

    def on_start(self, event: event.Event) -> None:
        function = event.data['dispatcher'].py_func
        if self._told or function not in self.kernels:
            return
        self._told = True
        scope = 'once' if self.kernels[function] else 'for this process alone (WCPG_CACHE_DIR: a folder to keep it in)'
        print(f'wcpg_ros: compiling {scope}, about half a minute …', file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        """Nothing more to say."""


_notice = _Notice()
event.register('numba:compile', _notice)


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function, for instance an entry point of the stepper; the machine code is kept for the next start."""
    options = {**_OPTIONS, **options}
    folder = cache_directory(Path(function.__code__.co_filename).parent)
    _notice.kernels[function] = folder
    if folder is None:
        return numba.njit(**options)(function)
    config: Any = numba.config
    outer, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        return numba.njit(**options, cache=True)(function)
    finally:
        config.CACHE_DIR = outer


def compiled(*functions: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Compiled copies of plain functions; each may call those named before it."""
    copies: dict[str, Callable[..., Any]] = {}
    for function in functions:
        assert isinstance(function, FunctionType)
        copy = FunctionType(function.__code__, {**function.__globals__, **copies}, function.__name__,
                            function.__defaults__)
        copies[function.__name__] = numba.njit(**_OPTIONS)(copy)
    return list(copies.values())
