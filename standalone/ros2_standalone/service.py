"""ros2 service: what services there are, and calling one."""

from __future__ import annotations

import argparse
import sys
import time

import rclpy
import yaml

from . import graph, messages
from .cli import add_verbs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'call': ('Call a service', _call_arguments, _call),
        'list': ('Output a list of available services', _list_arguments, _list),
    })


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('-t', '--show-types', action='store_true', help='Additionally show the service type')
    parser.add_argument('-c', '--count-services', action='store_true',
                        help='Only display the number of services discovered')
    parser.add_argument('--include-hidden-services', action='store_true', help='Consider hidden services as well')


def _list(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        graph.discover(node, args)
        found = [(name, types) for name, types in node.get_service_names_and_types()
                 if args.include_hidden_services or not graph.is_hidden(name)]
    if args.count_services:
        print(len(found))
        return
    for name, types in found:
        print(f"{name} [{', '.join(types)}]" if args.show_types else name)


def _call_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('service_name', help="Name of the ROS service to call to (e.g. '/add_two_ints')")
    parser.add_argument('service_type', help="Type of the ROS service (e.g. 'std_srvs/srv/Empty')")
    values = parser.add_mutually_exclusive_group()
    values.add_argument('values', nargs='?', default='{}',
                        help="Values to fill the service request with in YAML format (e.g. '{a: 1, b: 2}'), "
                             'otherwise the service request will be published with default values')
    values.add_argument('--stdin', action='store_true', help='Read values from standard input')
    parser.add_argument('-r', '--rate', metavar='N', type=float, help='Repeat the call at a specific rate in Hz')


def _call(args: argparse.Namespace) -> str | None:
    if args.rate is not None and args.rate <= 0:
        return 'rate must be greater than zero'
    service = messages.interface_class(args.service_type, 'srv')
    request = service.Request()
    try:
        messages.set_fields(request, yaml.safe_load(sys.stdin.read() if args.stdin else args.values))
    except Exception as problem:
        return f'Failed to populate field: {problem}'
    package, _, name = args.service_type.partition('/')
    with graph.node_of(args, f"_ros2cli_requester_{package}_{name.rpartition('/')[2]}") as node:
        client = node.create_client(service, args.service_name)
        if not client.service_is_ready():
            print('waiting for service to become available...')
            while not graph.wait_until(client.service_is_ready, 1.0):
                pass
        while True:
            print(f'requester: making request: {request!r}\n')
            called = time.monotonic()
            future = client.call_async(request)
            rclpy.spin_until_future_complete(node, future)
            if future.result() is None:
                return f'Exception while calling service: {future.exception()!r}'
            print(f'response:\n{future.result()!r}\n')
            if args.rate is None:
                return None
            time.sleep(max(0.0, called + 1.0 / args.rate - time.monotonic()))
