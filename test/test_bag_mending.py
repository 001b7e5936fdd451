"""Damaged bags are mended: what can be read of them is whole again, and what they were is kept."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
import yaml

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, driven, make_bag, messages, read
from mcap.reader import make_reader
from rosbags.rosbag2 import Reader

from wcpg_ros import bag
from wcpg_ros.bag_repair import reindex
from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_topics import DEPTH, EGO


def mended_without_loss(bag_path: Path) -> None:
    """Mend a damaged bag: others read all that we read of it, and the damaged file is kept."""
    [file] = [*bag_path.glob('*.mcap'), *bag_path.glob('*.db3')]
    damaged, before = file.read_bytes(), messages(bag_path)
    assert bag.main(['reindex', str(bag_path)]) == 0
    assert messages(bag_path) == before
    assert read(bag_path)[1].summary.problems == []
    assert file.with_name(f'{file.name}.damaged').read_bytes() == damaged
    with Reader(bag_path) as reader:
        assert [data for _, _, data in reader.messages()] == [message.data for message in before]


def test_a_damaged_database_is_read_before_and_behind_the_damage(tmp_path: Path) -> None:
    make_bag(tmp_path / 'bag', episodes=10, storage='sqlite3')
    file = tmp_path / 'bag' / 'bag_0.db3'
    content = bytearray(file.read_bytes())
    half = len(content) // 2
    content[half:half + 40_000] = bytes(40_000)
    file.write_bytes(content)
    episodes, reader = read(tmp_path / 'bag')
    assert {episode.seed for episode in episodes} >= {5_000_000, 5_000_001, 5_000_008, 5_000_009}
    assert sum(bool(episode.gaps) for episode in episodes) < 4
    assert all('damaged behind message' in problem for problem in reader.summary.problems)
    assert reader.summary.problems
    mended_without_loss(tmp_path / 'bag')


@pytest.mark.parametrize('episodes', [2, 20])     # a database whose tree has one storey, and two
def test_a_database_without_its_end_is_read_as_far_as_it_goes(tmp_path: Path, episodes: int) -> None:
    file = make_bag(tmp_path / 'bag', episodes=episodes, storage='sqlite3') / 'bag_0.db3'
    count = len(messages(tmp_path / 'bag'))
    content = file.read_bytes()
    file.write_bytes(content[:len(content) * 3 // 5])
    assert 0.4 * count < len(messages(tmp_path / 'bag')) < 0.7 * count
    episode = read(tmp_path / 'bag')[0][0]
    assert_same(episode.transitions, driven('left_turn', 'gap:3', 1, 5)[0])
    mended_without_loss(tmp_path / 'bag')
    [topic] = [each for each in yaml.safe_load((tmp_path / 'bag' / 'metadata.yaml').read_text())[
        'rosbag2_bagfile_information']['topics_with_message_count'] if each['topic_metadata']['name'] == EGO]
    assert topic['topic_metadata']['type_description_hash'].startswith('RIHS01_')
    assert topic['topic_metadata']['offered_qos_profiles'][0]['depth'] == DEPTH


def test_a_row_that_is_no_message_is_passed_over(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', storage='sqlite3') / 'bag_0.db3'
    whole = messages(tmp_path / 'bag')
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute('UPDATE messages SET topic_id = 99 WHERE id = 5')
    assert read(tmp_path / 'bag')[1].summary.problems == [
        f'{file}: damaged behind message 4 (a row that is no message); what follows is read as far as it can be']
    assert messages(tmp_path / 'bag') == whole[:4] + whole[5:]


def test_a_database_in_which_nothing_is_found_is_named_and_left_alone(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = make_bag(tmp_path / 'bag', storage='sqlite3') / 'bag_0.db3'
    content = file.read_bytes()[:8 * 4096]     # the tables' roots, without what they point to
    file.write_bytes(content)
    for command, code in (('inspect', 1), ('reindex', 2)):
        assert bag.main([command, str(tmp_path / 'bag')]) == code
        said = capsys.readouterr()
        assert 'SQLite finds no message in it; the tool sqlite3 may save some (.recover)' in said.out + said.err
    assert [each.name for each in (tmp_path / 'bag').glob('*.db3*')] == ['bag_0.db3']
    assert file.read_bytes() == content


def test_a_file_that_is_finished_but_damaged_is_mended(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=20) / 'bag_0.mcap'
    content = bytearray(file.read_bytes())
    half = len(content) // 2
    content[half:half + 2000] = bytes(2000)
    file.write_bytes(content)
    mended_without_loss(tmp_path / 'bag')
    file.write_bytes(content)     # damaged again: the one that is kept is not written over
    reindex(tmp_path / 'bag')
    assert {each.name for each in (tmp_path / 'bag').glob('*.damaged*')} == {
        'bag_0.mcap.damaged', 'bag_0.mcap.damaged1'}


def test_damaged_indexes_are_made_anew(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=8) / 'bag_0.mcap'
    whole = messages(tmp_path / 'bag')
    with file.open('rb') as stream:
        index = make_reader(stream).get_summary().chunk_indexes[1]
    content = bytearray(file.read_bytes())
    place = min(index.message_index_offsets.values()) + 15     # into its list
    content[place:place + 64] = bytes(64)
    file.write_bytes(content)
    assert reindex(tmp_path / 'bag')[0] == f'{file}: written anew'
    assert messages(tmp_path / 'bag') == whole
    base = make_bag(tmp_path / 'base', storage='sqlite3') / 'base_0.db3'
    whole = messages(tmp_path / 'base')
    with contextlib.closing(sqlite3.connect(base)) as database:
        [[root]] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'timestamp_idx'")
    content = bytearray(base.read_bytes())
    content[(root - 1) * 4096:root * 4096] = bytes(4096)
    base.write_bytes(content)
    assert reindex(tmp_path / 'base')[0] == f'{base}: written anew'
    with Reader(tmp_path / 'base') as reader:
        assert len(list(reader.messages())) == len(whole)


def test_a_database_that_is_written_to_is_left_alone(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', storage='sqlite3') / 'bag_0.db3'
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as recorder:
        recorder.execute('BEGIN EXCLUSIVE')
        with pytest.raises(BagError, match='its recorder is still at work'):
            reindex(tmp_path / 'bag')
    assert reindex(tmp_path / 'bag')[0].startswith(f'{tmp_path / "bag" / "metadata.yaml"}: written anew')


def test_mending_keeps_what_lies_behind_damage_and_the_file_as_it_was(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=20) / 'bag_0.mcap'
    content = bytearray(file.read_bytes())
    content[len(content) // 4] ^= 0xff
    file.write_bytes(content[:len(content) * 9 // 10])     # damaged, and without its end
    before = read(tmp_path / 'bag')[1].summary
    done = reindex(tmp_path / 'bag')
    assert 'damaged at offset' in done[0]
    assert done[1].endswith('mended; as it was: bag_0.mcap.damaged')
    after = read(tmp_path / 'bag')[1].summary
    assert (after.unfinished, after.problems) == (0, [])
    assert after.episodes == before.episodes
    assert (tmp_path / 'bag' / 'bag_0.mcap.damaged').stat().st_size == len(content) * 9 // 10


def test_a_damaged_summary_is_made_anew(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag') / 'bag_0.mcap'
    content = bytearray(file.read_bytes())
    content[-28:-8] = bytes(20)     # the footer
    file.write_bytes(content)
    reindex(tmp_path / 'bag')
    assert len(read(tmp_path / 'bag')[0]) == 3
    with Reader(tmp_path / 'bag') as reader:
        assert reader.message_count == len(messages(tmp_path / 'bag'))


def test_what_is_no_bag_is_not_mended(tmp_path: Path) -> None:
    (tmp_path / 'bag').mkdir()
    (tmp_path / 'bag' / 'bag_0.mcap').write_bytes(b'somebody needs this')
    with pytest.raises(BagError, match='not an mcap file'):
        reindex(tmp_path / 'bag')
    assert [(file.name, file.read_bytes()) for file in (tmp_path / 'bag').iterdir()] == [
        ('bag_0.mcap', b'somebody needs this')]
    (tmp_path / 'base').mkdir()
    (tmp_path / 'base' / 'base_0.db3').write_bytes(b'somebody needs this')
    with pytest.raises(BagError, match='it is left as it is'):
        reindex(tmp_path / 'base')
    with pytest.raises(BagError, match='no directory'):
        reindex(tmp_path / 'bag' / 'bag_0.mcap')


def test_metadata_is_not_needed_and_mended(tmp_path: Path) -> None:
    metadata = make_bag(tmp_path / 'bag') / 'metadata.yaml'
    content = metadata.read_bytes()
    metadata.write_bytes(b'\xff\xfe: [' + content[:100])
    episodes, reader = read(tmp_path / 'bag')
    assert (len(episodes), reader.summary.problems) == (3, [])
    reindex(tmp_path / 'bag')
    assert metadata.read_bytes() == content
