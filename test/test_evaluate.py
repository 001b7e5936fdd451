"""The `evaluate` command and the controllers it takes by name."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim_node.geometry import build_geometry
from sim_node.roads import locate, new_way
from sim_node.rules import GAP, PREDICT, rule
from sim_node.scenario import load_scenario
from sim_node.settings import SettingsError
from sim_node.state import constants
from wcpg_ros import evaluate
from wcpg_ros.controllers import prepare
from wcpg_ros.episodes import drive
from wcpg_ros.json_text import json_text

ARGUMENTS = ['--scenario', 'left_turn', '--controller', 'gap:3.0', '--row', 'train', '--episodes', '300', '--seed', '7']


def test_one_json_object_and_the_same_one_twice() -> None:
    command = [sys.executable, '-m', 'wcpg_ros.evaluate', *ARGUMENTS, '--json']
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second
    result = json.loads(first)
    assert {'n', 'collisions', 'successes', 'timeouts', 'mean_steps', 'mean_return'} <= set(result)
    assert result['n'] == 300 == result['collisions'] + result['successes'] + result['timeouts']


def test_an_episode_is_the_same_whatever_is_driven_beside_it() -> None:
    scenario, controller = prepare('merge', 'train', 'predict:0.5')
    many = drive(scenario, controller, 200, seed=3)
    few = drive(scenario, controller, 7, seed=3)
    assert np.array_equal(many[:7], few)
    assert many['seed'].tolist() == list(range(3_000_000, 3_000_200))


def test_without_a_success_there_are_no_mean_steps(capsys: pytest.CaptureFixture) -> None:
    assert evaluate.main(['--scenario', 'merge', '--controller', 'brake', '--episodes', '5', '--json']) == 0
    result = json.loads(capsys.readouterr().out)
    assert result['timeouts'] == 5
    assert result['mean_steps'] is None
    assert evaluate.main(['--scenario', 'merge', '--controller', 'brake', '--episodes', '5']) == 0


def test_settings_with_several_numbers_can_be_changed(capsys: pytest.CaptureFixture) -> None:
    arguments = ['--scenario', 'merge', '--controller', 'brake', '--episodes', '5', '--json']
    for backend in ('serial', 'processes'):
        assert evaluate.main([*arguments, '--backend', backend, '--set', 'traffic.speed=[5, 25]']) == 0
        assert json.loads(capsys.readouterr().out)['timeouts'] == 5


def test_json_has_null_for_what_is_no_number() -> None:
    text = json_text({'a': float('nan'), 'b': [1.5, float('-inf'), 'NaN'], 'c': {'d': None, 'e': True}})
    assert text == '{"a": null, "b": [1.5, null, "NaN"], "c": {"d": null, "e": true}}'


def test_rows_are_kept_as_csv(tmp_path: Path) -> None:
    file = tmp_path / 'deep' / 'rows.csv'
    assert evaluate.main([*ARGUMENTS, '--rows', str(file)]) == 0
    lines = file.read_text().splitlines()
    assert lines[0] == 'episode,seed,outcome,steps,return,hit'
    assert len(lines) == 301
    assert lines[1].split(',')[1:3] == ['7000000', 'success']


@pytest.mark.parametrize(('arguments', 'message'), [
    (['--scenario', 'left', '--controller', 'brake'], "scenario 'left' is unknown; choose one of left_turn, merge"),
    (['--scenario', 'merge', '--controller', 'brake', '--row', '+5/5%'], "row '+5/5%': merge has no such row"),
    (['--scenario', 'merge', '--controller', 'magic'], "controller 'magic' is unknown; choose constant:A, brake"),
    (['--scenario', 'merge', '--controller', 'brake:3'], "controller 'brake:3': brake takes no number"),
    (['--scenario', 'merge', '--controller', 'gap:soon'], "controller 'gap:soon': expected a finite number"),
    (['--scenario', 'merge', '--controller', 'gap:nan'], "controller 'gap:nan': expected a finite number"),
    (['--scenario', 'merge', '--controller', 'constant:9'], 'no vehicle exceeds ±4 m/s²'),
    (['--scenario', 'merge', '--controller', 'gap:3', '--alpha', '0.1'], 'has no dial, only model files do'),
    (['--scenario', 'merge', '--controller', 'gone.safetensors'], 'gone.safetensors'),
    (['--scenario', 'merge', '--controller', 'brake', '--episodes', '0'], 'episodes: expected at least 1'),
    (['--scenario', 'merge', '--controller', 'brake', '--seed', '-1'], 'seed: expected a whole number from 0'),
    (['--scenario', 'merge', '--controller', 'brake', '--set', 'traffic.speed'], 'expected NAME=VALUE'),
    (['--scenario', 'merge', '--controller', 'brake', '--set', 'traffic.sped=3'], "unknown setting 'sped'"),
    (['--scenario', 'merge', '--controller', 'brake', '--set', 'traffic.speed=[1'],
     '--set traffic.speed: cannot be read as YAML'),
    (['--scenario', 'merge', '--controller', 'brake', '--set', 'row=+5/1%'], 'merge.row: says which scene this is'),
    (['--scenario', 'merge', '--controller', 'brake', '--rows', '/proc/no/rows.csv'], '/proc/no'),
])
@pytest.mark.usefixtures('kernels')     # else compiling them may say a line of its own
def test_bad_input_gets_one_line_that_names_it(arguments: list[str], message: str,
                                               capsys: pytest.CaptureFixture) -> None:
    if '--episodes' not in arguments:
        arguments = [*arguments, '--episodes', '2']
    assert evaluate.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1


def world(name: str):
    scenario = load_scenario(name)
    geometry = build_geometry(scenario)
    record = constants(scenario, geometry).view(np.recarray)[0]
    return record, geometry.segments, geometry.lanes, geometry.view


@pytest.mark.parametrize('kind', [GAP, PREDICT])
def test_a_rule_waits_at_the_line_for_a_near_vehicle_and_goes_on_an_empty_road(kind: int) -> None:
    tables = world('left_turn')
    p, segments, _, _ = tables
    ego = np.array([*locate(segments, 0, int(p.ego_last), p.stop_line, 0.0), 0.0])
    near = np.array([[-1.75, 20.0, -np.pi / 2, 15.0]])
    assert rule(*tables, ego, near, 0, kind, 2.0, new_way()) == 4.0
    assert rule(*tables, ego, near, 1, kind, 2.0, new_way()) < 0.01
    assert rule(*tables, ego, np.array([[-1.75, 140.0, -np.pi / 2, 10.0]]), 1, kind, 2.0, new_way()) == 4.0


def test_a_rule_follows_whom_it_has_joined() -> None:
    tables = world('merge')
    ego = np.array([15.0, -1.75, 0.0, 15.0])
    close, far = np.array([[26.0, -1.75, 0.0, 8.0]]), np.array([[44.0, -1.75, 0.0, 20.0]])
    assert rule(*tables, ego, close, 1, GAP, 2.0, new_way()) < -2.0
    assert rule(*tables, ego, far, 1, GAP, 2.0, new_way()) > 0.0


def test_a_rule_of_the_wrong_scene_is_still_a_clear_error() -> None:
    with pytest.raises(SettingsError, match='has no such row'):
        prepare('left_turn', 'paper_floor', 'brake')
