"""Places on disk for what a command makes."""

from __future__ import annotations

import tempfile
from pathlib import Path


def make_writable(directory: Path) -> None:
    """Make a directory if there is none, and see that it can be written to: before the work for it begins."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise OSError(f'{directory}: cannot be written to ({error.strerror}); choose another place') from None
