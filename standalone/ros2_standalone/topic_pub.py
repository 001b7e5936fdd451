"""ros2 topic pub: publish a message."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import rclpy
import yaml

from . import graph, messages, qos

WAIT_STEP = 0.1   # seconds between two looks for subscriptions


def add_pub_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('topic_name', help="Name of the ROS topic to publish to (e.g. '/chatter')")
    parser.add_argument('message_type', help="Type of the ROS message (e.g. 'std_msgs/String')")
    values = parser.add_mutually_exclusive_group()
    values.add_argument('values', nargs='?', default='{}',
                        help="Values to fill the message with in YAML format (e.g. 'data: Hello World'), "
                             'otherwise the message will be published with default values')
    values.add_argument('--stdin', action='store_true', help='Read values from standard input')
    parser.add_argument('-r', '--rate', metavar='N', type=_positive, default=1.0,
                        help='Publishing rate in Hz (default: 1)')
    parser.add_argument('-p', '--print', metavar='N', type=int, default=1,
                        help='Only print every N-th published message (default: 1)')
    times = parser.add_mutually_exclusive_group()
    times.add_argument('-1', '--once', action='store_true', help='Publish one message and exit')
    times.add_argument('-t', '--times', type=int, default=0, help='Publish this number of times and then exit')
    parser.add_argument('-w', '--wait-matching-subscriptions', type=int,
                        help='Wait until finding the specified number of matching subscriptions. '
                             'Defaults to 1 when using "-1"/"--once"/"--times", otherwise defaults to 0.')
    parser.add_argument('--max-wait-time-secs', type=_positive,
                        help='This sets the maximum wait time in seconds if '
                             '--wait-until-matching-subscriptions is set.')
    parser.add_argument('--keep-alive', metavar='N', type=_positive, default=0.1,
                        help='Keep publishing node alive for N seconds after the last msg (default: 0.1)')
    parser.add_argument('-n', '--node-name', help='Name of the created publishing node')
    parser.add_argument('-s', '--use-sim-time', action='store_true', help='Enable ROS simulation time')
    parser.add_argument('--spin-time', type=float, default=graph.SPIN_TIME, help='Accepted and without effect')
    qos.add_arguments(parser, 'publish', 'default')


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError('Value must be positive')
    return value


def pub(args: argparse.Namespace) -> str | None:
    """Publish once, several times, or until interrupted."""
    message_type = messages.interface_class(args.message_type, 'msg')
    values = yaml.safe_load(sys.stdin.read() if args.stdin else args.values)
    if not isinstance(values, dict):
        return 'The passed value needs to be a dictionary in YAML format'
    times = 1 if args.once else args.times
    wanted = int(times != 0) if args.wait_matching_subscriptions is None else args.wait_matching_subscriptions
    if wanted == 0 and args.max_wait_time_secs is not None:
        return ('--max-wait-time-secs option is only effective with --wait-matching-subscriptions, '
                '--once or --times')
    message = message_type()
    stamps: list[Callable[[Any], None]] = []
    with graph.node_of(args, args.node_name) as node:
        publisher = node.create_publisher(message_type, args.topic_name, qos.asked_for(args))
        problem = _wait_for_subscriptions(publisher, wanted, args.max_wait_time_secs)
        if problem is not None:
            return problem
        try:
            messages.set_fields(message, values, stamps)
        except Exception as wrong:
            return f'Failed to populate field: {wrong}'
        print('publisher: beginning loop')
        count = 0

        def publish() -> None:
            nonlocal count
            now = node.get_clock().now().to_msg()
            for set_stamp in stamps:
                set_stamp(now)
            count += 1
            if args.print and count % args.print == 0:
                print(f'publishing #{count}: {message!r}\n')
            publisher.publish(message)

        publish()
        node.create_timer(1.0 / args.rate, publish)
        while times == 0 or count < times:
            rclpy.spin_once(node)
        time.sleep(args.keep_alive)   # the last message must reach the wire before the node is gone
    return None


def _wait_for_subscriptions(publisher: Any, wanted: int, patience: float | None) -> str | None:
    looks = 0
    while publisher.get_subscription_count() < wanted:
        if looks % 10 == 0:
            print(f'Waiting for at least {wanted} matching subscription(s)...')
        if patience is not None and looks * WAIT_STEP >= patience:
            return (f'Timed out waiting for subscribers: Expected {wanted} subcribers but only got '
                    f'{publisher.get_subscription_count()} subscribers')
        looks += 1
        time.sleep(WAIT_STEP)
    return None
