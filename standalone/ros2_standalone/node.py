"""ros2 node: what nodes there are and what they speak."""

from __future__ import annotations

import argparse
import sys

from rclpy.action import graph as action_graph

from . import graph
from .cli import add_verbs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'info': ('Output information about a node', _info_arguments, _info),
        'list': ('Output a list of available nodes', _list_arguments, _list),
    })


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('-a', '--all', action='store_true', help='Display all nodes even hidden ones')
    parser.add_argument('-c', '--count-nodes', action='store_true',
                        help='Only display the number of nodes discovered')


def _list(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        graph.discover(node, args)
        names = graph.node_names(node, include_hidden=args.all)
    if args.count_nodes:
        print(len(names))
        return
    if len(set(names)) < len(names):
        print('WARNING: Be aware that there are nodes in the graph that share an exact name, '
              'which can have unintended side effects.', file=sys.stderr)
    if names:
        print(*names, sep='\n')


def _info_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('node_name', help='Node name to request information')
    parser.add_argument('--include-hidden', action='store_true',
                        help='Display hidden topics, services, and actions as well')


def _info(args: argparse.Namespace) -> str | None:
    with graph.node_of(args) as node:
        graph.discover(node, args)
        count = graph.node_names(node, args.include_hidden).count(args.node_name)
        if count == 0:
            return f"Unable to find node '{args.node_name}'"
        if count > 1:
            print(f'There are {count} nodes in the graph with the exact name "{args.node_name}". '
                  'You are seeing information about only one of them.', file=sys.stderr)
        name, namespace = graph.split_name(args.node_name)
        print(args.node_name)
        for title, found in (
                ('Subscribers', node.get_subscriber_names_and_types_by_node(name, namespace)),
                ('Publishers', node.get_publisher_names_and_types_by_node(name, namespace)),
                ('Service Servers', node.get_service_names_and_types_by_node(name, namespace)),
                ('Service Clients', node.get_client_names_and_types_by_node(name, namespace)),
                ('Action Servers', action_graph.get_action_server_names_and_types_by_node(node, name, namespace)),
                ('Action Clients', action_graph.get_action_client_names_and_types_by_node(node, name, namespace))):
            print(f'  {title}:')
            print(*(f"    {topic}: {', '.join(types)}" for topic, types in found
                    if args.include_hidden or not graph.is_hidden(topic)), sep='\n')
    return None
