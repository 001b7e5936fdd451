"""A recorded launch holds every state and command from the first on, and reads back as it was driven."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, driven, make_bag, messages, read
from node_probe import Nodes
from rosbags.rosbag2 import Reader

from wcpg_ros.bag_messages import header_stamp
from wcpg_ros.bag_topics import COMMAND, EGO, MARKERS, RISK, TYPES, VEHICLES
from wcpg_ros.domain import Ros


@pytest.mark.parametrize(('scenario', 'seed', 'storage'), [('left_turn', 12, 'mcap'), ('merge', 11, 'sqlite3')])
def test_nodes_in_lockstep_recorded_and_read_back(
        nodes: Nodes, ros: Ros, tmp_path: Path, scenario: str, seed: int, storage: str) -> None:
    model, bag = nodes.model(seed, scenario=scenario), tmp_path / 'bag'
    launch = ros.ros2('launch', 'wcpg_ros', f'{scenario}.launch.py', 'lockstep:=true', 'speed_factor:=0',
                      'episodes:=4', 'seed:=5000000', 'alpha:=0.3', f'model:={model}', f'record:={bag}',
                      f'storage:={storage}')
    assert launch.ended(90) == 0, launch.text
    assert 'waiting for a recorder' in launch.text
    episodes, reader = read(bag)
    expected = driven(scenario, str(model), 4, 5, 0.3)
    for episode, drive in zip(episodes, expected, strict=True):
        assert_same(episode.transitions, drive)
        alphas = episode.transitions.alpha
        assert (alphas[~np.isnan(alphas)] == np.float32(0.3)).all()
    assert reader.summary.problems == []
    with Reader(bag) as theirs:
        assert {each.topic: (each.msgtype, each.msgcount) for each in theirs.connections} == {
            name: (topic.type, topic.count) for name, topic in reader.summary.topics.items()}
    steps = sum(sum(drive.rows['steps']) for drive in expected)
    stamps = {topic: {header_stamp(m.data) for m in messages(bag) if m.topic == topic}
              for topic in (EGO, VEHICLES, COMMAND)}
    assert stamps[EGO] == stamps[VEHICLES]
    assert len(stamps[EGO]) == steps + 4
    assert len(stamps[COMMAND]) >= steps
    # Recorded without nodes it is the same, byte by byte. The middleware fills up to a multiple of four bytes; the
    # policy answers an episode's last state too, and the road is shown again every second.
    make_bag(tmp_path / 'direct', scenario, str(model), 4, 5, 0.3)
    for topic in TYPES:
        by_nodes, direct = ({m.data + bytes(-len(m.data) % 4) for m in messages(path) if m.topic == topic}
                            for path in (bag, tmp_path / 'direct'))
        assert direct, topic
        if topic in (COMMAND, RISK, MARKERS):
            assert direct <= by_nodes, topic
        else:
            assert direct == by_nodes, topic


def test_lockstep_waits_for_a_recorder_that_stalls(nodes: Nodes, ros: Ros, tmp_path: Path) -> None:
    """Meanwhile the nodes could send more than their publishers keep."""
    model, bag = nodes.model(12, scenario='left_turn'), tmp_path / 'bag'
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', 'lockstep:=true', 'speed_factor:=0',
                      'episodes:=16', 'seed:=5000000', 'alpha:=0.3', f'model:={model}', f'record:={bag}')
    recorder = int(launch.wait_for(r'\[ros2-3\]: process started with pid \[(\d+)\]')[1])
    launch.wait_for('time runs', 60)
    os.kill(recorder, signal.SIGSTOP)
    time.sleep(4)
    os.kill(recorder, signal.SIGCONT)
    assert launch.ended(90) == 0, launch.text
    assert 'keep up' not in launch.text
    episodes, _ = read(bag)
    for episode, drive in zip(episodes, driven('left_turn', str(model), 16, 5, 0.3), strict=True):
        assert_same(episode.transitions, drive)


def test_a_recorder_that_cannot_record_ends_the_launch(nodes: Nodes, ros: Ros, tmp_path: Path) -> None:
    (tmp_path / 'bag').mkdir()
    launch = ros.ros2('launch', 'wcpg_ros', 'left_turn.launch.py', f'model:={nodes.model()}',
                      f'record:={tmp_path / "bag"}')
    assert launch.ended(60) == 1     # instead of waiting for ever
    assert 'already exists' in launch.text
    assert 'the recorder has died' in launch.text
