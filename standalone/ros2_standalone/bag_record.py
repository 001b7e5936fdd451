"""ros2 bag record: write topics to a bag."""

from __future__ import annotations

import argparse
import datetime
import os
import re
import time
from collections.abc import Callable
from typing import Any

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.topic_endpoint_info import TopicEndpointInfo

from wcpg_ros.bag_writer import FLUSH_SECONDS, SUFFIXES, BagWriter, Topic, message_definition

from . import graph, messages, packages, qos

DEPTH = 100_000      # messages of a topic that may wait: what is simulated as fast as it goes outruns a busy machine
SPIN_SECONDS = 0.05


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('-o', '--output', help='Destination of the bagfile to create, '
                                               'defaults to a timestamped folder in the current directory.')
    parser.add_argument('-s', '--storage', default='mcap', choices=sorted(SUFFIXES),
                        help="Storage identifier to be used, defaults to '%(default)s'.")
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument('topics_positional', default=[], metavar='[Topic ...]', nargs='*',
                        help='Space-delimited list of topics to record. (deprecated)')
    topics.add_argument('--topics', default=[], metavar='Topic', nargs='+',
                        help='Space-delimited list of topics to record.')
    parser.add_argument('-a', '--all', action='store_true', help='Record all topics (Exclude hidden topic).')
    parser.add_argument('--all-topics', action='store_true', help='Record all topics (Exclude hidden topic).')
    parser.add_argument('-e', '--regex', default='',
                        help='Record only topics containing provided regular expression.')
    parser.add_argument('--exclude-regex', default='',
                        help='Exclude topics containing provided regular expression.')
    parser.add_argument('--exclude-topics', default=[], metavar='Topic', nargs='+',
                        help='Space-delimited list of topics not being recorded.')
    parser.add_argument('--include-hidden-topics', action='store_true',
                        help='Discover and record hidden topics as well.')
    parser.add_argument('-p', '--polling-interval', type=int, default=100,
                        help='Time in ms to wait between querying available topics for recording.')
    parser.add_argument('--use-sim-time', action='store_true',
                        help='Use simulation time for message timestamps by subscribing to the /clock topic. '
                             'Until first /clock message is received, no messages will be written to bag.')
    parser.add_argument('--node-name', default='rosbag2_recorder',
                        help='Specify the recorder node name. Default is %(default)s.')
    parser.add_argument('--disable-keyboard-controls', action='store_true',
                        help='Accepted and without effect: there are none')


def record(args: argparse.Namespace) -> str | None:
    """Record until interrupted."""
    args.topics = [graph.absolute(name) for name in args.topics or args.topics_positional]
    args.all = args.all or args.all_topics
    if not (args.all or args.topics or args.regex):
        return '[ERROR] [ros2bag]: Need to specify at least one option out of --all, --all-topics, --topics or --regex'
    path = args.output or f'{datetime.datetime.now():rosbag2_%Y_%m_%d-%H_%M_%S}'
    if os.path.isdir(path):
        return f"[ERROR] [ros2bag]: Output folder '{path}' already exists."
    stop = graph.stop_requests()
    with graph.node_of(args, args.node_name, lasting=True) as node, BagWriter(path, args.storage) as writer:
        recorder = Recorder(node, writer, args)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        node.get_logger().info('Listening for topics...')
        node.get_logger().info('Recording...')
        looked = flushed = 0.0
        while not stop:
            now = time.monotonic()
            if now - looked >= args.polling_interval / 1000:
                looked = now
                recorder.subscribe()
            if now - flushed >= FLUSH_SECONDS:
                flushed = now
                writer.flush()
            executor.spin_once(timeout_sec=SPIN_SECONDS)
        recorder.take_waiting()   # what has arrived by now belongs to the bag
        node.get_logger().info('Recording stopped')
    return None


class Recorder:
    """Subscribes to the topics that are asked for as they appear."""

    def __init__(self, node: Node, writer: BagWriter, args: argparse.Namespace) -> None:
        self._node = node
        self._writer = writer
        self._args = args
        self._refused: set[str] = set()
        self._take: list[Callable[[], None]] = []   # what waits on a topic

    def subscribe(self) -> None:
        """Look for new topics."""
        for name, types in self._node.get_topic_names_and_types():
            if name in self._writer.topics or name in self._refused or not self._wants(name):
                continue
            publishers = self._node.get_publishers_info_by_topic(name)
            if publishers:
                self._subscribe(name, types, publishers)

    def take_waiting(self) -> None:
        """Write all that has arrived."""
        for take in self._take:
            take()

    def _wants(self, name: str) -> bool:
        args = self._args
        if name in args.exclude_topics or (args.exclude_regex and re.search(args.exclude_regex, name)):
            return False
        if name in args.topics:
            return True
        if graph.is_hidden(name) and not args.include_hidden_topics:
            return False
        return args.all or bool(args.regex and re.search(args.regex, name))

    def _subscribe(self, name: str, types: list[str], publishers: list[TopicEndpointInfo]) -> None:
        try:
            if len(types) > 1:
                raise RuntimeError(f"it has more than one type: {', '.join(types)}")
            message_class = messages.interface_class(types[0], 'msg')
        except RuntimeError as problem:
            self._refused.add(name)
            self._node.get_logger().warning(f"Topic '{name}' is not recorded: {problem}")
            return
        self._writer.add_topic(Topic(name, types[0], _definition(types[0]), str(publishers[0].topic_type_hash),
                                     [_qos_as_recorded(publisher.qos_profile) for publisher in publishers]))

        def write(data: bytes, info: dict[str, int]) -> None:
            received = info['received_timestamp']
            if self._args.use_sim_time:
                received = self._node.get_clock().now().nanoseconds
                if received == 0:   # no /clock yet
                    return
            self._writer.write(name, data, received, info['source_timestamp'])

        def write_all_waiting(data: bytes, info: dict[str, int]) -> None:
            write(data, info)
            take_waiting()   # at once: the executor looks at every topic between two messages

        def take_waiting() -> None:
            with subscription.handle:
                while (waiting := subscription.handle.take_message(message_class, True)) is not None:
                    write(*waiting)

        callback: Any = write_all_waiting   # rclpy looks at its signature and gives the second argument too
        subscription = self._node.create_subscription(
            message_class, name, callback, qos.matching(publishers, QoSProfile(depth=DEPTH)), raw=True)
        self._take.append(take_waiting)
        self._node.get_logger().info(f"Subscribed to topic '{name}'")


def _definition(type_name: str) -> str:
    """Return the definition of a message, or nothing where the package brings no .msg files."""
    def read(package: str, message: str) -> str:
        return (packages.find(package).share / 'msg' / f'{message}.msg').read_text()
    try:
        return message_definition(type_name, read)
    except (OSError, packages.PackageNotFoundError):
        return ''


def _qos_as_recorded(profile: QoSProfile) -> dict[str, Any]:
    def split(duration: Any) -> dict[str, int]:
        seconds, nanoseconds = divmod(duration.nanoseconds, 10**9)
        return {'sec': seconds, 'nsec': nanoseconds}
    return {'history': profile.history.name.lower(), 'depth': profile.depth,
            'reliability': profile.reliability.name.lower(), 'durability': profile.durability.name.lower(),
            'deadline': split(profile.deadline), 'lifespan': split(profile.lifespan),
            'liveliness': profile.liveliness.name.lower(),
            'liveliness_lease_duration': split(profile.liveliness_lease_duration),
            'avoid_ros_namespace_conventions': profile.avoid_ros_namespace_conventions}
