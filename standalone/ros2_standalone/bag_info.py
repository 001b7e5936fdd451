"""ros2 bag info: what is in a bag."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import yaml
from mcap.reader import make_reader

from wcpg_ros.bag_storage import BROKEN

INDENT = 19   # where the values of the list begin


def add_info_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('bag_path', type=existing_bag, help='Bag to open')
    parser.add_argument('-t', '--topic-name', action='store_true', help='Only display topic names.')


def existing_bag(path: str) -> Path:
    """Check an argument that names a bag."""
    if not Path(path).exists():
        raise argparse.ArgumentTypeError(f"Bag path '{path}' does not exist!")
    return Path(path)


def info(args: argparse.Namespace) -> None:
    """Print what a bag's metadata says."""
    metadata, size = read_metadata(args.bag_path)
    if args.topic_name:
        print(*(topic['topic_metadata']['name'] for topic in metadata['topics_with_message_count']), sep='\n')
    else:
        print(format_metadata(metadata, size))


def read_metadata(bag: Path) -> tuple[dict[str, Any], int]:
    """Return the metadata of a bag, a directory or a single mcap file, and its size in bytes."""
    if bag.is_dir():
        file = bag / 'metadata.yaml'
        if not file.is_file():
            raise RuntimeError(f"[ERROR] [ros2bag]: no metadata.yaml in '{bag}'; "
                               f"if its recorder was killed, run 'ros2 bag reindex {bag}'")
        metadata = yaml.safe_load(file.read_text())['rosbag2_bagfile_information']
        return metadata, sum((bag / path).stat().st_size for path in metadata['relative_file_paths'])
    try:
        with bag.open('rb') as stream:
            for record in make_reader(stream).iter_metadata():
                if record.name == 'rosbag2':
                    metadata = yaml.safe_load(record.metadata['serialized_metadata'])['rosbag2_bagfile_information']
                    return metadata, bag.stat().st_size
    except (*BROKEN, OSError) as problem:   # OSError: too short to have an end
        raise RuntimeError(f"[ERROR] [ros2bag]: '{bag}' is no finished mcap file ({problem}); name the directory of "
                           "the bag, or run 'ros2 bag reindex' on it") from problem
    raise RuntimeError(f"[ERROR] [ros2bag]: no metadata in '{bag}'; name the directory of the bag instead")


def format_metadata(metadata: dict[str, Any], size: int) -> str:
    """Return metadata in the words of the real tool."""
    start = metadata['starting_time']['nanoseconds_since_epoch']
    duration = metadata['duration']['nanoseconds']
    topics = [topic['topic_metadata'] | {'count': topic['message_count']}
              for topic in metadata['topics_with_message_count']]
    lines = [f"Topic: {topic['name']} | Type: {topic['type']} | Count: {topic['count']} | "
             f"Serialization Format: {topic['serialization_format']}" for topic in topics]
    between = '\n' + ' ' * INDENT
    return '\n'.join([
        '',
        f"Files:             {between.join(metadata['relative_file_paths'])}",
        f'Bag size:          {_format_size(size)}',
        f"Storage id:        {metadata['storage_identifier']}",
        f"ROS Distro:        {metadata.get('ros_distro') or 'unknown'}",
        f'Duration:          {_seconds(duration)}s',
        f'Start:             {_format_time(start)}',
        f'End:               {_format_time(start + duration)}',
        f"Messages:          {metadata['message_count']}",
        f'Topic information: {between.join(lines)}',
        'Service:           0',
        'Service information: ',
    ])


def _seconds(nanoseconds: int) -> str:
    return f'{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}'


def _format_time(nanoseconds: int) -> str:
    local = datetime.datetime.fromtimestamp(nanoseconds // 10**9)
    day = f'{local:%b} {local.day:2d} {local.year}'
    return f'{day} {local:%H:%M:%S}.{nanoseconds % 10**9:09d} ({_seconds(nanoseconds)})'


def _format_size(size: float) -> str:
    units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.{0 if units[0] == 'B' else 1}f} {units[0]}"
