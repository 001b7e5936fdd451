"""ros2 topic hz: how often a topic is published."""

from __future__ import annotations

import argparse
import statistics
from collections import deque

import rclpy
from rclpy.clock import Clock
from rclpy.qos import qos_profile_sensor_data

from . import graph, messages

WINDOW = 10000
REPORT_NS = 1_000_000_000


def add_hz_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    graph.add_arguments(parser)
    parser.add_argument('topic_name', help="Name of the ROS topic to listen to (e.g. '/chatter')")
    parser.add_argument('-w', '--window', dest='window_size', type=_positive, default=WINDOW, metavar='WINDOW',
                        help='window size, in # of messages, for calculating rate (default: %(default)d)')
    parser.add_argument('--wall-time', dest='use_wtime', action='store_true',
                        help='calculates rate using wall time which can be helpful when clock is not published '
                             'during simulation')


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value <= 0:
        raise argparse.ArgumentTypeError('value must be a positive integer')
    return value


class RateMeter:
    """Arrival times of messages; reports at most once in a second of them."""

    def __init__(self, window: int) -> None:
        self._gaps: deque[int] = deque(maxlen=window)
        self._last: int | None = None
        self._reported: int | None = None

    def arrived(self, now_ns: int) -> None:
        """Count a message; a clock that goes back begins anew."""
        if self._last is None or now_ns < self._last:
            self._gaps.clear()
        else:
            self._gaps.append(now_ns - self._last)
        self._last = now_ns

    def report(self) -> str | None:
        """Return what to print, if a second has passed since the last time."""
        if not self._gaps or self._last is None:
            return None
        if self._reported is None or self._last < self._reported:
            self._reported = self._last
            return None
        if self._last < self._reported + REPORT_NS:
            return None
        self._reported = self._last
        mean = statistics.fmean(self._gaps)
        return (f'average rate: {1e9 / mean if mean else 0.0:.3f}\n'
                f'\tmin: {min(self._gaps) * 1e-9:.3f}s max: {max(self._gaps) * 1e-9:.3f}s '
                f'std dev: {statistics.pstdev(self._gaps, mean) * 1e-9:.5f}s window: {len(self._gaps)}')


def hz(args: argparse.Namespace) -> None:
    """Print the rate of a topic until interrupted."""
    with graph.node_of(args) as node:
        topic = graph.absolute(args.topic_name)
        found = graph.wait_until(lambda: dict(node.get_topic_names_and_types()).get(topic), graph.LATE)
        if found is None:
            print(f'WARNING: topic [{args.topic_name}] does not appear to be published yet')
        while found is None:
            found = graph.wait_until(lambda: dict(node.get_topic_names_and_types()).get(topic), 1.0)
        meter = RateMeter(args.window_size)
        clock = Clock() if args.use_wtime else node.get_clock()
        node.create_subscription(messages.interface_class(found[0], 'msg'), topic,
                                 lambda _: meter.arrived(clock.now().nanoseconds), qos_profile_sensor_data, raw=True)
        while True:
            rclpy.spin_once(node)
            if report := meter.report():
                print(report)
