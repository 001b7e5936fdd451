"""The raw messages of bags, file by file: one bag, a split one, a directory of many."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_storage import FileReport, Progress, RawMessage, Wanted, batches
from wcpg_ros.bag_writer import METADATA_FILE, SUFFIXES

_SORT_WINDOW = 2_000_000_000         # ns by which messages may stand in a file later than others received after them
_LONGEST_WINDOW = 20_000             # messages kept back for that at most


def find_bags(path: Path) -> list[list[Path]]:
    """The files of each bag at a path, in their order: a file, a bag's directory, or a directory of many bags."""
    if not path.exists():
        raise BagError(f'{path}: does not exist; name a bag, or a directory of bags')
    if not path.is_dir():
        if path.suffix not in SUFFIXES.values():
            raise BagError(f'{path}: neither {" nor ".join(SUFFIXES.values())}; name a bag\'s directory or its file')
        return [[path]]
    files = files_of(path)
    if files:
        return [files]
    _refuse_compressed(path)
    above = {path.resolve(), *path.resolve().parents}     # a link back would never end
    bags = [bag for child in sorted(path.iterdir()) if child.is_dir() and child.resolve() not in above
            for bag in _bags_in(child)]
    if not bags:
        raise BagError(f'{path}: no bag in it, no {" and no ".join(SUFFIXES.values())} file')
    return bags


def files_of(bag: Path) -> list[Path]:
    """The files in a bag's directory, in their order: those of a split bag are numbered, …_2 comes before …_10."""
    def place(path: Path) -> tuple[int, str]:
        number = path.stem.rpartition('_')[2]
        return (int(number) if number.isdecimal() else 0, path.name)

    return sorted((file for file in bag.iterdir()
                   if file.suffix in SUFFIXES.values() and not file.name.startswith('.')), key=place)


def missing_files(bag: Path) -> list[Path]:
    """The files that a bag's metadata.yaml names and that are not there; what it says otherwise is not needed."""
    try:
        told = yaml.safe_load((bag / METADATA_FILE).read_text())['rosbag2_bagfile_information']['relative_file_paths']
        named = [bag / Path(name).name for name in told]     # early versions name the directory too
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []
    return [path for path in named if not path.exists()]


def _bags_in(path: Path) -> list[list[Path]]:
    """The bags at a path, if there are any."""
    try:
        return find_bags(path)
    except BagError:
        return []


def _refuse_compressed(path: Path) -> None:
    if any(path.glob('*.zstd')):
        raise BagError(f'{path}: its files are compressed as a whole; unpack them first (zstd -d {path}/*.zstd), or '
                       'record with --compression-mode none')


def read_file(path: Path, wanted: Wanted, report: FileReport, progress: Progress = lambda _: None
              ) -> Iterator[RawMessage]:
    """The messages of the topics that are wanted, in the order in which they were received.

    `report` is filled on the way; `progress` is told the bytes read since it was last told.
    """
    metadata = path.with_name(METADATA_FILE)
    if metadata.is_file() and re.search(r'compression_mode:\W*message', metadata.read_text(errors='replace'), re.I):
        report.problems.append(f'{path}: its messages are compressed one by one; record with chunk compression instead')
        return
    kept: list[RawMessage] = []
    newest = 0
    try:
        for batch in batches(path, wanted, report, progress):
            kept += batch
            newest = max(newest, max((message.log_time for message in batch), default=0))
            kept.sort(key=lambda message: message.log_time)     # stable, and quick on what is nearly in order
            ready = next((index for index, message in enumerate(kept) if message.log_time > newest - _SORT_WINDOW),
                         len(kept))
            ready = max(ready, len(kept) - _LONGEST_WINDOW)
            yield from kept[:ready]
            del kept[:ready]
    except OSError as error:
        report.problems.append(f'{path}: {error.strerror or error}')
    yield from kept
