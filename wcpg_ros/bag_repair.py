"""Mends bags: finishes files whose writer was killed, saves what damaged ones still hold, writes metadata.yaml anew."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import sqlite3
from pathlib import Path

from mcap.data_stream import ReadDataStream
from mcap.records import MessageIndex
from mcap.summary import Summary
from tqdm import tqdm

from wcpg_ros.bag_files import files_of, missing_files
from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_storage import BROKEN, RECORD_HEAD, FileReport, Progress, batches, open_database, summary_of
from wcpg_ros.bag_writer import METADATA_FILE, STORAGES, SUFFIXES, BagFile, Topic, bag_metadata, metadata_text

DAMAGED = '.damaged'     # behind the name of a file that could not be mended without losing something
_COMPANIONS = ('-journal', '-wal', '-shm')     # of a database; a new one must not meet those of the old one


def reindex(bag: Path, progress: bool = False) -> list[str]:
    """Mend the files of a bag and write its metadata.yaml anew; what was done, a line each."""
    if not bag.is_dir():
        raise BagError(f"{bag}: no directory; name the bag's directory")
    files = files_of(bag)
    if not files:
        raise BagError(f'{bag}: no {" and no ".join(SUFFIXES.values())} file in it; is this a bag?')
    topics: dict[str, Topic] = {}
    done = [f'{path}: missing; {METADATA_FILE} names it no longer' for path in missing_files(bag)]
    storage = next(name for name, suffix in SUFFIXES.items() if suffix == files[0].suffix)
    with tqdm(total=sum(path.stat().st_size for path in files), unit='B', unit_scale=True, desc='mending',
              disable=not progress, leave=False) as bar:
        indexed = [_index(path, storage, topics, done, bar.update) for path in files
                   if path.suffix == SUFFIXES[storage]]
    (bag / METADATA_FILE).write_text(metadata_text(bag_metadata(storage, topics.values(), indexed)))
    return [*done, f'{bag / METADATA_FILE}: written anew, {sum(file.count for file in indexed)} messages']


def _index(path: Path, storage: str, topics: dict[str, Topic], done: list[str], progress: Progress) -> BagFile:
    """What a file holds; one that is not as it should be is mended first."""
    report = _contents(path, progress)
    if report.problems or not _is_sound(path):
        if _is_being_written(path):
            raise BagError(f'{path}: its recorder is still at work; stop it first (Ctrl-C)')
        done += _mend(path, storage)
        report = _contents(path)
    for name, topic in report.topics.items():
        if name in topics:
            topics[name].count += topic.count
        else:
            topics[name] = topic
    return BagFile(path.name, report.start, report.end, sum(topic.count for topic in report.topics.values()))


def _contents(path: Path, progress: Progress = lambda _: None) -> FileReport:
    """What a file holds and what is wrong with it, after a look at every byte."""
    report = FileReport(path)
    for _ in batches(path, lambda _: False, report, progress):
        pass
    return report


def _is_sound(path: Path) -> bool:
    """Whether other tools find their way in a file, by what it says at its end and by its indexes."""
    if path.suffix == SUFFIXES['sqlite3']:
        try:
            with contextlib.closing(open_database(path)) as database:
                return path.stat().st_size > 0 and database.execute('PRAGMA quick_check(1)').fetchone() == ('ok',)
        except sqlite3.DatabaseError:
            return False
    summary = summary_of(path)
    return summary is not None and summary.statistics is not None and _has_sound_indexes(path, summary)


def _has_sound_indexes(path: Path, summary: Summary) -> bool:
    """Whether the indexes behind an mcap file's chunks lead into these chunks."""
    with path.open('rb') as stream:
        for chunk in summary.chunk_indexes:
            for channel, offset in chunk.message_index_offsets.items():
                stream.seek(offset + RECORD_HEAD.size)
                try:
                    index = MessageIndex.read(ReadDataStream(stream))
                except BROKEN:
                    return False
                if index.channel_id != channel or not all(
                        chunk.message_start_time <= log_time <= chunk.message_end_time and
                        place < chunk.uncompressed_size for log_time, place in index.records):
                    return False
    return True


def _mend(path: Path, storage_name: str) -> list[str]:
    """Write what can be read of a file in its place, once that is whole; a damaged one is kept. What was done."""
    mended = path.with_name(f'.{path.name}.mended')
    report, file = FileReport(path), BagFile(path.name)
    _remove(mended)
    try:
        storage = STORAGES[storage_name](mended)
        added: set[str] = set()

        def add(topic: Topic) -> None:
            if topic.name not in added:
                added.add(topic.name)
                storage.add_topic(topic)

        for batch in batches(path, lambda _: True, report, lambda _: None):
            for message in batch:
                add(report.topics[message.topic])
                storage.write(message.topic, message.data, message.log_time, message.publish_time)
                file.add(message.log_time)
        if not file.count and report.problems:
            raise BagError(f'{"; ".join(report.problems)}; it is left as it is')
        for topic in report.topics.values():
            add(topic)
        storage.close(metadata_text(bag_metadata(storage_name, report.topics.values(), [file])))
        kept = _keep(path) if report.problems else None
        mended.replace(path)
    finally:
        _remove(mended)
    return [*report.problems, f'{path}: written anew' if kept is None else f'{path}: mended; as it was: {kept.name}']


def _keep(path: Path) -> Path:
    """Give a damaged file, and what belongs to it, a name that nothing else has."""
    names = (path.with_name(f'{path.name}{DAMAGED}{number or ""}') for number in itertools.count())
    kept = next(name for name in names if not name.exists())
    path.rename(kept)
    for companion in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + companion).rename(kept.with_name(kept.name + companion))
    return kept


def _remove(file: Path) -> None:
    for companion in ('', *_COMPANIONS):
        file.with_name(file.name + companion).unlink(missing_ok=True)


def _is_being_written(path: Path) -> bool:
    """Whether a recorder is at work on a file: ours locks an mcap file, SQLite the database that it writes to."""
    if path.suffix == SUFFIXES['sqlite3']:
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=0.0)) as database:
                database.execute('BEGIN IMMEDIATE')
        except sqlite3.DatabaseError as error:
            return 'locked' in str(error)
        return False
    with path.open('rb') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
