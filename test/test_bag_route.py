"""A scene, or a place of it, that is not the one a bag was driven in is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import changed, make_bag, read

from sim_node import cdr
from sim_node.poses import in_scene
from wcpg_ros import bag
from wcpg_ros.bag_messages import header_stamp
from wcpg_ros.bag_rules import Rules
from wcpg_ros.bag_storage import RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, MARKERS, VEHICLES
from wcpg_ros.conversions import read_odometry, read_vehicles
from wcpg_ros.train import main as train_main

ROOT = Path(__file__).parent.parent
POSE = (100.0, 50.0, 0.1)                                                # of the scene in another map
BACK = (*in_scene(np.zeros((1, 4)), POSE)[0, :2].tolist(), -POSE[2])     # of that map in the scene
OFF_ROUTE = "episodes off the scene's route (is --scenario or --scene-pose wrong?)"


def without_results(everything: list[RawMessage]) -> list[RawMessage]:
    """What another simulator would record."""
    return [message for message in everything if message.topic in (EGO, VEHICLES, COMMAND, MARKERS)]


def elsewhere(message: RawMessage) -> RawMessage:
    """The same state in a map in which the scene lies at POSE."""
    stamp = header_stamp(message.data) if message.topic in (EGO, VEHICLES) else 0
    if message.topic == EGO:
        state = in_scene(read_odometry(message.data).states(), BACK)[0]
        return message._replace(data=cdr.odometry(stamp, 'map', 'base_link', state))
    if message.topic == VEHICLES:
        reading = read_vehicles(message.data)
        return message._replace(data=cdr.vehicles(stamp, 'map', reading.names, in_scene(reading.states(), BACK)))
    return message


@pytest.fixture(scope='module')
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Left turns as we record them, as others do, and those moved."""
    folder = tmp_path_factory.mktemp('bags')
    make_bag(folder / 'ours')
    changed(folder / 'ours', folder / 'theirs', without_results)
    changed(folder / 'theirs', folder / 'moved', lambda everything: map(elsewhere, everything))
    return folder


def test_the_right_place_is_on_the_route(bags: Path) -> None:
    episodes, reader = read(bags / 'moved', scenario='left_turn', rules=Rules(scene_pose=POSE))
    assert reader.summary.oddities() == {'episodes whose end was worked out': 3}
    assert [len(each.transitions) for each in episodes] == [len(each.transitions) for each in read(bags / 'ours')[0]]


@pytest.mark.parametrize(('name', 'options'), [
    ('moved', {'scenario': 'left_turn'}), ('theirs', {'scenario': 'merge'}),
    ('ours', {'rules': Rules(scene_pose=POSE)}), ('ours', {'rules': Rules(scene_pose=(0.0, 0.0, 1.6))})])
def test_a_wrong_scene_or_place_is_noticed(bags: Path, name: str, options: dict[str, object]) -> None:
    episodes, reader = read(bags / name, **options)
    assert {(episode.outcome, len(episode.transitions)) for episode in episodes} == {('unknown', 0)}
    assert reader.summary.oddities() == {OFF_ROUTE: 3}
    [problem] = reader.summary.problems
    assert f'ego is never on the route of {options.get("scenario", "left_turn")}: it is refused' in problem


def test_episodes_elsewhere_are_left_out_of_a_bag_that_has_others(bags: Path, tmp_path: Path) -> None:
    changed(bags / 'theirs', tmp_path / 'some', lambda everything: [
        elsewhere(message) if message.log_time < 10_000_000_000 else message for message in everything])
    episodes, reader = read(tmp_path / 'some', scenario='left_turn')
    assert [episode.outcome for episode in episodes] == ['unknown', 'success', 'success']
    assert (reader.summary.counts[OFF_ROUTE], reader.summary.problems) == (1, [])


def test_nothing_is_learnt_or_given_from_a_wrong_place(
        bags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = [str(bags / 'moved'), '--scenario', 'left_turn', '--out', str(tmp_path / 'out')]
    for command in (lambda: bag.main(['export', *theirs, '--to', 'npz']),
                    lambda: train_main(['--from-bag', *theirs, '--config', str(ROOT / 'config' / 'offline.yaml')])):
        assert command() == 2
        said = capsys.readouterr().err
        assert 'ego is never on the route of left_turn: it is refused' in said
        assert 'no transition in there' in said
        assert not (tmp_path / 'out').exists()
