"""Writes rosbag2 bags, mcap or sqlite3, so that a writer that is killed loses at most its last second.

Messages come as serialized bytes (CDR); nothing here needs ROS. The real rosbag2 and the `rosbags` and `mcap`
libraries read what it writes.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from mcap.writer import CompressionType, Writer

from wcpg_ros.places import make_writable

FLUSH_SECONDS = 1.0
METADATA_FILE = 'metadata.yaml'
METADATA_VERSION = 9            # of rosbag2 in Jazzy
SUFFIXES = {'mcap': '.mcap', 'sqlite3': '.db3'}
FOREVER = {'sec': 9223372036, 'nsec': 854775807}

_FIELD_TYPE = re.compile(r'^\s*(?:(\w+)/)?(\w+)(?:<=\d+)?(?:\[[^\]]*\])?\s+\w', re.MULTILINE)
_BUILT_IN = {'bool', 'byte', 'char', 'float32', 'float64', 'string', 'wstring',
             *(f'{sign}int{bits}' for sign in ('', 'u') for bits in (8, 16, 32, 64))}


def qos(*, reliability: str = 'reliable', durability: str = 'volatile', history: str = 'keep_last',
        depth: int = 10, **policies: Any) -> dict[str, Any]:
    """Return a publisher's quality of service as rosbag2 writes it; what is not given is the default."""
    return {'history': history, 'depth': depth, 'reliability': reliability, 'durability': durability,
            'deadline': FOREVER, 'lifespan': FOREVER, 'liveliness': 'automatic',
            'liveliness_lease_duration': FOREVER, 'avoid_ros_namespace_conventions': False, **policies}


@dataclass
class Topic:
    """What a bag says of a topic besides its messages."""

    name: str
    type: str                                                    # 'nav_msgs/msg/Odometry'
    definition: str = ''                                         # see message_definition()
    type_hash: str = ''                                          # 'RIHS01_…'
    offered_qos: list[dict[str, Any]] = field(default_factory=lambda: [qos()])
    count: int = 0

    def qos_text(self) -> str:
        """The quality of service as it stands inside a storage file."""
        # Two publishers with one deadline must not become an anchor and an alias.
        return yaml.dump(self.offered_qos, Dumper=_NoAliases, sort_keys=False)


@dataclass
class BagFile:
    """One storage file of a bag: when its messages were received (ns), and how many there are."""

    path: str
    start: int | None = None
    end: int = 0
    count: int = 0

    def add(self, log_time: int) -> None:
        """Count a message."""
        self.start = log_time if self.start is None else min(self.start, log_time)
        self.end = max(self.end, log_time)
        self.count += 1

    def times(self) -> dict[str, Any]:
        """As rosbag2 writes them."""
        start = self.start or 0
        return {'starting_time': {'nanoseconds_since_epoch': start},
                'duration': {'nanoseconds': self.end - start if self.count else 0}}


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def message_definition(type_name: str, read: Callable[[str, str], str]) -> str:
    """Return the text of a message and of all it contains, as it goes into a bag.

    `read` takes a package and a message name and returns the text of that .msg file.
    """
    def text_and_types(package: str, name: str) -> tuple[str, list[tuple[str, str]]]:
        text = read(package, name)
        code = re.sub('#.*', '', text)
        return text, [(other or ('std_msgs' if kind == 'Header' else package), kind)
                      for other, kind in _FIELD_TYPE.findall(code) if other or kind not in _BUILT_IN]

    package, _, name = type_name.split('/')
    whole, to_do = text_and_types(package, name)
    done: set[tuple[str, str]] = set()
    while to_do:
        dependency = to_do.pop(0)
        if dependency not in done:
            done.add(dependency)
            text, more = text_and_types(*dependency)
            whole += f"\n{'=' * 80}\nMSG: {'/'.join(dependency)}\n{text}"
            to_do = more + to_do
    return whole


def bag_metadata(storage: str, topics: Iterable[Topic], files: Iterable[BagFile]) -> dict[str, Any]:
    """Return the content of metadata.yaml."""
    files = list(files)
    starts = [file.start for file in files if file.start is not None]
    whole = BagFile('', min(starts, default=None), max((file.end for file in files), default=0),
                    sum(file.count for file in files))
    return {'rosbag2_bagfile_information': {
        'version': METADATA_VERSION,
        'storage_identifier': storage,
        'duration': whole.times()['duration'],
        'starting_time': whole.times()['starting_time'],
        'message_count': whole.count,
        'topics_with_message_count': [
            {'topic_metadata': {'name': topic.name, 'type': topic.type, 'serialization_format': 'cdr',
                                'offered_qos_profiles': topic.offered_qos,
                                'type_description_hash': topic.type_hash},
             'message_count': topic.count} for topic in topics],
        'compression_format': '',
        'compression_mode': '',
        'relative_file_paths': [file.path for file in files],
        'files': [{'path': file.path, **file.times(), 'message_count': file.count} for file in files],
        'custom_data': None,
        'ros_distro': os.environ.get('ROS_DISTRO', 'jazzy'),
    }}


def metadata_text(metadata: dict[str, Any]) -> str:
    """Return metadata as the YAML of metadata.yaml."""
    return yaml.dump(metadata, Dumper=_NoAliases, sort_keys=False)


class McapStorage:
    """A bag's mcap file."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open('wb')
        fcntl.flock(self._stream, fcntl.LOCK_EX)     # says that somebody is at work here
        # Uncompressed and with the summary at the end, as rosbag2 writes by default.
        self._writer = Writer(self._stream, compression=CompressionType.NONE)
        self._writer.start(profile='ros2', library='wcpg_ros')
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def add_topic(self, topic: Topic) -> None:
        """Say what is written under a topic's name."""
        if topic.type not in self._schemas:
            self._schemas[topic.type] = self._writer.register_schema(
                topic.type, 'ros2msg' if topic.definition else '', topic.definition.encode())
        self._channels[topic.name] = self._writer.register_channel(
            topic.name, 'cdr', self._schemas[topic.type],
            {'offered_qos_profiles': topic.qos_text(), 'topic_type_hash': topic.type_hash})

    def write(self, topic: str, data: bytes, log_time: int, publish_time: int) -> None:
        """Add a message."""
        self._writer.add_message(self._channels[topic], log_time, data, publish_time)

    def flush(self) -> None:
        """Hand all to the operating system."""
        self._writer.flush()

    def close(self, metadata: str) -> None:
        """Finish the file."""
        self._writer.flush()
        self._writer.add_metadata('rosbag2', {'serialized_metadata': metadata})
        self._writer.finish()
        self._stream.close()


class Sqlite3Storage:
    """A bag's sqlite3 file, with the tables of rosbag2."""

    SCHEMA = """
        CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
        CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL);
        CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
            serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,
            type_description_hash TEXT NOT NULL);
        CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
            encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
            data BLOB NOT NULL);
        CREATE INDEX timestamp_idx ON messages (timestamp ASC);
    """
    SCHEMA_VERSION = 4

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute('PRAGMA synchronous=OFF')   # to outlive this process, not a power cut
        self._database.executescript(self.SCHEMA)
        self._database.execute('INSERT INTO schema VALUES (?, ?)',
                               (self.SCHEMA_VERSION, os.environ.get('ROS_DISTRO', 'jazzy')))
        self._types: set[str] = set()
        self._ids: dict[str, int] = {}
        self.flush()

    def add_topic(self, topic: Topic) -> None:
        """Say what is written under a topic's name."""
        if topic.type not in self._types:
            self._types.add(topic.type)
            self._database.execute(
                'INSERT INTO message_definitions (topic_type, encoding, encoded_message_definition, '
                'type_description_hash) VALUES (?, ?, ?, ?)',
                (topic.type, 'ros2msg' if topic.definition else 'unknown', topic.definition, topic.type_hash))
        self._ids[topic.name] = self._database.execute(
            'INSERT INTO topics (name, type, serialization_format, offered_qos_profiles, type_description_hash) '
            'VALUES (?, ?, ?, ?, ?)', (topic.name, topic.type, 'cdr', topic.qos_text(), topic.type_hash)).lastrowid or 0

    def write(self, topic: str, data: bytes, log_time: int, publish_time: int) -> None:
        """Add a message; there is no place for the publish time."""
        self._database.execute('INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)',
                               (self._ids[topic], log_time, data))

    def flush(self) -> None:
        """Hand all to the operating system."""
        self._database.commit()

    def close(self, metadata: str) -> None:
        """Finish the file."""
        self._database.execute('INSERT INTO metadata (metadata_version, metadata) VALUES (?, ?)',
                               (METADATA_VERSION, metadata))
        self._database.commit()
        self._database.close()


STORAGES: dict[str, type[McapStorage] | type[Sqlite3Storage]] = {'mcap': McapStorage, 'sqlite3': Sqlite3Storage}


class BagWriter:
    """Writes a new bag: a directory with one storage file and, at the end, metadata.yaml."""

    def __init__(self, path: Path | str, storage: str = 'mcap') -> None:
        if storage not in STORAGES:
            raise ValueError(f"storage '{storage}' is unknown; choose one of {', '.join(STORAGES)}")
        self.path = Path(path)
        if self.path.exists():
            raise FileExistsError(f"{self.path}: exists already; choose another place for the bag, or remove it")
        make_writable(self.path)
        self._storage_name = storage
        self._file = BagFile(f'{self.path.resolve().name}_0{SUFFIXES[storage]}')
        self._storage = STORAGES[storage](self.path / self._file.path)
        self.topics: dict[str, Topic] = {}
        self._flushed = time.monotonic()

    def add_topic(self, topic: Topic) -> None:
        """Declare a topic; each once, before its first message."""
        if topic.name in self.topics:
            raise ValueError(f"{self.path}: topic '{topic.name}' is there already; add each topic once")
        self.topics[topic.name] = topic
        self._storage.add_topic(topic)

    def write(self, topic: str, data: bytes, log_time: int, publish_time: int | None = None) -> None:
        """Add a serialized message that was received at `log_time` (ns)."""
        self._storage.write(topic, data, log_time, log_time if publish_time is None else publish_time)
        self._file.add(log_time)
        self.topics[topic].count += 1
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Make what is written so far outlive this process; call it every second when messages may be rare."""
        self._storage.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Finish the bag."""
        text = metadata_text(bag_metadata(self._storage_name, self.topics.values(), [self._file]))
        self._storage.close(text)
        (self.path / METADATA_FILE).write_text(text)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
