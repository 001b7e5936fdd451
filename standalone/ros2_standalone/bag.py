"""ros2 bag: record topics, play them again, and look at what was recorded."""

from __future__ import annotations

import argparse
from pathlib import Path

from wcpg_ros.bag_repair import reindex

from .bag_info import add_info_arguments, info
from .bag_play import add_play_arguments, play
from .bag_record import add_record_arguments, record
from .cli import add_verbs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'info': ('Print information about a bag to the screen', add_info_arguments, info),
        'play': ('Play back ROS data from a bag', add_play_arguments, play),
        'record': ('Record ROS data to a bag', add_record_arguments, record),
        'reindex': ('Reconstruct metadata file for a bag', _reindex_arguments, _reindex),
    })


def _reindex_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('bag_path', help='Bag to open')


def _reindex(args: argparse.Namespace) -> str | None:
    if not Path(args.bag_path).is_dir():
        return '[ERROR] [ros2bag]: Must specify a bag directory'
    try:
        print(*reindex(Path(args.bag_path)), sep='\n')
    except (OSError, ValueError) as problem:
        return f'[ERROR] [ros2bag]: {problem}'
    return None
