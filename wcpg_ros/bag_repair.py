"""Mends bags: finishes mcap files whose writer was killed, and writes metadata.yaml anew."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import yaml
from mcap.exceptions import McapError
from mcap.reader import make_reader
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import MCAP0_MAGIC

from .bag_writer import METADATA_FILE, SUFFIXES, BagFile, McapStorage, Topic, bag_metadata, metadata_text

# What a reader meets where a file breaks off, or where its bytes are not what they should be.
BROKEN = (McapError, struct.error, EOFError, ValueError)


def is_finished(path: Path) -> bool:
    """Whether an mcap file has its end."""
    with path.open('rb') as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() < 2 * len(MCAP0_MAGIC):
            return False
        stream.seek(-len(MCAP0_MAGIC), os.SEEK_END)
        return stream.read() == MCAP0_MAGIC


def read_mcap(path: Path) -> Iterator[tuple[Topic, Message]]:
    """Yield the messages of an mcap file, finished or not, in the order of the file, as far as it goes."""
    schemas: dict[int, Schema] = {}
    topics: dict[int, Topic] = {}
    with path.open('rb') as stream:
        try:
            for record in StreamReader(stream).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    topics.setdefault(record.id, _topic(record, schemas.get(record.schema_id)))
                elif isinstance(record, Message):
                    yield topics[record.channel_id], record
        except BROKEN:
            return


def _topic(channel: Channel, schema: Schema | None) -> Topic:
    return Topic(channel.topic, schema.name if schema else '', schema.data.decode() if schema else '',
                 channel.metadata.get('topic_type_hash', ''),
                 yaml.safe_load(channel.metadata.get('offered_qos_profiles', '')) or [])


def finish_mcap(path: Path) -> None:
    """Give an unfinished mcap file its index and its end; the file is replaced once the new one is whole."""
    mended = path.with_name(f'.{path.name}.mended')
    storage = McapStorage(mended)
    file = BagFile(path.name)
    topics: dict[str, Topic] = {}
    for topic, message in read_mcap(path):
        if topic.name not in topics:
            topics[topic.name] = topic
            storage.add_topic(topic)
        storage.write(topic.name, message.data, message.log_time, message.publish_time)
        file.add(message.log_time)
        topic.count += 1
    storage.close(metadata_text(bag_metadata('mcap', topics.values(), [file])))
    mended.replace(path)


def reindex(bag: Path) -> None:
    """Finish the files of a bag and write its metadata.yaml anew."""
    storage = next((name for name, suffix in SUFFIXES.items() if any(bag.glob(f'*{suffix}'))), None)
    if storage is None:
        raise FileNotFoundError(f"{bag}: no {' and no '.join(SUFFIXES.values())} file in it; is this a bag?")
    topics: dict[str, Topic] = {}
    files = []
    for path in sorted(bag.glob(f'*{SUFFIXES[storage]}'), key=_number):
        if storage == 'mcap' and not is_finished(path):
            finish_mcap(path)
        files.append(_index_mcap(path, topics) if storage == 'mcap' else _index_sqlite3(path, topics))
    (bag / METADATA_FILE).write_text(metadata_text(bag_metadata(storage, topics.values(), files)))


def _number(path: Path) -> tuple[int, str]:
    """Files of a split bag are numbered: …_2 comes before …_10."""
    number = path.stem.rpartition('_')[2]
    return (int(number) if number.isdecimal() else 0, path.name)


def _index_mcap(path: Path, topics: dict[str, Topic]) -> BagFile:
    with path.open('rb') as stream:
        summary = make_reader(stream).get_summary()
    if summary is None or summary.statistics is None:
        raise ValueError(f'{path}: no summary in it; it was not written by rosbag2')
    statistics = summary.statistics
    for channel in summary.channels.values():
        topic = topics.setdefault(channel.topic, _topic(channel, summary.schemas.get(channel.schema_id)))
        topic.count += statistics.channel_message_counts.get(channel.id, 0)
    count = statistics.message_count
    return BagFile(path.name, statistics.message_start_time if count else None, statistics.message_end_time, count)


def _index_sqlite3(path: Path, topics: dict[str, Topic]) -> BagFile:
    database = sqlite3.connect(path)
    try:
        for name, kind, offered_qos, type_hash, count in database.execute(
                'SELECT name, type, offered_qos_profiles, type_description_hash, '
                '(SELECT COUNT(*) FROM messages WHERE topic_id = topics.id) FROM topics'):
            topic = topics.setdefault(name, Topic(name, kind, '', type_hash, yaml.safe_load(offered_qos) or []))
            topic.count += count
        start, end, count = database.execute('SELECT MIN(timestamp), MAX(timestamp), COUNT(*) FROM messages').fetchone()
    finally:
        database.close()
    return BagFile(path.name, start, end or 0, count)
