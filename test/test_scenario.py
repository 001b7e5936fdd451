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
        scenario = load_scenario(name)
        batch = Batch(scenario, 500, auto_reset=False)
        batch.reset(np.arange(500))
        for _ in range(100):
            batch.step(np.full(500, -scenario.ego.start_braking))
        assert (batch.scenes['speed'] == 0.0).all()
        assert (batch.scenes['s'] - 1.35 < build_geometry(scenario).conflict_enter).all()


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


def test_a_scene_file_may_end_in_yml_and_is_read_anew_when_edited(tmp_path: Path) -> None:
    text = (SCENES / 'merge.yaml').read_text()
    file = tmp_path / 'mine.yml'
    file.write_text(text)
    assert load_scenario(str(file)).title == 'Highway merge'
    file.write_text(text.replace('Highway merge', 'My own merge'))
    assert load_scenario(file).title == 'My own merge'


@pytest.mark.parametrize(('arguments', 'message'), [
    (('roundabout',), "scenario 'roundabout' is unknown; choose one of left_turn, merge"),
    (('left_turn', '+0/3%'), "row '\\+0/3%': left_turn has no such row; choose one of train, "),
    (('/nowhere/scene.yaml',), 'No such file'),
])
def test_an_unknown_scene_or_row_is_refused_by_name(arguments: tuple, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_scenario(*arguments)


STRAIGHT = {'straight': 100.0}
BEND = {'turn': 90.0, 'radius': 12.0}


def route(*pieces: dict, start: tuple = (1.75, -110.0, 90.0)) -> dict:
    return {'start': start, 'pieces': list(pieces)}


def road(*lanes: float, path: dict | None = None, **settings: float) -> list[dict]:
    return [{'path': path or route(STRAIGHT), 'lanes': lanes, **settings}]


@pytest.mark.parametrize(('setting', 'value', 'message'), [
    ('traffic.spwan_rate', 0.1, "left_turn.traffic: unknown setting 'spwan_rate'; choose"),
    ('trafic.speed', 0.1, "left_turn: unknown setting 'trafic'; choose one of name, title"),
    ('max_steps.x', 9, "'max_steps' holds no further settings"),
    (7, 9, 'left_turn: expected the name of a setting, got 7'),
    ('name', 'merge', 'left_turn.name: says which scene this is'),
    ('row', '+5/5%', 'left_turn.row: says which scene this is'),
    ('rows', {}, 'left_turn.rows: says which scene this is'),
    ('max_steps', 0, r'left_turn.max_steps: expected within \[1, 100000\], got 0'),
    ('action_repeat', 0, r'left_turn.action_repeat: expected within \[1, 1000\], got 0'),
    ('action_repeat', 1.0, 'left_turn.action_repeat: expected int, got 1.0'),
    ('layout.vehicles', 0, r'left_turn.layout.vehicles: expected within \[1, 100\], got 0'),
    ('layout.version', 9, 'left_turn.layout.version: this software speaks observation layouts'),
    ('traffic.spawn_rate', -0.1, r'left_turn.traffic.spawn_rate: expected within \[0, 1\), got -0.1'),
    ('traffic.spawn_rate', 'often', 'traffic.spawn_rate: expected a finite number'),
    ('traffic.spawn_rate', float('nan'), 'traffic.spawn_rate: expected a finite number'),
    ('traffic.spawn_rate', 10 ** 400, 'traffic.spawn_rate: expected a finite number'),
    ('traffic.speed', [20.0, 10.0], r'traffic.speed: expected \[low, high\], got \[20.0, 10.0\]'),
    ('traffic.speed', [20.0], 'traffic.speed: expected 2 values, got 1'),
    ('traffic.speed', 20.0, 'traffic.speed: expected a list'),
    ('traffic.speed', [0.0, 10.0], r'traffic.speed: expected within \[0.1, 60\]'),
    ('traffic.speed', [10.0, 1e6], r'traffic.speed: expected within \[0.1, 60\]'),
    ('traffic.platoon', 2.5, 'traffic.platoon: expected int'),
    ('traffic.platoon', -2, r'traffic.platoon: expected within \[0, 100\], got -2'),
    ('traffic.platoon', 10 ** 9, r'traffic.platoon: expected within \[0, 100\], got 1000000000'),
    ('traffic.last_birth', -1.0, 'traffic.last_birth: expected within'),
    ('traffic.arrival_gap', [-1.0, 4.0], 'traffic.arrival_gap: expected within'),
    ('traffic.platoon_lanes', [0.9, 0.2], 'traffic.platoon_lanes: expected shares that add up to 1'),
    ('traffic.platoon_lanes', [1.5, -0.5], r'traffic.platoon_lanes: expected within \[0, 1\], got 1.5'),
    ('traffic.platoon_lanes', [1.0], 'traffic.platoon_lanes: expected 2 shares'),
    ('temper.mix', [0.5, 0.2, 0.2], 'temper.mix: expected shares that add up to 1'),
    ('temper.notice', -1.0, 'temper.notice: expected within'),
    ('temper.boost', [4.0, 3.0], r'temper.boost: expected \[low, high\]'),
    ('driver.headway', -0.1, 'driver.headway: expected within'),
    ('driver.lane_change_time', 0.0, 'driver.lane_change_time: expected within'),
    ('vehicle.length', 0.0, 'vehicle.length: expected within'),
    ('vehicle.front_axle', -1.0, 'vehicle.front_axle: expected within'),
    ('vehicle.acceleration_limit', 0.0, 'vehicle.acceleration_limit: expected within'),
    ('vehicle.stanley_gain', -1.0, 'vehicle.stanley_gain: expected within'),
    ('vehicle.width', 3.6, 'vehicle.width: expected less than the narrowest lane, 3.5 m, got 3.6'),
    ('reward.decay', 0.0, 'reward.decay: expected within'),
    ('reward.success', 1e300, 'reward.success: expected within'),
    ('ego.start_braking', 0.0, 'ego.start_braking: expected within'),
    ('ego.start_braking', 0.1, 'ego.start_braking: expected a start at most 2000 m before the stop line, got 2006 m'),
    ('ego.stop_margin', -1.0, 'ego.stop_margin: expected within'),
    ('ego.cornering', 0.0, 'ego.cornering: expected within'),
    ('ego.sight', 0.0, 'ego.sight: expected within'),
    ('ego.speed_max', 0.0, 'ego.speed_max: expected within'),
    ('ego.speed_max', 15.0, 'ego.start_speed: expected within speed_min and speed_max'),
    ('ego.speed_min', 25.0, 'ego.start_speed: expected within speed_min and speed_max'),
    ('ego.goal', 60.0, 'ego.goal: expected behind the conflict zone and on the route'),
    ('ego.goal', 1500.0, 'ego.goal: expected behind the conflict zone and on the route'),
    ('ego.path', route(), 'ego.path.pieces: expected a path of up to 2000 m, got 0 m'),
    ('ego.path', route(STRAIGHT, {'turn': 90.0}), r'ego.path.pieces\[1\].straight: expected either straight or turn'),
    ('ego.path', route({**STRAIGHT, **BEND}), r'ego.path.pieces\[0\].straight: expected either straight or turn'),
    ('ego.path', route({'turn': 90.0, 'radius': -5.0}), r'ego.path.pieces\[0\].radius: expected within'),
    ('ego.path', route({'turn': 90.0, 'radius': 1e-9}), 'expected either straight or turn and radius, of at least'),
    ('ego.path', route({'straight': -5.0}), r'ego.path.pieces\[0\].straight: expected within'),
    ('ego.path', route(*[{'straight': 1500.0}] * 2), 'ego.path.pieces: expected a path of up to 2000 m, got 3000 m'),
    ('ego.path', route(STRAIGHT, start=(500.0, 0.0, 0.0)), "ego.path: ego's route meets no lane of the others"),
    ('ego.path', route(BEND, STRAIGHT, start=(0.0, 2.0, 90.0)), 'ego.stop_margin: the stop line must lie on the'),
    ('roads', [], 'left_turn.roads: expected 1 to 16 lanes of others, got 0'),
    ('roads', road(), r'left_turn.roads\[0\].lanes: expected at least one'),
    ('roads', road(1.0, 1.0), r'roads\[0\].lanes: expected at least lane_width, 3.5 m, from one to the next'),
    ('roads', road(0.0, lane_width=0.0), r'roads\[0\].lane_width: expected within'),
    ('roads', road(13.0, path=route(BEND)), 'lanes: expected all nearer to the path than its tightest bend'),
    ('roads', road(0.0, path=route(STRAIGHT, start=(-1.75, 2.0, -90.0))), 'others must be born before the conflict'),
    ('window', [0.0, 0.0, 0.0, 50.0], r'window: expected \[x_min, y_min, x_max, y_max\], at least 1 m wide and high'),
    ('window', [40.0, 65.0, -50.0, -55.0], r'window: expected \[x_min, y_min, x_max, y_max\], at least 1 m wide and'),
    ('window', [-1e9, -55.0, 40.0, 65.0], r'window: expected within \[-5000, 5000\], got -1000000000.0'),
    ('pavement', [[5.0, 0.0, 0.0, 9.0]], 'pavement: expected'),
])
def test_settings_that_make_no_sense_are_refused_by_name(setting, value, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_scenario('left_turn', changes={setting: value})


def test_numbers_may_be_numpys() -> None:
    scenario = load_scenario('merge', changes={
        'traffic.platoon': np.int64(3), 'traffic.spawn_rate': np.float32(0.25), 'layout.time': np.bool_(True),
        'traffic.speed': np.array([6.0, 9.0])})
    assert (scenario.traffic.platoon, scenario.traffic.spawn_rate, scenario.layout.time) == (3, 0.25, True)
    assert scenario.traffic.speed == (6.0, 9.0)
    assert [type(number) for number in scenario.traffic.speed] == [float, float]


@pytest.mark.parametrize(('edit', 'message'), [
    ({'colour': 'red'}, "unknown setting 'colour'"),
    ({'reward': None}, 'expected settings'),
    ({'roads': []}, 'roads: expected 1 to 16 lanes of others, got 0'),
    ({'rows': {'train': {}, 5: {}}}, 'rows: expected a name, got 5; put it in quotes'),
    ({'rows': {'train': {'row': 'x'}}}, 'merge.row: says which scene this is'),
])
def test_a_broken_scene_file_is_refused(tmp_path: Path, edit: dict, message: str) -> None:
    scene = yaml.safe_load((SCENES / 'merge.yaml').read_text())
    file = tmp_path / 'scene.yaml'
    file.write_text(yaml.safe_dump({**scene, **edit}))
    with pytest.raises(SettingsError, match=message):
        load_scenario(str(file))


@pytest.mark.parametrize(('content', 'message'), [
    (b'name: merge', "setting 'title' is missing"),
    (b'a: [1', 'cannot be read as YAML'),
    (b'a: 2020-13-45', 'cannot be read as YAML'),
    (b'[' * 5000, 'cannot be read as YAML'),
    (b'\xff\xfe\xfd', 'not a text'),
])
def test_a_torn_scene_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / 'torn.yaml'
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=message) as caught:
        load_scenario(str(file))
    assert str(file) in str(caught.value)
    assert '\n' not in str(caught.value)
