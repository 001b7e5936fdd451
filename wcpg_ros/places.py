"""Places on disk for what a command makes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_writable(directory: Path) -> None:
    """Make a directory if there is none, and see that it can be written to: before the work for it begins."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise OSError(f'{directory}: cannot be written to ({error.strerror}); choose another place') from None


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Only one process at a time makes something there."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OSError(f'{directory}: another command is at work in there; wait for it, or stop it') from None
        yield
    finally:
        os.close(opened)
