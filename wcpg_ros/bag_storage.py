"""What the files of bags hold, mcap or sqlite3, finished or not, whole or damaged, read with little memory.

What cannot be read is reported with its place; everything before and behind it is given all the same.
"""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import yaml
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Channel, Chunk, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.summary import Summary
from mcap.writer import MCAP0_MAGIC

from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_writer import METADATA_FILE, SUFFIXES, Topic

RECORD_HEAD = struct.Struct('<BQ')   # opcode, length
_MESSAGE = struct.Struct('<HIQQ')    # channel, sequence, log time, publish time
_RECORDS = {*range(Opcode.HEADER, Opcode.DATA_END), *range(0x80, 0x100)}     # from 0x80 on they are anybody's own
_LAST_RECORDS = {int(Opcode.DATA_END): 4, int(Opcode.FOOTER): 20}            # behind the data, with their lengths
_ROWS = 1000                         # of a database, read at once

# What a reader meets where an mcap file breaks off, or where its bytes are not what they should be.
BROKEN = (McapError, struct.error, EOFError, ValueError, KeyError, OverflowError, MemoryError)


class RawMessage(NamedTuple):
    """A message as it was received."""

    log_time: int             # ns
    topic: str
    data: bytes
    publish_time: int = 0     # ns; sqlite3 does not keep it


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


Wanted = Callable[[Topic], bool]
Progress = Callable[[int], object]     # is told the bytes read since it was last told


def batches(path: Path, wanted: Wanted, report: FileReport, progress: Progress) -> Iterator[list[RawMessage]]:
    """The messages of the topics that are wanted, in the order of the file; `report` is filled on the way."""
    reader = McapReader if path.suffix == SUFFIXES['mcap'] else Sqlite3Reader
    yield from reader(path, wanted, report).batches(progress)


def is_finished(path: Path) -> bool:
    """Whether an mcap file has its end."""
    with path.open('rb') as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() < 2 * len(MCAP0_MAGIC):
            return False
        stream.seek(-len(MCAP0_MAGIC), os.SEEK_END)
        return stream.read() == MCAP0_MAGIC


class McapReader:
    """Walks over the records of an mcap file; the library's own reader makes an object of every one of them."""

    def __init__(self, path: Path, wanted: Wanted, report: FileReport) -> None:
        self._path, self._wanted, self._report = path, wanted, report
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, tuple[Topic, bool]] = {}     # and whether it is wanted

    def batches(self, progress: Progress) -> Iterator[list[RawMessage]]:
        """The messages, a list for each chunk."""
        path, report = self._path, self._report
        report.unfinished = not is_finished(path)
        with path.open('rb') as stream:
            if not MCAP0_MAGIC.startswith(stream.read(len(MCAP0_MAGIC))):
                report.problems.append(f'{path}: not an mcap file (offset 0)')
                return
            while (record := self._next(stream)) is not None:
                offset, opcode, content = record
                try:
                    messages = self._messages(opcode, content)
                except BagError:
                    raise
                except BROKEN as error:
                    report.problems.append(f'{path}: damaged at offset {offset} ({error}); what follows is read')
                else:
                    yield messages
                progress(RECORD_HEAD.size + len(content))

    def _next(self, stream: BinaryIO) -> tuple[int, int, bytes] | None:
        """Where the next record begins, its opcode and its content; over damage to the next chunk that is known."""
        offset, size = stream.tell(), os.fstat(stream.fileno()).st_size
        head = stream.read(RECORD_HEAD.size)
        opcode, length = RECORD_HEAD.unpack(head) if len(head) == RECORD_HEAD.size else (0, size)
        reaches_beyond = offset + RECORD_HEAD.size + length > size
        if length == _LAST_RECORDS.get(opcode):
            return None
        if opcode in _RECORDS and not reaches_beyond:
            return offset, opcode, stream.read(length)
        if self._report.unfinished and reaches_beyond:
            return None     # where its writer was killed
        summary = summary_of(self._path)
        starts = [index.chunk_start_offset for index in summary.chunk_indexes] if summary else []
        later = min((start for start in starts if start > offset), default=None)
        self._report.problems.append(f'{self._path}: damaged at offset {offset}; ' + (
            f'it is read again from offset {later} on' if later else 'what follows cannot be read'))
        if later is None:
            return None
        stream.seek(later)
        return self._next(stream)

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
                channel, _, log_time, publish_time = _MESSAGE.unpack_from(content, start)
                topic, is_wanted = self._channels[channel]
                self._report.count(topic, log_time)
                if is_wanted:
                    found.append(RawMessage(log_time, topic.name, content[start + _MESSAGE.size:end], publish_time))
            elif kind == Opcode.SCHEMA:
                schema = Schema.read(_stream(content[start:end]))
                self._schemas[schema.id] = schema
            elif kind == Opcode.CHANNEL:
                self._add(Channel.read(_stream(content[start:end])))
        return found

    def _add(self, channel: Channel) -> None:
        if channel.id not in self._channels:
            topic = self._report.topics.setdefault(
                channel.topic, topic_of(channel, self._schemas.get(channel.schema_id)))
            self._channels[channel.id] = (topic, self._wanted(topic))


def topic_of(channel: Channel, schema: Schema | None) -> Topic:
    """A topic as an mcap file describes it."""
    return Topic(channel.topic, schema.name if schema else '', schema.data.decode() if schema else '',
                 channel.metadata.get('topic_type_hash', ''), qos_of(channel.metadata.get('offered_qos_profiles', '')))


def qos_of(text: str) -> list[dict[str, Any]]:
    """The quality of service as it stands inside a storage file; of no use to us, so none is fine."""
    try:
        profiles = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    return profiles if isinstance(profiles, list) else []


def summary_of(path: Path) -> Summary | None:
    """What an mcap file says of itself at its end; None where there is no sound one."""
    if not is_finished(path):
        return None
    try:
        with path.open('rb') as stream:
            return make_reader(stream).get_summary()
    except (*BROKEN, OSError):     # the second where it says to look beyond the file
        return None


def _records(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Opcode, start and end of the records in a chunk."""
    start = 0
    while start < len(content):
        kind, length = RECORD_HEAD.unpack_from(content, start)
        start += RECORD_HEAD.size
        if start + length > len(content):
            raise ValueError('a record reaches beyond its chunk')
        yield kind, start, start + length
        start += length


def _chunk(content: bytes) -> bytes:
    """A chunk's records, unpacked and checked."""
    chunk = Chunk.read(_stream(content))
    data = chunk.data
    if chunk.compression:
        try:
            data = get_chunk_data_stream(chunk)[0].read(chunk.uncompressed_size)
        except Exception as error:     # each compression library has its own kind
            raise ValueError(f'a chunk that cannot be unpacked: {error}') from None
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError('a chunk whose checksum is wrong')
    return data


def _stream(content: bytes) -> ReadDataStream:
    return ReadDataStream(io.BytesIO(content))


class Sqlite3Reader:
    """Reads the tables of rosbag2, some rows at a time, so that a recorder which is still at work is not locked out."""

    def __init__(self, path: Path, wanted: Wanted, report: FileReport) -> None:
        self._path, self._wanted, self._report = path, wanted, report

    def batches(self, progress: Progress) -> Iterator[list[RawMessage]]:
        """The messages, a list for every thousand or so."""
        report = self._report
        report.unfinished = not self._path.with_name(METADATA_FILE).is_file()
        if not self._path.stat().st_size:
            return     # its writer was killed at once
        try:
            database = open_database(self._path)
            try:
                yield from self._rows(database, progress)
            finally:
                database.close()
        except sqlite3.Error as error:
            report.problems.append(f'{self._path}: damaged ({error}); it cannot be read')

    def _rows(self, database: sqlite3.Connection, progress: Progress) -> Iterator[list[RawMessage]]:
        report = self._report
        topics = {number: report.topics.setdefault(topic.name, topic) for number, topic in _topics(database)}
        wanted = [number for number, topic in topics.items() if self._wanted(topic)]
        query = (f'SELECT id, topic_id, timestamp, CASE WHEN topic_id IN ({",".join(map(str, wanted))}) THEN data END, '
                 'length(data) FROM messages WHERE id > ? ORDER BY id LIMIT ?')
        highest = self._highest(database)
        last, rows, leap = 0, _ROWS, 0     # at damage: fewer rows at once, then over more and more of them
        while last + leap < highest:
            try:
                some = database.execute(query, (last + leap, rows)).fetchall()
                size = sum(row[-1] for row in some)
                named = [(topics[row[1]], row[2], row[3]) for row in some]
            except (sqlite3.DatabaseError, KeyError, TypeError) as error:
                if rows == 1 and not leap:
                    reason = error if isinstance(error, sqlite3.DatabaseError) else 'a row that is no message'
                    report.problems.append(f'{self._path}: damaged behind message {last} ({reason}); what follows is '
                                           'read as far as it can be')
                rows, leap = (rows // 10, 0) if rows > 1 else (1, 2 * leap or 1)
                continue
            for topic, log_time, _ in named:
                report.count(topic, log_time)
            yield [RawMessage(log_time, topic.name, data) for topic, log_time, data in named if data is not None]
            last, rows, leap = some[-1][0] if some else highest, min(10 * rows, _ROWS), 0
            progress(size)
        if report.problems and report.start is None:
            report.problems = [f'{self._path}: damaged, SQLite finds no message in it; the tool sqlite3 may save some '
                               '(.recover)']

    def _highest(self, database: sqlite3.Connection) -> int:
        """No message has a higher number."""
        try:
            return database.execute('SELECT MAX(id) FROM messages').fetchone()[0] or 0
        except sqlite3.DatabaseError:
            return self._path.stat().st_size     # a message takes more than a byte


def _topics(database: sqlite3.Connection) -> Iterator[tuple[int, Topic]]:
    """The numbers of topics, and what is said of them; bags of before Iron say less."""
    definitions: dict[str, str] = {}
    with contextlib.suppress(sqlite3.DatabaseError):     # no such table, or damaged
        definitions = dict(database.execute('SELECT topic_type, encoded_message_definition FROM message_definitions'))
    columns = [row[1] for row in database.execute('PRAGMA table_info(topics)')]
    qos_column, hash_column = (column if column in columns else "''"
                               for column in ('offered_qos_profiles', 'type_description_hash'))
    for number, name, kind, *about in database.execute(
            f'SELECT id, name, type, {qos_column}, {hash_column} FROM topics'):
        if isinstance(name, str) and isinstance(kind, str):     # in a damaged file there is anything
            qos, type_hash, definition = (said if isinstance(said, str) else ''
                                          for said in (*about, definitions.get(kind)))
            yield number, Topic(name, kind, definition, type_hash, qos_of(qos))


def open_database(path: Path) -> sqlite3.Connection:
    """A bag's sqlite3 file, to read. One whose recorder was killed must first be set back to its last whole second."""
    interrupted = path.with_name(f'{path.name}-journal').exists()
    database = sqlite3.connect(f'{path.resolve().as_uri()}?mode={"rw" if interrupted else "ro"}', uri=True)
    database.execute('PRAGMA writable_schema=ON')     # or SQLite refuses a file that is shorter than it should be
    return database
