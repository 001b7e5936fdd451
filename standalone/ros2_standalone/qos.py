"""Quality of service from the command line, and adapted to what publishers offer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rclpy.duration import Duration
from rclpy.qos import (
    QoSDurabilityPolicy,
    QoSHistoryPolicy,
    QoSLivelinessPolicy,
    QoSPresetProfiles,
    QoSProfile,
    QoSReliabilityPolicy,
)
from rclpy.topic_endpoint_info import TopicEndpointInfo

OVERRIDES = ('depth', 'history', 'reliability', 'durability', 'liveliness', 'liveliness_lease_duration_seconds')


def add_arguments(parser: argparse.ArgumentParser, verb: str, default: str) -> None:
    """Add the --qos-* options; `verb` is 'subscribe' or 'publish'."""
    parser.add_argument('--qos-profile', choices=QoSPresetProfiles.short_keys(), default=default,
                        help=f'Quality of service preset profile to {verb} with (default: {default})')
    parser.add_argument('--qos-depth', metavar='N', type=int, help=f'Queue size setting to {verb} with')
    for name, policy in (('history', QoSHistoryPolicy), ('reliability', QoSReliabilityPolicy),
                         ('durability', QoSDurabilityPolicy), ('liveliness', QoSLivelinessPolicy)):
        parser.add_argument(f'--qos-{name}', choices=policy.short_keys(),
                            help=f'Quality of service {name} setting to {verb} with '
                                 f'(overrides {name} value of --qos-profile option)')
    parser.add_argument('--qos-liveliness-lease-duration-seconds', type=float,
                        help=f'Quality of service liveliness lease duration setting to {verb} with')


def overridden(args: argparse.Namespace) -> bool:
    """Whether any policy is asked for."""
    return any(getattr(args, f'qos_{name}') is not None for name in OVERRIDES)


def asked_for(args: argparse.Namespace) -> QoSProfile:
    """Return the preset with what is asked for on top."""
    profile = QoSPresetProfiles.get_from_short_key(args.qos_profile)
    if args.qos_history:
        profile.history = QoSHistoryPolicy.get_from_short_key(args.qos_history)
    if args.qos_durability:
        profile.durability = QoSDurabilityPolicy.get_from_short_key(args.qos_durability)
    if args.qos_reliability:
        profile.reliability = QoSReliabilityPolicy.get_from_short_key(args.qos_reliability)
    if args.qos_liveliness:
        profile.liveliness = QoSLivelinessPolicy.get_from_short_key(args.qos_liveliness)
    if args.qos_liveliness_lease_duration_seconds:
        profile.liveliness_lease_duration = Duration(seconds=args.qos_liveliness_lease_duration_seconds)
    if args.qos_depth:
        profile.depth = args.qos_depth
    elif profile.durability == QoSDurabilityPolicy.TRANSIENT_LOCAL and profile.depth == 0:
        profile.depth = 1
    return profile


def matching(publishers: Sequence[TopicEndpointInfo], profile: QoSProfile) -> QoSProfile:
    """Ask for the most that every publisher offers, so that a subscription hears them all."""
    offered = [publisher.qos_profile for publisher in publishers]
    if offered:
        profile.reliability = _agreed([each.reliability for each in offered], QoSReliabilityPolicy.RELIABLE,
                                      QoSReliabilityPolicy.BEST_EFFORT)
        profile.durability = _agreed([each.durability for each in offered], QoSDurabilityPolicy.TRANSIENT_LOCAL,
                                     QoSDurabilityPolicy.VOLATILE)
    return profile


def _agreed(offered: list[Any], more: Any, less: Any) -> Any:
    if more in offered and any(each != more for each in offered):
        name = type(more).__name__
        print(f'Some, but not all, publishers are offering {name}.{more.name}. Falling back to '
              f'{name}.{less.name} as it will connect to all publishers')
    return more if all(each == more for each in offered) else less
