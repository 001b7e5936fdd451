"""Drives come back from a bag as the simulator had them, and others read the same in it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, driven, make_bag, messages, read, stamped, write_bag
from mcap.reader import make_reader
from random_models import random_model
from rosbags.rosbag2 import Reader

from wcpg_ros import bag
from wcpg_ros.bag_messages import header_stamp
from wcpg_ros.bag_repair import reindex
from wcpg_ros.bag_rules import BagError, Rules
from wcpg_ros.bag_storage import RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, RISK, TYPES, VEHICLES
from wcpg_ros.conversions import risk_message
from wcpg_ros.policy import Risk
from wcpg_ros.record import main as record_main

GAP = ('left_turn', 'gap:3', 3, 5)


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes of the gap rule."""
    return make_bag(tmp_path_factory.mktemp('bags') / 'whole')


# Round trip


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
@pytest.mark.parametrize(('scenario', 'controller'), [
    ('left_turn', 'gap:1'), ('merge', 'gap:2'), ('merge', 'constant:4'), ('left_turn', 'brake')])
def test_what_was_driven_is_what_is_read(tmp_path: Path, scenario: str, controller: str, storage: str) -> None:
    make_bag(tmp_path / 'bag', scenario, controller, 6, 11, storage=storage)
    episodes, reader = read(tmp_path / 'bag')
    assert (reader.summary.oddities(), reader.summary.problems) == ({}, [])
    for episode, expected in zip(episodes, driven(scenario, controller, 6, 11), strict=True):
        assert_same(episode.transitions, expected)
        assert episode.scenario == scenario
        assert not episode.transitions.truncated.any()
    assert [episode.seed for episode in episodes] == [11_000_000 + i for i in range(6)]


def test_a_model_brings_its_alphas(tmp_path: Path) -> None:
    model = tmp_path / 'model.safetensors'
    random_model(3, scenario='merge', observation_size=17, time_feature=True).save(model)
    make_bag(tmp_path / 'bag', 'merge', str(model), 3, 2, alpha=0.3)
    episodes, _ = read(tmp_path / 'bag', changes={'layout.time': True})
    for episode, expected in zip(episodes, driven('merge', str(model), 3, 2, 0.3), strict=True):
        assert_same(episode.transitions, expected)
        assert (episode.transitions.alpha == np.float32(0.3)).all()


def test_alphas_are_found_beside_stamps_of_the_wall_clock(tmp_path: Path) -> None:
    shift = 1_700_000_000_000_000_000     # seconds there are no finer than 0.2 µs
    model = tmp_path / 'model.safetensors'
    random_model(3).save(model)
    everything = messages(make_bag(tmp_path / 'bag', controller=str(model), episodes=1, alpha=0.4))
    shifted = []
    for message in everything:
        if message.topic == RISK:
            data = risk_message(message.log_time + shift, 0.4, Risk(0.0, 1.0, 0.0))
        elif message.topic in (EGO, VEHICLES, COMMAND):
            data = stamped(message, header_stamp(message.data) + shift).data
        else:
            continue
        shifted.append(RawMessage(message.log_time + shift, message.topic, data))
    write_bag(tmp_path / 'later', shifted)
    [episode], _ = read(tmp_path / 'later', scenario='left_turn', rules=Rules((4.6, 1.9)))
    assert len(episode.transitions) > 5
    assert (episode.transitions.alpha == np.float32(0.4)).all()


def test_random_alphas_differ_by_episode_and_come_again(tmp_path: Path) -> None:
    model = tmp_path / 'model.safetensors'
    random_model(3).save(model)
    for name in ('a', 'b'):
        assert record_main(['--scenario', 'left_turn', '--controller', str(model), '--alpha', 'random',
                            '--episodes', '4', '--out', str(tmp_path / name)]) == 0
    first, second = (read(tmp_path / name)[0] for name in ('a', 'b'))
    alphas = [episode.transitions.alpha[0] for episode in first]
    assert len(set(alphas)) == 4
    assert [episode.transitions.alpha[0] for episode in second] == alphas
    assert messages(tmp_path / 'a') == messages(tmp_path / 'b')


# What others say of the same bag


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_the_ecosystem_lists_the_same(tmp_path: Path, storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    make_bag(tmp_path / 'bag', storage=storage)
    assert bag.main(['inspect', str(tmp_path / 'bag'), '--json']) == 0
    ours = {name: (topic['type'], topic['count'])
            for name, topic in json.loads(capsys.readouterr().out)['topics'].items()}
    with Reader(tmp_path / 'bag') as reader:
        assert {c.topic: (c.msgtype, c.msgcount) for c in reader.connections} == ours
    if storage == 'mcap':
        with (tmp_path / 'bag' / 'bag_0.mcap').open('rb') as stream:
            summary = make_reader(stream).get_summary()
        assert {c.topic: (summary.schemas[c.schema_id].name, summary.statistics.channel_message_counts[c.id])
                for c in summary.channels.values()} == ours
    assert set(ours) == set(TYPES) - {RISK}


# Bags of many files


def test_a_split_bag_and_a_directory_of_many(whole: Path, tmp_path: Path) -> None:
    everything = messages(whole)
    middle = len(everything) // 2
    for index, part in enumerate((everything[:middle], everything[middle:])):
        write_bag(tmp_path / 'split' / f'part{index}', part)
    files = sorted((tmp_path / 'split').rglob('*.mcap'))
    (tmp_path / 'one').mkdir()
    for index, file in enumerate(files):
        file.rename(tmp_path / 'one' / f'one_{(2, 10)[index]}.mcap')     # 2 comes before 10
    episodes, reader = read(tmp_path / 'one')
    assert (reader.summary.bags, reader.summary.files) == (1, 2)
    for episode, expected in zip(episodes, driven(*GAP), strict=True):
        assert_same(episode.transitions, expected)
    make_bag(tmp_path / 'many' / 'a', seed=5)
    make_bag(tmp_path / 'many' / '50% #1?' / 'b', seed=6, storage='sqlite3')     # no name is too odd
    (tmp_path / 'many' / 'back').symlink_to(tmp_path / 'many')
    episodes, reader = read(tmp_path / 'many')
    assert (reader.summary.bags, len(episodes)) == (2, 6)


def test_a_split_bag_without_one_of_its_files_is_named(whole: Path, tmp_path: Path) -> None:
    everything, bag_path = messages(whole), tmp_path / 'bag'
    bag_path.mkdir()
    for index in range(3):
        third = everything[index * len(everything) // 3:(index + 1) * len(everything) // 3]
        (write_bag(tmp_path / f'part{index}', third) / f'part{index}_0.mcap').rename(bag_path / f'bag_{index}.mcap')
    assert len(reindex(bag_path)) == 1
    assert read(bag_path)[1].summary.problems == []
    (bag_path / 'bag_1.mcap').unlink()
    missing = f'{bag_path / "bag_1.mcap"}: missing, although metadata.yaml names it; the rest is read'
    assert read(bag_path)[1].summary.problems == [missing]
    assert read(bag_path / 'bag_0.mcap')[1].summary.problems == []     # the others are not asked for
    assert bag.main(['inspect', str(bag_path)]) == 1
    assert reindex(bag_path)[0] == f'{bag_path / "bag_1.mcap"}: missing; metadata.yaml names it no longer'
    assert read(bag_path)[1].summary.problems == []


def test_places_without_a_bag_are_named(tmp_path: Path) -> None:
    with pytest.raises(BagError, match='does not exist'):
        read(tmp_path / 'nothing')
    with pytest.raises(BagError, match=r'no bag in it, no \.mcap and no \.db3 file'):
        read(tmp_path)
    (tmp_path / 'x.txt').write_text('')
    with pytest.raises(BagError, match=r'neither \.mcap nor \.db3'):
        read(tmp_path / 'x.txt')
