"""Starts a node's program. Kept light: a node takes seconds to load, and may be told to stop before it has."""

from __future__ import annotations

import importlib
import os
import signal


def start(module: str) -> int:
    """Load a node and run its `main`; gives the exit code. Told to stop meanwhile, end at once and quietly."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: os._exit(0))
    return importlib.import_module(module).main()
