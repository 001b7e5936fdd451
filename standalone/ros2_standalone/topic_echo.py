"""ros2 topic echo: print the messages of a topic."""

from __future__ import annotations

import argparse
import functools
from typing import Any

import rclpy
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSPresetProfiles, QoSProfile
from rclpy.task import Future

from . import graph, messages, qos

TRUNCATE_LENGTH = 128


def add_echo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    graph.add_arguments(parser)
    parser.add_argument('topic_name', help="Name of the ROS topic to listen to (e.g. '/chatter')")
    parser.add_argument('message_type', nargs='?', help="Type of the ROS message (e.g. 'std_msgs/msg/String')")
    qos.add_arguments(parser, 'subscribe', 'sensor_data')
    parser.add_argument('--field', help="Echo a selected field of a message. Use '.' to select sub-fields.")
    parser.add_argument('-f', '--full-length', action='store_true',
                        help='Output all elements for arrays, bytes, and string with a '
                             "length > '--truncate-length'")
    parser.add_argument('-l', '--truncate-length', type=int, default=TRUNCATE_LENGTH,
                        help='The length to truncate arrays, bytes, and string to (default: %(default)d)')
    parser.add_argument('--no-arr', action='store_true', help="Don't print array fields of messages")
    parser.add_argument('--no-str', action='store_true', help="Don't print string fields of messages")
    parser.add_argument('--flow-style', action='store_true', help='Print collections in the block style')
    parser.add_argument('--no-lost-messages', action='store_true', help="Don't report when a message is lost")
    parser.add_argument('--once', action='store_true', help='Print the first message received and then exit.')
    parser.add_argument('--timeout', metavar='N', type=float, help='Set a timeout in seconds for waiting')


def echo(args: argparse.Namespace) -> str | None:
    """Print messages until interrupted, or one."""
    fields = [name for name in (args.field or '').split('.') if name]
    if args.field is not None and not fields:
        return f"Invalid field value '{args.field}'"
    to_yaml = functools.partial(messages.to_yaml, truncate=None if args.full_length else args.truncate_length,
                                no_arr=args.no_arr, no_str=args.no_str, flow_style=args.flow_style)
    done = Future()

    def show(message: Any) -> None:
        try:
            chosen = functools.reduce(getattr, fields, message)
        except AttributeError as problem:
            raise RuntimeError(f"Invalid field '{'.'.join(fields)}': {problem}") from problem
        if args.once and done.done():
            return
        print(to_yaml(chosen) if hasattr(chosen, 'SLOT_TYPES') else f'{chosen}\n', end='---\n')
        if args.once:
            done.set_result(True)

    with graph.node_of(args) as node:
        message_type = message_class(node, args)
        callbacks = None if args.no_lost_messages else SubscriptionEventCallbacks(message_lost=_report_lost)
        node.create_subscription(message_type, args.topic_name, show, _profile(node, args), event_callbacks=callbacks)
        rclpy.spin_until_future_complete(node, done, timeout_sec=args.timeout)
    return None


def message_class(node: Node, args: argparse.Namespace) -> Any:
    """Return the type that is given or, once the topic is there, its own."""
    topic = graph.absolute(args.topic_name)

    def types() -> list[str] | None:
        return dict(node.get_topic_names_and_types()).get(topic)

    found = graph.wait_until(types, graph.LATE if args.message_type is None else args.spin_time)
    if args.message_type is not None:
        return messages.interface_class(args.message_type, 'msg')
    if found is None:
        print(f'WARNING: topic [{args.topic_name}] does not appear to be published yet')
        raise RuntimeError('Could not determine the type for the passed topic')
    if len(found) > 1:
        raise RuntimeError(f"Cannot echo topic '{args.topic_name}', as it contains more than one type: "
                           f"[{', '.join(found)}]")
    return messages.interface_class(found[0], 'msg')


def _profile(node: Node, args: argparse.Namespace) -> QoSProfile:
    if qos.overridden(args):
        return qos.asked_for(args)
    publishers = graph.wait_until(
        lambda: node.get_publishers_info_by_topic(args.topic_name), args.spin_time)
    return qos.matching(publishers, QoSPresetProfiles.get_from_short_key(args.qos_profile))


def _report_lost(status: Any) -> None:
    print(f'A message was lost!!!\n\ttotal count change:{status.total_count_change}'
          f'\n\ttotal count: {status.total_count}', end='---\n')
