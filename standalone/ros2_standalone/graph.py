"""The command's own node, and what it sees of the others."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.type_support import check_for_type_support

SPIN_TIME = 0.5         # seconds until the others are taken to be discovered
LATE = 3.5              # seconds until a node that announces itself as rarely as Fast DDS does has done so
SERVICE_TIMEOUT = 5.0   # seconds to wait for a service of a node that is there
SIGNAL_TIMEOUT = 5.0    # seconds from a signal's arrival in rclpy to that in Python, at the very most
POLL = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every command that looks at the graph takes; the daemon's options have nothing to do here."""
    parser.add_argument('--spin-time', type=float, default=SPIN_TIME,
                        help='Spin time in seconds to wait for discovery')
    parser.add_argument('-s', '--use-sim-time', action='store_true', help='Enable ROS simulation time')
    parser.add_argument('--no-daemon', action='store_true', help='Accepted and without effect: there is no daemon')


@contextlib.contextmanager
def node_of(args: argparse.Namespace, name: str | None = None, *, lasting: bool = False) -> Iterator[Node]:
    """Yield a node, by default one that others do not list.

    A lasting one has parameters like any other, and leaves Ctrl-C to the caller.
    """
    if not lasting:
        signal.signal(signal.SIGINT, signal.default_int_handler)   # which a job in the background would ignore
        signal.signal(signal.SIGTERM, _end)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO if lasting else None)
    node = rclpy.create_node(
        name or f'_ros2cli_{os.getpid()}', start_parameter_services=lasting,
        parameter_overrides=[Parameter('use_sim_time', value=getattr(args, 'use_sim_time', False)),
                             Parameter('start_type_description_service', value=False)],
        automatically_declare_parameters_from_overrides=True)
    try:
        yield node
        _await_signal()
    except Exception:
        _await_signal()
        raise
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def _await_signal() -> None:
    """Where a signal has ended rclpy, Python hears of it a moment later and raises what belongs to it."""
    if not rclpy.ok():
        wait_until(lambda: False, SIGNAL_TIMEOUT)


def _end(signum: int, frame: Any) -> None:
    raise SystemExit(signum)


def wait_until(condition: Callable[[], Any], seconds: float) -> Any:
    """Look at a condition until it holds or the time is over; return what it was last."""
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(POLL)
    return result


def stop_requests() -> list[int]:
    """Return a list that gets the signals that ask to stop; what is under way is then finished first."""
    received: list[int] = []
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda number, frame: received.append(number))
    return received


def discover(node: Node, args: argparse.Namespace) -> None:
    """Give the others the time to show up: nothing tells when all have, but nobody at all is worth a longer wait."""
    time.sleep(args.spin_time)
    wait_until(lambda: len(node.get_node_names()) > 1, LATE - args.spin_time)


def node_names(node: Node, include_hidden: bool = False) -> list[str]:
    """Return the full names of all nodes, sorted; two nodes of one name are there twice."""
    return sorted(f"{namespace.rstrip('/')}/{name}" for name, namespace in node.get_node_names_and_namespaces()
                  if include_hidden or not name.startswith('_'))


def wait_for_node(node: Node, args: argparse.Namespace, *service_types: Any) -> str:
    """Return the full name of the node that is asked for once it is there; load what its services need meanwhile."""
    for service_type in service_types:
        check_for_type_support(service_type)
    name = absolute(args.node_name)
    patience = max(LATE, args.spin_time + args.timeout)
    if not wait_until(lambda: name in node_names(node, args.include_hidden_nodes), patience):
        raise RuntimeError('Node not found')
    return name


def absolute(name: str) -> str:
    """Return a name with its leading slash."""
    return name if name.startswith('/') else f'/{name}'


def split_name(full_name: str) -> tuple[str, str]:
    """Return a node's name and its namespace."""
    namespace, _, name = full_name.rpartition('/')
    return name, namespace or '/'


def is_hidden(name: str) -> bool:
    """Whether a topic or service is meant to be left out of lists."""
    return any(part.startswith('_') for part in name.split('/'))


def call(node: Node, service_type: Any, name: str, request: Any) -> Any:
    """Call a service of a node that is there and return its answer."""
    client = node.create_client(service_type, name)
    if not wait_until(client.service_is_ready, SERVICE_TIMEOUT):
        owner = name.rpartition('/')[0]
        raise RuntimeError(f'Wait for service timed out waiting for parameter services for node {owner}')
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future)
    if future.result() is None:
        raise RuntimeError(f'Exception while calling service of node {name}: {future.exception()}')
    return future.result()
