"""Mends bags: finishes mcap files whose writer was killed, and writes metadata.yaml anew."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
from pathlib import Path

from tqdm import tqdm

from wcpg_ros.bag_files import files_of
from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_storage import FileReport, McapReader, Progress, open_database, qos_of, summary_of, topic_of
from wcpg_ros.bag_writer import METADATA_FILE, SUFFIXES, BagFile, McapStorage, Topic, bag_metadata, metadata_text

DAMAGED = '.damaged'     # behind the name of a file that could not be mended without losing something


def reindex(bag: Path, progress: bool = False) -> list[str]:
    """Finish the files of a bag and write its metadata.yaml anew; what was done, a line each."""
    if not bag.is_dir():
        raise BagError(f"{bag}: no directory; name the bag's directory")
    files = files_of(bag)
    if not files:
        raise BagError(f'{bag}: no {" and no ".join(SUFFIXES.values())} file in it; is this a bag?')
    topics: dict[str, Topic] = {}
    done: list[str] = []
    storage = next(name for name, suffix in SUFFIXES.items() if suffix == files[0].suffix)
    index = {'mcap': _index_mcap, 'sqlite3': _index_sqlite3}[storage]
    with tqdm(total=sum(path.stat().st_size for path in files), unit='B', unit_scale=True, desc='mending',
              disable=not progress, leave=False) as bar:
        indexed = [index(path, topics, done, bar.update) for path in files if path.suffix == SUFFIXES[storage]]
    (bag / METADATA_FILE).write_text(metadata_text(bag_metadata(storage, topics.values(), indexed)))
    return [*done, f'{bag / METADATA_FILE}: written anew, {sum(file.count for file in indexed)} messages']


def finish_mcap(path: Path, progress: Progress = lambda _: None) -> list[str]:
    """Give an mcap file its index and its end; it is replaced once the new one is whole. Gives what was lost."""
    mended = path.with_name(f'.{path.name}.mended')
    report, file = FileReport(path), BagFile(path.name)
    storage = McapStorage(mended)
    try:
        added: set[str] = set()
        for batch in McapReader(path, lambda _: True, report).batches(progress):
            for message in batch:
                if message.topic not in added:
                    added.add(message.topic)
                    storage.add_topic(report.topics[message.topic])
                storage.write(message.topic, message.data, message.log_time, message.publish_time)
                file.add(message.log_time)
        if not file.count and report.problems:
            raise BagError('; '.join(report.problems))
        storage.close(metadata_text(bag_metadata('mcap', report.topics.values(), [file])))
        if report.problems:
            path.rename(path.with_name(path.name + DAMAGED))
        mended.replace(path)
    except BaseException:
        mended.unlink(missing_ok=True)
        raise
    return report.problems


def _index_mcap(path: Path, topics: dict[str, Topic], done: list[str], progress: Progress) -> BagFile:
    summary = summary_of(path)
    if summary is None or summary.statistics is None:
        if _is_being_written(path):
            raise BagError(f'{path}: its recorder is still at work; stop it first (Ctrl-C)')
        problems = finish_mcap(path, progress)
        done += [*problems, f'{path}: finished' + (f'; as it was: {path.name}{DAMAGED}' if problems else '')]
        summary = summary_of(path)
        assert summary is not None
        assert summary.statistics is not None
    statistics = summary.statistics
    for channel in summary.channels.values():
        topic = topics.setdefault(channel.topic, topic_of(channel, summary.schemas.get(channel.schema_id)))
        topic.count += statistics.channel_message_counts.get(channel.id, 0)
    count = statistics.message_count
    return BagFile(path.name, statistics.message_start_time if count else None, statistics.message_end_time, count)


def _is_being_written(path: Path) -> bool:
    """Whether a recorder of ours has an mcap file open."""
    with path.open('rb') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _index_sqlite3(path: Path, topics: dict[str, Topic], done: list[str], progress: Progress) -> BagFile:
    try:
        with contextlib.closing(open_database(path)) as database:
            columns = [row[1] for row in database.execute('PRAGMA table_info(topics)')]
            type_hash = 'type_description_hash' if 'type_description_hash' in columns else "''"     # since Iron
            for name, kind, offered_qos, hashed, count in database.execute(
                    f'SELECT name, type, offered_qos_profiles, {type_hash}, '
                    '(SELECT COUNT(*) FROM messages WHERE topic_id = topics.id) FROM topics'):
                topic = topics.setdefault(name, Topic(name, kind, '', hashed, qos_of(offered_qos)))
                topic.count += count
            start, end, count = database.execute(
                'SELECT MIN(timestamp), MAX(timestamp), COUNT(*) FROM messages').fetchone()
    except sqlite3.Error as error:
        raise BagError(f'{path}: damaged ({error}); it is left as it is. `bag inspect` and `train` read what is left '
                       'of it') from None
    return BagFile(path.name, start, end or 0, count)
