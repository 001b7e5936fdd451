"""ros2 bag play: publish what was recorded."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Connection, Qos, QosDurability, QosReliability
from rosbags.rosbag2 import Reader, ReaderError

from . import graph, messages
from .bag_info import existing_bag

DEPTH = 1000
ACKNOWLEDGE_SECONDS = 1.0   # for the last messages to reach reliable subscribers
NAP_SECONDS = 0.1           # at most, between two looks for Ctrl-C


def add_play_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('bag_path', type=existing_bag, help='Bag to open')
    parser.add_argument('-r', '--rate', type=_positive, default=1.0,
                        help='rate at which to play back messages. Valid range > 0.0.')
    parser.add_argument('--topics', default=[], metavar='topic', nargs='+',
                        help='Space-delimited list of topics to play.')
    parser.add_argument('-e', '--regex', default='', help='Play only topics matches with regular expression.')
    parser.add_argument('--exclude-topics', default=[], metavar='topic', nargs='+',
                        help='Space-delimited list of topics not to play.')
    parser.add_argument('-l', '--loop', action='store_true',
                        help='enables loop playback when playing a bagfile: it starts back at the beginning on '
                             'reaching the end and plays indefinitely.')
    parser.add_argument('-m', '--remap', default=[], nargs='+',
                        help='list of topics to be remapped: in the form '
                             '"old_topic1:=new_topic1 old_topic2:=new_topic2 etc."')
    parser.add_argument('--clock', type=_positive, nargs='?', const=40.0, default=0.0,
                        help='Publish to /clock at a specific frequency in Hz, to act as a ROS Time Source.')
    parser.add_argument('-d', '--delay', type=_positive, default=0.0,
                        help='Sleep duration before play (each loop), in seconds.')
    parser.add_argument('--start-offset', type=float, default=0.0,
                        help='Start the playback player this many seconds into the bag file.')
    parser.add_argument('--disable-keyboard-controls', action='store_true',
                        help='Accepted and without effect: there are none')


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f'{text} is not in the valid range (> 0.0)')
    return value


def play(args: argparse.Namespace) -> str | None:
    """Play a bag once or, in a loop, until interrupted."""
    stop = graph.stop_requests()
    try:
        with Reader(args.bag_path) as reader, graph.node_of(args, 'rosbag2_player', lasting=True) as node:
            node.get_logger().info(f'Set rate to {args.rate:g}')
            publishers = _publishers(node, [each for each in reader.connections if _wants(args, each.topic)], args)
            time.sleep(graph.SPIN_TIME)   # subscribers that are there should hear the first message
            begin = reader.start_time + int(args.start_offset * 1e9)
            player = _Player(args.rate, _clock_publisher(node, args.clock), args.clock, stop)
            chosen = [each for each in reader.connections if each.id in publishers]
            again = bool(chosen)   # to rosbags an empty choice means everything
            while again and not stop:
                graph.wait_until(lambda: stop, args.delay)
                for connection, data in player.pace(
                        (stamp, (connection, data)) for connection, stamp, data in reader.messages(chosen, begin)):
                    publishers[connection.id].publish(data)
                again = args.loop
            for publisher in publishers.values():
                publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_SECONDS))
    except (OSError, ReaderError) as problem:
        return (f"[ERROR] [ros2bag]: {problem} If the recorder of this bag was killed, run 'ros2 bag reindex "
                f"{args.bag_path}'")
    return None


class _Player:
    """Waits until each message is due; meanwhile publishes /clock, if asked to."""

    def __init__(self, rate: float, tick: Callable[[int], None] | None, frequency: float, stop: list[int]) -> None:
        self._rate = rate
        self._tick = tick
        self._tick_seconds = 1.0 / frequency if frequency else NAP_SECONDS
        self._stop = stop

    def pace(self, stamped: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        """Yield each message when it is due."""
        started, first = time.monotonic(), None
        next_tick = started
        for stamp, message in stamped:
            first = stamp if first is None else first
            due = started + (stamp - first) * 1e-9 / self._rate
            while not self._stop:
                now = time.monotonic()
                if self._tick is not None and now >= next_tick:
                    self._tick(first + int((now - started) * self._rate * 1e9))
                    next_tick += self._tick_seconds
                if now >= due:
                    break
                time.sleep(max(0.0, min(due, next_tick if self._tick else due, now + NAP_SECONDS) - now))
            if self._stop:
                return
            yield message


def _wants(args: argparse.Namespace, topic: str) -> bool:
    if topic in args.exclude_topics or (args.clock and topic == '/clock'):
        return False
    if not args.topics and not args.regex:
        return True
    return topic in args.topics or bool(args.regex and re.search(args.regex, topic))


def _publishers(node: Node, connections: list[Connection], args: argparse.Namespace) -> dict[int, Publisher]:
    renamed = dict(rule.split(':=', 1) for rule in args.remap)
    return {each.id: node.create_publisher(messages.interface_class(each.msgtype, 'msg'),
                                           renamed.get(each.topic, each.topic),
                                           _offer(getattr(each.ext, 'offered_qos_profiles', [])))
            for each in connections}


def _offer(recorded: list[Qos]) -> QoSProfile:
    """Offer what every recorded publisher offered."""
    profile = QoSProfile(depth=DEPTH)
    if any(each.reliability == QosReliability.BEST_EFFORT for each in recorded):
        profile.reliability = ReliabilityPolicy.BEST_EFFORT
    if recorded and all(each.durability == QosDurability.TRANSIENT_LOCAL for each in recorded):
        profile.durability = DurabilityPolicy.TRANSIENT_LOCAL
    return profile


def _clock_publisher(node: Node, frequency: float) -> Callable[[int], None] | None:
    if not frequency:
        return None
    clock = messages.interface_class('rosgraph_msgs/msg/Clock', 'msg')
    publisher = node.create_publisher(clock, '/clock', DEPTH)

    def tick(nanoseconds: int) -> None:
        message = clock()
        message.clock.sec, message.clock.nanosec = divmod(nanoseconds, 10**9)
        publisher.publish(message)
    return tick
