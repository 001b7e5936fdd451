"""Pictures show what they should, where it should be."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from sim_node.batch import Batch
from sim_node.render import EGO, TEMPER_COLOURS, Painter
from sim_node.scenario import load_scenario, scenario_names
from wcpg_ros import render


def has_colour(picture: np.ndarray, colour: str) -> bool:
    return bool((picture == np.array(ImageColor.getrgb(colour))).all(axis=2).any())


@pytest.mark.parametrize('name', scenario_names())
def test_ego_is_drawn_to_scale_where_it_is(name: str) -> None:
    scenario = load_scenario(name, changes={'traffic.platoon': 0, 'traffic.spawned': 0, 'ego.start_speed': [5.0, 5.0]})
    batch = Batch(scenario, 1)
    batch.reset([1])
    picture = Painter(scenario, 1800).draw(batch.scenes[0], batch.cars[0])
    rows, columns = np.nonzero((picture == np.array(ImageColor.getrgb(EGO))).all(axis=2))
    below_caption = rows > 50
    left, _low, right, high = scenario.window
    scale = 1800 / (right - left)
    assert left + np.median(columns[below_caption]) / scale == pytest.approx(batch.scenes['x'][0], abs=1.5)
    assert high - np.median(rows[below_caption]) / scale == pytest.approx(batch.scenes['y'][0], abs=1.5)
    area = below_caption.sum() / scale ** 2
    assert 0.35 * 4.6 * 1.9 < area < 4.6 * 1.9     # without its outline and its windscreen


def test_tempers_are_shown_only_when_asked_for() -> None:
    batch = Batch(load_scenario('merge'), 32)
    batch.reset(np.arange(32))
    for _ in range(20):
        batch.step(np.full(32, -4.0))
    painter = Painter(batch.scenario)
    angry = TEMPER_COLOURS['accelerate']
    shown = [has_colour(painter.draw(batch.scenes[i], batch.cars[i], tempers=True)[60:-40], angry) for i in range(8)]
    hidden = [has_colour(painter.draw(batch.scenes[i], batch.cars[i]), angry) for i in range(8)]
    assert any(shown)
    assert not any(hidden)


def test_an_episode_becomes_a_gif_and_a_moment_a_png(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ['--scenario', 'left_turn', '--controller', 'constant:4', '--seed', '7', '--width', '300']
    gif, png = tmp_path / 'a' / 'turn.gif', tmp_path / 'turn.png'
    assert render.main([*arguments, '--out', str(gif)]) == 0
    with Image.open(gif) as film:
        assert film.n_frames > 25
        assert film.info['duration'] == 100
    assert render.main([*arguments, '--at', '2', '--out', str(png)]) == 0
    assert '21 moments' in capsys.readouterr().out
    with Image.open(png) as picture:
        assert picture.width == 300
    assert render.main([*arguments, '--at', '1', '--out', str(tmp_path / 'turn.bmp')]) == 2
    assert 'pictures are written as .gif or .png' in capsys.readouterr().err
