"""Runs a node to its end: until it is done, or told to stop, and quietly either way."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Protocol

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

try:
    from rclpy.experimental import EventsExecutor  # half the round trip of the other
except ImportError:  # the first releases of Jazzy have none
    EventsExecutor = SingleThreadedExecutor


class Runnable(Protocol):
    """A node that knows when it is done and what to leave behind."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""

    def begin(self) -> None:
        """Send the first messages."""

    def stop(self) -> None:
        """Send the last messages."""

    def destroy_node(self) -> None:
        """Free what the node holds."""


def run(name: str, create: Callable[[], Runnable], args: list[str] | None) -> int:
    """Spin a node until it is finished or gets SIGINT or SIGTERM; gives the exit code."""
    told: list[int] = []
    if extra := remove_ros_args(sys.argv if args is None else args)[args is None:]:
        print(f'{name}: {" ".join(extra)}: parameters are given as --ros-args -p NAME:=VALUE, and listed in '
              'docs/interface.md', file=sys.stderr)
        return 2
    # A process that is killed may own a lock in Fast DDS's shared memory, for which the others then wait, 1 s at each
    # attempt, before they send anything, be it to brake.
    os.environ.setdefault('FASTDDS_BUILTIN_TRANSPORTS', 'UDPv4')
    # rclpy's own handlers would end the context at once, before a node could send its last command.
    try:
        try:
            rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
            node = create()
        except (ValueError, OSError, RuntimeError) as error:     # rclpy's own are the last kind
            print(f'{name}: {error}', file=sys.stderr)
            return 2
        for signum in (signal.SIGINT, signal.SIGTERM):     # who has said hello says goodbye
            signal.signal(signum, lambda number, _: told.append(number))
        node.begin()
        executor = EventsExecutor()
        executor.add_node(node)  # type: ignore[arg-type]
        while not told and not node.finished:
            executor.spin_once(timeout_sec=0.2)
        node.stop()
        for signum in (signal.SIGINT, signal.SIGTERM):     # it ends already
            signal.signal(signum, signal.SIG_IGN)
        executor.shutdown()
        node.destroy_node()
    finally:
        rclpy.try_shutdown()
    return 0
