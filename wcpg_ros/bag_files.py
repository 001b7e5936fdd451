"""The raw messages of bags, file by file: finished or not, whole or damaged, mcap or sqlite3, split or many.

Read record by record with little memory. What cannot be read is reported with its place, and everything before and
behind it is given all the same.
"""

from __future__ import annotations

import io
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.writer import MCAP0_MAGIC

from wcpg_ros.bag_repair import is_finished
from wcpg_ros.bag_writer import METADATA_FILE, SUFFIXES, Topic

_RECORD = struct.Struct('<BQ')       # opcode, length
_MESSAGE = struct.Struct('<HIQQ')    # channel, sequence, log time, publish time
_SORT_WINDOW = 2_000_000_000         # ns by which messages may stand in a file later than others received after them
_LONGEST_WINDOW = 20_000             # messages kept back for that at most
_ROWS = 1000                         # of a database, read at once

# What a reader meets where bytes are not what they should be.
_BROKEN = (McapError, struct.error, EOFError, ValueError, KeyError)


class BagError(ValueError):
    """Bags that cannot be used; the message says why and where."""


class RawMessage(NamedTuple):
    """A message as it was received."""

    log_time: int     # ns
    topic: str
    data: bytes


@dataclass
class FileReport:
    """What a file turned out to hold."""

    path: Path
    topics: dict[str, Topic] = field(default_factory=dict)     # with the number of their messages
    start: int | None = None                                   # ns, when the first and the last message were received
    end: int = 0
    unfinished: bool = False                                   # its writer was killed
    problems: list[str] = field(default_factory=list)          # what could not be read, with its place

    def count(self, topic: Topic, log_time: int) -> None:
        """Note a message."""
        topic.count += 1
        if self.start is None or log_time < self.start:
            self.start = log_time
        if log_time > self.end:
            self.end = log_time


def find_bags(path: Path) -> list[list[Path]]:
    """The files of each bag at a path, in their order: a file, a bag's directory, or a directory of many bags."""
    if not path.exists():
        raise BagError(f'{path}: does not exist; name a bag, or a directory of bags')
    if path.is_file():
        if path.suffix not in SUFFIXES.values():
            raise BagError(f'{path}: neither {" nor ".join(SUFFIXES.values())}; name a bag\'s directory or its file')
        return [[path]]
    files = [file for file in path.iterdir() if file.suffix in SUFFIXES.values() and not file.name.startswith('.')]
    if files:
        return [sorted(files, key=_place)]
    _refuse_compressed(path)
    bags = [bag for child in sorted(path.iterdir()) if child.is_dir() for bag in find_bags_or_none(child)]
    if not bags:
        raise BagError(f'{path}: no bag in it, no {" and no ".join(SUFFIXES.values())} file')
    return bags


def find_bags_or_none(path: Path) -> list[list[Path]]:
    """The bags at a path, or none."""
    try:
        return find_bags(path)
    except BagError:
        return []


def _refuse_compressed(path: Path) -> None:
    if any(path.glob('*.zstd')):
        raise BagError(f'{path}: its files are compressed as a whole; unpack them first (zstd -d {path}/*.zstd), or '
                       'record with --compression-mode none')


def _place(path: Path) -> tuple[int, str]:
    """Files of a split bag are numbered: …_2 comes before …_10."""
    number = path.stem.rpartition('_')[2]
    return (int(number) if number.isdecimal() else 0, path.name)


def read_file(path: Path, wanted: Callable[[Topic], bool], report: FileReport,
              progress: Callable[[int], object] = lambda _: None) -> Iterator[RawMessage]:
    """The messages of the topics that are wanted, in the order in which they were received.

    `report` is filled on the way; `progress` is told the bytes read since it was last told.
    """
    metadata = path.with_name(METADATA_FILE)
    if metadata.is_file() and 'compression_mode: MESSAGE' in metadata.read_text(errors='replace').upper():
        report.problems.append(f'{path}: its messages are compressed one by one; record with chunk compression instead')
        return
    file = (_McapFile if path.suffix == SUFFIXES['mcap'] else _Sqlite3File)(path, wanted, report)
    kept: list[RawMessage] = []
    newest = 0
    try:
        for batch in file.batches(progress):
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


class _McapFile:
    """Walks over the records of an mcap file; the library's own reader makes an object of every one of them."""

    def __init__(self, path: Path, wanted: Callable[[Topic], bool], report: FileReport) -> None:
        self._path, self._wanted, self._report = path, wanted, report
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, tuple[Topic, bool]] = {}     # and whether it is wanted

    def batches(self, progress: Callable[[int], object]) -> Iterator[list[RawMessage]]:
        """The messages, a list for each chunk."""
        path, report = self._path, self._report
        finished, size = is_finished(path), path.stat().st_size
        with path.open('rb') as stream:
            if stream.read(len(MCAP0_MAGIC)) != MCAP0_MAGIC:
                report.problems.append(f'{path}: not an mcap file (offset 0)')
                return
            while True:
                offset = stream.tell()
                head = stream.read(_RECORD.size)
                opcode, length = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, size)
                if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                    return
                if offset + _RECORD.size + length > size:
                    break
                content = stream.read(length)
                try:
                    yield self._messages(opcode, content)
                except _BROKEN as error:
                    report.problems.append(f'{path}: damaged at offset {offset} ({error}); what follows is read')
                progress(_RECORD.size + length)
        if finished:
            report.problems.append(f'{path}: damaged at offset {offset}; what follows cannot be read')
        report.unfinished = not finished

    def _messages(self, opcode: int, content: bytes) -> list[RawMessage]:
        """The messages in one record, most often a chunk of them."""
        found: list[RawMessage] = []
        if opcode == Opcode.CHUNK:
            content = _chunk(content)
            records = _records(content)
        else:
            records = iter([(opcode, 0, len(content))])
        for kind, start, end in records:
            if kind == Opcode.MESSAGE:
                channel, _, log_time, _ = _MESSAGE.unpack_from(content, start)
                topic, is_wanted = self._channels[channel]
                self._report.count(topic, log_time)
                if is_wanted:
                    found.append(RawMessage(log_time, topic.name, content[start + _MESSAGE.size:end]))
            elif kind == Opcode.SCHEMA:
                schema = Schema.read(_stream(content[start:end]))
                self._schemas[schema.id] = schema
            elif kind == Opcode.CHANNEL:
                self._add(Channel.read(_stream(content[start:end])))
        return found

    def _add(self, channel: Channel) -> None:
        if channel.id not in self._channels:
            schema = self._schemas.get(channel.schema_id)
            topic = self._report.topics.setdefault(channel.topic, Topic(channel.topic, schema.name if schema else ''))
            self._channels[channel.id] = (topic, self._wanted(topic))


def _records(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Opcode, start and end of the records in a chunk."""
    start = 0
    while start < len(content):
        kind, length = _RECORD.unpack_from(content, start)
        start += _RECORD.size
        if start + length > len(content):
            raise ValueError('a record reaches beyond its chunk')
        yield kind, start, start + length
        start += length


def _chunk(content: bytes) -> bytes:
    """A chunk's records, unpacked and checked."""
    chunk = Chunk.read(_stream(content))
    data = chunk.data if not chunk.compression else get_chunk_data_stream(chunk)[0].read(chunk.uncompressed_size)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError('a chunk whose checksum is wrong')
    return data


def _stream(content: bytes) -> ReadDataStream:
    return ReadDataStream(io.BytesIO(content))


class _Sqlite3File:
    """Reads the tables of rosbag2."""

    def __init__(self, path: Path, wanted: Callable[[Topic], bool], report: FileReport) -> None:
        self._path, self._wanted, self._report = path, wanted, report

    def batches(self, progress: Callable[[int], object]) -> Iterator[list[RawMessage]]:
        """The messages, a list for every thousand or so."""
        report, last = self._report, 0
        report.unfinished = not self._path.with_name(METADATA_FILE).is_file()
        database = sqlite3.connect(f'file:{self._path.resolve()}?mode=ro', uri=True)
        try:
            topics = {number: report.topics.setdefault(name, Topic(name, kind))
                      for number, name, kind in database.execute('SELECT id, name, type FROM topics')}
            wanted = {number: topic.name for number, topic in topics.items() if self._wanted(topic)}
            rows = database.execute(
                f'SELECT id, topic_id, timestamp, CASE WHEN topic_id IN ({",".join(map(str, wanted))}) THEN data END, '
                'length(data) FROM messages ORDER BY id')
            while some := rows.fetchmany(_ROWS):
                for _, number, log_time, _, _ in some:
                    report.count(topics[number], log_time)
                yield [RawMessage(log_time, wanted[number], data)
                       for _, number, log_time, data, _ in some if number in wanted]
                last = some[-1][0]
                progress(sum(row[-1] for row in some))
        except (sqlite3.Error, KeyError) as error:
            report.problems.append(f'{self._path}: damaged behind message {last} ({error}); '
                                   'what follows cannot be read')
        finally:
            database.close()
