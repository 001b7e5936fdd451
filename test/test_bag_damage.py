"""Bags that are not quite ours: without results, of another robot, compressed, unfinished, damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, changed, driven, make_bag, messages, read, write_bag
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from rosbags.rosbag2 import Reader

from sim_node import cdr
from wcpg_ros import bag
from wcpg_ros.bag_messages import header_stamp
from wcpg_ros.bag_rules import BagError, Rules
from wcpg_ros.bag_storage import RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, MARKERS, TYPES, VEHICLES
from wcpg_ros.bag_writer import SUFFIXES
from wcpg_ros.conversions import read_odometry, read_vehicles

GAP = ('left_turn', 'gap:3', 3, 5)


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes of the gap rule."""
    return make_bag(tmp_path_factory.mktemp('bags') / 'whole')


# Where nobody says how it ended


@pytest.mark.parametrize('known', ['markers', 'size'])
@pytest.mark.parametrize(('scenario', 'controller'), [('left_turn', 'gap:1'), ('merge', 'constant:4'),
                                                      ('left_turn', 'brake')])
def test_the_end_is_worked_out_from_states_alone(tmp_path: Path, scenario: str, controller: str, known: str) -> None:
    make_bag(tmp_path / 'bag', scenario, controller, 8, 11)
    kept = (EGO, VEHICLES, COMMAND, *((MARKERS,) if known == 'markers' else ()))
    changed(tmp_path / 'bag', tmp_path / 'bare', lambda all_: [m for m in all_ if m.topic in kept])
    rules = Rules(vehicle_size=(4.6, 1.9) if known == 'size' else None)
    told, _ = read(tmp_path / 'bag')
    episodes, reader = read(tmp_path / 'bare', scenario=scenario, rules=rules)
    assert [episode.outcome for episode in episodes] == [episode.outcome for episode in told]
    for episode, expected in zip(episodes, driven(scenario, controller, 8, 11), strict=True):
        assert_same(episode.transitions, expected)
    assert reader.summary.oddities() == {'episodes whose end was worked out': 8}


def test_without_sizes_the_end_stays_unknown(whole: Path, tmp_path: Path) -> None:
    changed(whole, tmp_path / 'bare', lambda all_: [m for m in all_ if m.topic in (EGO, VEHICLES, COMMAND)])
    episodes, reader = read(tmp_path / 'bare', scenario='left_turn')
    assert {episode.outcome for episode in episodes} == {'unknown'}
    assert reader.summary.oddities() == {'episodes whose end needs --vehicle-size': 3}


def test_another_robots_bag(whole: Path, tmp_path: Path) -> None:
    """Other names, stamps off our grid, another map, and commands that change within a decision."""
    shift, ours = 1_700_000_003_270_000_000, {EGO: '/odom', VEHICLES: '/traffic', COMMAND: '/accel'}
    types = {theirs: TYPES[name] for name, theirs in ours.items()}
    place = np.array([100.0, 50.0, 0.0, 0.0])     # of the scene in their map

    def moved(message: RawMessage) -> RawMessage:
        stamp = header_stamp(message.data) + shift
        if message.topic == COMMAND:
            value = (1.0, 2.0, 3.0, 2.0)[(header_stamp(message.data) // 100_000_000) % 4]
            data = cdr.acceleration(stamp, 'base_link', value)
        elif message.topic == EGO:
            data = cdr.odometry(stamp, 'map', 'base_link', read_odometry(message.data).states()[0] + place)
        else:
            reading = read_vehicles(message.data)
            data = cdr.vehicles(stamp, 'map', reading.names, reading.states() + place)
        return RawMessage(message.log_time + shift, ours[message.topic], data)

    first = [m for m in messages(whole) if m.topic in ours and m.log_time < 15_000_000_000]
    write_bag(tmp_path / 'bag', [moved(message) for message in first], types)
    episodes, reader = read(tmp_path / 'bag', scenario='left_turn',
                            rules=Rules((4.6, 1.9), scene_pose=(100.0, 50.0, 0.0), names=ours))
    expected = driven(*GAP)[0]
    transitions = episodes[0].transitions
    np.testing.assert_allclose(transitions.observation[:, :4], np.array(expected.rows['observation'])[:, :4], atol=1e-4)
    assert (transitions.action[:-1] == 2.0).all()     # the mean of 1, 2, 3, 2
    assert 'episodes taken to begin with their first state' in reader.summary.oddities()


# Compressed files


@pytest.mark.parametrize('compression', ['zstd', 'lz4'])
def test_compressed_chunks_are_read(whole: Path, tmp_path: Path, compression: str) -> None:
    (tmp_path / 'bag').mkdir()
    with (tmp_path / 'bag' / 'bag_0.mcap').open('wb') as stream:
        writer = Writer(stream, compression=CompressionType[compression.upper()])
        writer.start('ros2')
        channels = {}
        for message in messages(whole):
            if message.topic not in channels:
                schema = writer.register_schema(TYPES[message.topic], 'ros2msg', b'')
                channels[message.topic] = writer.register_channel(message.topic, 'cdr', schema)
            writer.add_message(channels[message.topic], message.log_time, message.data, message.log_time)
        writer.finish()
    episodes, reader = read(tmp_path / 'bag')
    assert reader.summary.problems == []
    for episode, expected in zip(episodes, driven(*GAP), strict=True):
        assert_same(episode.transitions, expected)


def test_other_compression_is_refused_with_advice(whole: Path, tmp_path: Path) -> None:
    (tmp_path / 'files').mkdir()
    (tmp_path / 'files' / 'files_0.mcap.zstd').write_bytes(b'')
    with pytest.raises(BagError, match='unpack them first'):
        read(tmp_path / 'files')
    changed(whole, tmp_path / 'each', lambda all_: all_)
    metadata = tmp_path / 'each' / 'metadata.yaml'
    metadata.write_text(metadata.read_text().replace("compression_mode: ''", 'compression_mode: MESSAGE'))
    assert 'compressed one by one' in read(tmp_path / 'each')[1].summary.problems[0]


# Damaged files


def test_an_unfinished_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=20) / 'bag_0.mcap'
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    content = file.read_bytes()
    file.write_bytes(content[:len(content) * 3 // 5])
    episodes, reader = read(tmp_path / 'bag')
    assert (reader.summary.unfinished, reader.summary.problems) == (1, [])
    assert 5 < len(episodes) < 20
    for episode, expected in zip(episodes[:-1], driven('left_turn', 'gap:3', 20, 5), strict=False):
        assert_same(episode.transitions, expected)


def test_damage_is_named_with_its_offset_and_the_rest_is_read(tmp_path: Path) -> None:
    make_bag(tmp_path / 'bag', episodes=20)
    file = tmp_path / 'bag' / 'bag_0.mcap'
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xff
    file.write_bytes(content)
    episodes, reader = read(tmp_path / 'bag')
    [problem] = reader.summary.problems
    assert 'damaged at offset' in problem
    assert 'a chunk whose checksum is wrong' in problem
    whole = [e for e in episodes if e.outcome in ('success', 'collision') and not e.gaps]
    assert 5 < len(whole) < 20
    expected = driven('left_turn', 'gap:3', 20, 5)
    for episode in whole:
        if episode.transitions.index[0] == 0:
            assert_same(episode.transitions, expected[episode.seed - 5_000_000])


def test_damage_between_chunks_is_passed_over_by_the_index(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=20) / 'bag_0.mcap'
    with file.open('rb') as stream:
        starts = [index.chunk_start_offset for index in make_reader(stream).get_summary().chunk_indexes]
    content = bytearray(file.read_bytes())
    content[starts[2] + 3] ^= 0xff     # the third chunk's length
    file.write_bytes(content)
    episodes, reader = read(tmp_path / 'bag')
    assert reader.summary.problems == [
        f'{file}: damaged at offset {starts[2]}; it is read again from offset {starts[3]} on']
    assert episodes[-1].seed == 5_000_019
    assert_same(episodes[-1].transitions, driven('left_turn', 'gap:3', 20, 5)[-1])


@pytest.mark.parametrize(('content', 'says'), [
    (b'nothing of the kind', 'not an mcap file (offset 0)'),
    (b'\x89MCAP0\r\n' + bytes([1]) + (10**9).to_bytes(8, 'little') + b'\x89MCAP0\r\n', 'damaged at offset 8'),
])
def test_what_is_no_bag_is_said(tmp_path: Path, content: bytes, says: str,
                                capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'bad_0.mcap').write_bytes(content)
    assert bag.main(['inspect', str(tmp_path / 'bad_0.mcap')]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_no_damage_whatever_stops_the_reader(tmp_path: Path, storage: str) -> None:
    """Flipped, lost and foreign bytes anywhere: what is left is read, and mending loses none of it."""
    rng = np.random.default_rng(1)
    file = make_bag(tmp_path / 'bag', storage=storage) / f'bag_0{SUFFIXES[storage]}'
    content = file.read_bytes()
    for case in range(40):
        damaged = bytearray(content)
        for _ in range(1 + case % 3):
            # Somewhere, or where the file describes itself.
            place = int(rng.integers((len(damaged), 400)[case % 2]))
            length = int(rng.integers(1, 4000))
            new = (bytes([damaged[place] ^ 0x10]), b'', rng.bytes(length), bytes(length))[int(rng.integers(4))]
            damaged[place:place + length] = new
        folder = tmp_path / f'{case}'
        folder.mkdir()
        (folder / file.name).write_bytes(damaged)
        before = read(folder, scenario='left_turn')[1].summary
        assert bag.main(['reindex', str(folder)]) in (0, 2)
        after = read(folder, scenario='left_turn')[1].summary
        assert after.transitions >= before.transitions


def test_a_topic_of_which_nothing_is_said_is_read(tmp_path: Path) -> None:
    """In a damaged database NOT NULL does not hold, and text need not be text."""
    folder = make_bag(tmp_path / 'bag', storage='sqlite3')
    whole = read(folder, scenario='left_turn')[1].summary.transitions
    database = sqlite3.connect(folder / 'bag_0.db3')
    database.execute('ALTER TABLE topics RENAME TO sound')
    database.execute('CREATE TABLE topics AS SELECT id, name, type, serialization_format, '
                     "NULL AS offered_qos_profiles, x'00ff' AS type_description_hash FROM sound")
    database.execute("INSERT INTO topics VALUES (99, NULL, x'00ff', '', '', '')")
    database.commit()
    database.close()
    assert read(folder, scenario='left_turn')[1].summary.transitions == whole > 0


# Bags that are there, but hold nothing


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_empty_bags_are_named(tmp_path: Path, storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_bag(tmp_path / 'none', [])
    assert 'nothing in it, not even a topic' in read(tmp_path / 'none')[1].summary.problems[0]
    (tmp_path / 'begun').mkdir()
    (tmp_path / 'begun' / f'begun_0{SUFFIXES[storage]}').write_bytes(b'')     # its recorder was killed at once
    assert bag.main(['inspect', str(tmp_path / 'begun')]) == 1
    assert 'nothing in it, not even a topic' in capsys.readouterr().out
    assert bag.main(['reindex', str(tmp_path / 'begun')]) == 0
    with Reader(tmp_path / 'begun') as reader:
        assert reader.message_count == 0
