"""ros2 topic: what topics there are, and who publishes and hears them."""

from __future__ import annotations

import argparse

from . import graph
from .cli import add_verbs
from .topic_echo import add_echo_arguments, echo
from .topic_hz import add_hz_arguments, hz
from .topic_pub import add_pub_arguments, pub


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'echo': ('Output messages from a topic', add_echo_arguments, echo),
        'hz': ('Print the average publishing rate to screen', add_hz_arguments, hz),
        'info': ('Print information about a topic', _info_arguments, _info),
        'list': ('Output a list of available topics', _list_arguments, _list),
        'pub': ('Publish a message to a topic', add_pub_arguments, pub),
    })


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('-t', '--show-types', action='store_true', help='Additionally show the topic type')
    parser.add_argument('-c', '--count-topics', action='store_true',
                        help='Only display the number of topics discovered')
    parser.add_argument('--include-hidden-topics', action='store_true', help='Consider hidden topics as well')
    parser.add_argument('-v', '--verbose', action='store_true', help='List full details about each topic')


def _list(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        graph.discover(node, args)
        topics = [(name, ', '.join(types), node.count_publishers(name), node.count_subscribers(name))
                  for name, types in node.get_topic_names_and_types()
                  if args.include_hidden_topics or not graph.is_hidden(name)]
    if args.count_topics:
        print(len(topics))
    elif args.verbose:
        _print_counted('Published', 'publisher', [(name, types, pubs) for name, types, pubs, _ in topics])
        _print_counted('Subscribed', 'subscriber', [(name, types, subs) for name, types, _, subs in topics])
    else:
        for name, types, _, _ in topics:
            print(f'{name} [{types}]' if args.show_types else name)


def _print_counted(title: str, role: str, topics: list[tuple[str, str, int]]) -> None:
    print(f'{title} topics:')
    for name, types, count in topics:
        if count:
            print(f" * {name} [{types}] {count} {role}{'s' if count > 1 else ''}")
    print()


def _info_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('topic_name', help="Name of the ROS topic to get info (e.g. '/chatter')")
    parser.add_argument('-v', '--verbose', action='store_true',
                        help='Prints detailed information like the node name, node namespace, topic type, topic type '
                             'hash, GUID, and QoS Profile of the publishers and subscribers to this topic')


def _info(args: argparse.Namespace) -> str | None:
    end = '\n\n' if args.verbose else '\n'
    with graph.node_of(args) as node:
        graph.discover(node, args)
        types = dict(node.get_topic_names_and_types()).get(args.topic_name)
        if types is None:
            return f"Unknown topic '{args.topic_name}'"
        print(f'Type: {types[0] if len(types) == 1 else types}', end=end)
        print(f'Publisher count: {node.count_publishers(args.topic_name)}', end=end)
        if args.verbose:
            for info in node.get_publishers_info_by_topic(args.topic_name):
                print(info, end=end)
        print(f'Subscription count: {node.count_subscribers(args.topic_name)}', end=end)
        if args.verbose:
            for info in node.get_subscriptions_info_by_topic(args.topic_name):
                print(info, end=end)
    return None
