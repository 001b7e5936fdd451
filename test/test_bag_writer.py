"""Bags we write are read by the libraries of the ecosystem, and mended when their writer was killed."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
import yaml

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import messages
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from wcpg_ros.bag_repair import reindex
from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_storage import is_finished
from wcpg_ros.bag_writer import BagWriter, Topic, message_definition, qos

FILES = {
    ('std_msgs', 'Float64'): 'float64 data  # a number\n',
    ('demo_msgs', 'Track'): 'std_msgs/Header header\nPoint[<=3] points\nstring<=10 name\nuint8 KIND=1\nPoint last\n',
    ('demo_msgs', 'Point'): '# where\nfloat64 x\nfloat64[2] yz\n',
    ('std_msgs', 'Header'): 'builtin_interfaces/Time stamp\nstring frame_id\n',
    ('builtin_interfaces', 'Time'): 'int32 sec\nuint32 nanosec\n',
}
NUMBER = message_definition('std_msgs/msg/Float64', lambda package, name: FILES[package, name])


def serialized(value: float) -> bytes:
    """A std_msgs/msg/Float64 in CDR."""
    return b'\x00\x01\x00\x00' + struct.pack('<d', value)


def write_bag(path: Path, storage: str, count: int = 100) -> BagWriter:
    writer = BagWriter(path, storage)
    writer.add_topic(Topic('/a', 'std_msgs/msg/Float64', NUMBER))
    writer.add_topic(Topic('/b', 'std_msgs/msg/Float64', NUMBER,
                           offered_qos=[qos(durability='transient_local', depth=1)]))
    for index in range(count):
        writer.write('/a', serialized(index), 1_000_000_000 + index * 1_000_000, 999_000_000 + index)
    writer.write('/b', serialized(-1.0), 1_000_000_500)
    return writer


def kill(writer: BagWriter) -> None:
    """What the system does with the file of a killed process: no more is written, and its lock is gone."""
    stream = writer._storage._stream
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def values(path: Path) -> list[tuple[str, int, float]]:
    with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        return [(connection.topic, stamp, reader.deserialize(data, connection.msgtype).data)
                for connection, stamp, data in reader.messages()]


def test_a_definition_brings_along_what_it_contains() -> None:
    text = message_definition('demo_msgs/msg/Track', lambda package, name: FILES[package, name])
    line = '=' * 80
    assert text == (FILES['demo_msgs', 'Track']
                    + f"\n{line}\nMSG: std_msgs/Header\n{FILES['std_msgs', 'Header']}"
                    + f"\n{line}\nMSG: builtin_interfaces/Time\n{FILES['builtin_interfaces', 'Time']}"
                    + f"\n{line}\nMSG: demo_msgs/Point\n{FILES['demo_msgs', 'Point']}")


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_rosbags_reads_all_with_the_definitions_inside(tmp_path: Path, storage: str) -> None:
    write_bag(tmp_path / 'bag', storage).close()
    read = values(tmp_path / 'bag')
    assert [value for topic, _, value in read if topic == '/a'] == [float(index) for index in range(100)]
    assert ('/b', 1_000_000_500, -1.0) in read
    with Reader(tmp_path / 'bag') as reader:
        assert reader.message_count == 101
        assert (reader.start_time, reader.duration) == (1_000_000_000, 99_000_001)   # rosbags counts the last ns in
        offered = {each.topic: each.ext.offered_qos_profiles[0] for each in reader.connections}
        assert offered['/b'].durability.name == 'TRANSIENT_LOCAL'
        assert offered['/a'].durability.name == 'VOLATILE'


def test_mcap_reads_all_and_the_metadata_inside(tmp_path: Path) -> None:
    write_bag(tmp_path / 'bag', 'mcap').close()
    with (tmp_path / 'bag' / 'bag_0.mcap').open('rb') as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == 'ros2'
        summary = reader.get_summary()
        assert {channel.topic: summary.statistics.channel_message_counts[channel.id]
                for channel in summary.channels.values()} == {'/a': 100, '/b': 1}
        assert {(schema.name, schema.encoding, schema.data.decode()) for schema in summary.schemas.values()} == {
            ('std_msgs/msg/Float64', 'ros2msg', NUMBER)}
        [inside] = [record for record in reader.iter_metadata() if record.name == 'rosbag2']
        first = next(message for _, channel, message in reader.iter_messages() if channel.topic == '/a')
        assert (first.log_time, first.publish_time) == (1_000_000_000, 999_000_000)
    assert inside.metadata['serialized_metadata'] == (tmp_path / 'bag' / 'metadata.yaml').read_text()


def test_metadata_is_as_rosbag2_writes_it(tmp_path: Path) -> None:
    write_bag(tmp_path / 'run1', 'mcap', count=3).close()
    metadata = yaml.safe_load((tmp_path / 'run1' / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    assert list(metadata) == [
        'version', 'storage_identifier', 'duration', 'starting_time', 'message_count', 'topics_with_message_count',
        'compression_format', 'compression_mode', 'relative_file_paths', 'files', 'custom_data', 'ros_distro']
    assert metadata['version'] == 9
    assert metadata['starting_time'] == {'nanoseconds_since_epoch': 1_000_000_000}
    assert metadata['duration'] == {'nanoseconds': 2_000_000}
    assert metadata['relative_file_paths'] == ['run1_0.mcap']
    assert metadata['topics_with_message_count'][1] == {
        'message_count': 1,
        'topic_metadata': {'name': '/b', 'type': 'std_msgs/msg/Float64', 'serialization_format': 'cdr',
                           'offered_qos_profiles': [qos(durability='transient_local', depth=1)],
                           'type_description_hash': ''}}


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_what_is_flushed_outlives_a_writer_that_never_closes(tmp_path: Path, storage: str) -> None:
    writer = write_bag(tmp_path / 'bag', storage)
    writer.flush()
    writer.write('/a', serialized(1e9), 2_000_000_000)   # not flushed: lost
    if storage == 'mcap':
        with pytest.raises(BagError, match='its recorder is still at work; stop it first'):
            reindex(tmp_path / 'bag')
        kill(writer)
    reindex(tmp_path / 'bag')
    read = values(tmp_path / 'bag')
    assert len(read) == 101
    assert max(value for _, _, value in read) == 99.0


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_reindex_gives_the_same_metadata_again(tmp_path: Path, storage: str) -> None:
    write_bag(tmp_path / 'bag', storage).close()
    metadata = tmp_path / 'bag' / 'metadata.yaml'
    before = metadata.read_text()
    metadata.unlink()
    reindex(tmp_path / 'bag')
    assert metadata.read_text() == before


@pytest.mark.parametrize('cut', [1, 9, 50, 400, 1500])
def test_a_file_that_breaks_off_anywhere_is_read_as_far_as_it_goes(tmp_path: Path, cut: int) -> None:
    writer = BagWriter(tmp_path / 'bag')
    writer.add_topic(Topic('/a', 'std_msgs/msg/Float64', NUMBER))
    for index in range(30):
        writer.write('/a', serialized(index), index)
        writer.flush()   # a chunk each
    file = tmp_path / 'bag' / 'bag_0.mcap'
    content = file.read_bytes()[:-cut]
    file.unlink()     # whose writer has it locked
    file.write_bytes(content)
    assert not is_finished(file)
    read = [struct.unpack('<d', message.data[4:])[0] for message in messages(tmp_path / 'bag')]
    assert 0 < len(read) < 31
    assert read == [float(index) for index in range(len(read))]
    reindex(tmp_path / 'bag')
    assert is_finished(file)
    assert [value for _, _, value in values(tmp_path / 'bag')] == read


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="storage 'zip' is unknown; choose one of mcap, sqlite3"):
        BagWriter(tmp_path / 'bag', 'zip')
    writer = write_bag(tmp_path / 'bag', 'mcap')
    with pytest.raises(ValueError, match="topic '/a' is there already"):
        writer.add_topic(Topic('/a', 'std_msgs/msg/Float64'))
    with pytest.raises(FileExistsError, match='choose another place for the bag'):
        BagWriter(tmp_path / 'bag')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(BagError, match=r'no \.mcap and no \.db3 file in it'):
        reindex(tmp_path / 'empty')
