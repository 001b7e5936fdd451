"""Scenes and settings: what they hold, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from sim_node.batch import Batch
from sim_node.geometry import build_geometry
from sim_node.observation import EGO_ENTERS, EGO_LEAVES, LANE_JOINED
from sim_node.scenario import load_scenario, scenario_names
from sim_node.settings import SettingsError

SCENES = Path(__file__).resolve().parent.parent / 'sim_node' / 'scenes'


def test_the_papers_rows_are_presets() -> None:
    assert scenario_names() == ['left_turn', 'merge']
    assert list(load_scenario('left_turn').rows) == [
        'train', '+5/5%', '+10/5%', '+15/5%', '+0/2%', '+0/8%', '+10/8%']
    assert list(load_scenario('merge').rows) == [
        'train', '+5/1%', '+10/1%', '+15/1%', '+0/2%', '+0/3%', '+10/3%', 'paper_floor']


@pytest.mark.parametrize('name', ['left_turn', 'merge'])
def test_a_rows_name_says_what_it_changes(name: str) -> None:
    train = load_scenario(name)
    for row in list(train.rows)[1:7]:
        faster, rate = row.split('/')
        shifted = load_scenario(name, row)
        assert shifted.traffic.speed == (train.traffic.speed[0], train.traffic.speed[1] + int(faster))
        assert shifted.traffic.spawn_rate == pytest.approx(int(rate[:-1]) / 100)
        assert shifted.traffic.spawned == train.traffic.spawned + 4


def test_the_geometry_finds_where_the_routes_meet() -> None:
    left_turn, merge = build_geometry(load_scenario('left_turn')), build_geometry(load_scenario('merge'))
    inner, outer = left_turn.lanes
    assert left_turn.stop_line < inner[EGO_ENTERS] < outer[EGO_ENTERS] < inner[EGO_LEAVES] < outer[EGO_LEAVES] < 122.0
    assert merge.lanes[0, LANE_JOINED] == 1.0
    assert merge.lanes[1, LANE_JOINED] == 0.0


def test_ego_can_always_stop_before_the_stop_line() -> None:
    for name in scenario_names():
        batch = Batch(load_scenario(name), 500, auto_reset=False)
        batch.reset(np.arange(500))
        for _ in range(100):
            batch.step(np.full(500, -3.6))
        assert (batch.scenes['speed'] == 0.0).all()
        assert (batch.scenes['s'] - 1.35 < build_geometry(load_scenario(name)).conflict_enter).all()


def test_a_third_scene_is_a_new_file(tmp_path: Path) -> None:
    scene = yaml.safe_load((SCENES / 'left_turn.yaml').read_text())
    scene.update(name='right_hand_crossing', title='Crossing', rows={'train': {}})
    scene['ego']['path'] = {'start': [60.0, 5.0, 180.0], 'pieces': [{'straight': 120.0}]}
    scene['ego']['goal'] = 80.0
    file = tmp_path / 'crossing.yaml'
    file.write_text(yaml.safe_dump(scene))
    batch = Batch(load_scenario(str(file)), 16)
    batch.reset(np.arange(16))
    outcomes = set()
    for _ in range(100):
        result = batch.step(np.full(16, 2.0), repeat=4)
        outcomes |= set(result.outcome[result.done].tolist())
    assert {1, 2} <= outcomes


@pytest.mark.parametrize(('arguments', 'message'), [
    (('roundabout',), "scenario 'roundabout' is unknown; choose one of left_turn, merge"),
    (('left_turn', '+0/3%'), "row '\\+0/3%': left_turn has no such row; choose one of train, "),
    (('left_turn', 'train', {'traffic.spwan_rate': 0.1}), "left_turn.traffic: unknown setting 'spwan_rate'; choose"),
    (('left_turn', 'train', {'trafic.speed': 0.1}), "left_turn: unknown setting 'trafic'; choose one of name, title"),
    (('left_turn', 'train', {'traffic.spawn_rate': -0.1}), 'spawn_rate: expected a probability per step in'),
    (('left_turn', 'train', {'traffic.spawn_rate': 'often'}), 'spawn_rate: expected a finite number'),
    (('left_turn', 'train', {'traffic.spawn_rate': float('nan')}), 'spawn_rate: expected a finite number'),
    (('left_turn', 'train', {'traffic.speed': [20.0, 10.0]}), 'traffic.speed: expected 0 <= low <= high'),
    (('left_turn', 'train', {'traffic.speed': [20.0]}), 'traffic.speed: expected 2 values, got 1'),
    (('left_turn', 'train', {'traffic.speed': 20.0}), 'traffic.speed: expected a list'),
    (('left_turn', 'train', {'traffic.platoon': 2.5}), 'platoon: expected int'),
    (('left_turn', 'train', {'traffic.platoon': -2}), 'numbers of vehicles cannot be negative'),
    (('left_turn', 'train', {'temper.mix': [0.5, 0.2, 0.2]}), 'three shares that add up to 1'),
    (('left_turn', 'train', {'layout.vehicles': 0}), 'at least one vehicle must be observed'),
    (('left_turn', 'train', {'layout.version': 9}), 'this software speaks observation layout 1'),
    (('left_turn', 'train', {'max_steps.x': 9}), "'max_steps' holds no further settings"),
    (('/nowhere/scene.yaml',), 'No such file'),
])
def test_what_cannot_be_is_refused_by_name(arguments: tuple, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_scenario(*arguments)


@pytest.mark.parametrize(('edit', 'message'), [
    ({'colour': 'red'}, "unknown setting 'colour'"),
    ({'reward': None}, 'expected settings'),
    ({'roads': []}, 'a scene needs a lane'),
])
def test_a_broken_scene_file_is_refused(tmp_path: Path, edit: dict, message: str) -> None:
    scene = yaml.safe_load((SCENES / 'merge.yaml').read_text())
    file = tmp_path / 'scene.yaml'
    file.write_text(yaml.safe_dump({**scene, **edit}))
    with pytest.raises(SettingsError, match=message):
        load_scenario(str(file))
    del scene['title']
    file = tmp_path / 'untitled.yaml'
    file.write_text(yaml.safe_dump(scene))
    with pytest.raises(SettingsError, match="setting 'title' is missing"):
        load_scenario(str(file))
    file = tmp_path / 'torn.yaml'
    file.write_text('a: [1')
    with pytest.raises(SettingsError, match='not YAML'):
        load_scenario(str(file))
