"""Ctrl-C, politely: what is under way is ended in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130     # the exit code of a shell's Ctrl-C


@contextmanager
def interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) asks to stop at the next decision; a second one stops at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handler(number: int, frame: FrameType | None) -> None:
        for each, previous in before.items():
            signal.signal(each, previous)
        stop()
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
