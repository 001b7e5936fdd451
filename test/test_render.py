"""Pictures show what they should, where it should be."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageDraw

from sim_node.batch import Batch
from sim_node.render import EGO, HIT, TEMPER_COLOURS, Painter
from sim_node.scenario import Scenario, load_scenario, scenario_names
from sim_node.state import COLLISION, DRIVING
from wcpg_ros import render
from wcpg_ros.controllers import prepare


def without_bands(picture: np.ndarray, scenario: Scenario) -> np.ndarray:
    """The scene alone, without the caption above and the legend below it."""
    left, low, right, high = scenario.window
    return picture[42:42 + round(picture.shape[1] * (high - low) / (right - left))]


def has_colour(picture: np.ndarray, colour: str) -> bool:
    return bool((picture == np.array(ImageColor.getrgb(colour))).all(axis=2).any())


@pytest.mark.parametrize('name', scenario_names())
def test_ego_is_drawn_to_scale_where_it_is(name: str) -> None:
    scenario = load_scenario(name, changes={'traffic.platoon': 0, 'traffic.spawned': 0, 'ego.start_speed': [5.0, 5.0]})
    batch = Batch(scenario, 1)
    batch.reset([1])
    picture = without_bands(Painter(scenario, 1800).draw(batch.scenes[0], batch.cars[0]), scenario)
    rows, columns = np.nonzero((picture == np.array(ImageColor.getrgb(EGO))).all(axis=2))
    left, _low, right, high = scenario.window
    scale = 1800 / (right - left)
    assert left + np.median(columns) / scale == pytest.approx(batch.scenes['x'][0], abs=1.5)
    assert high - np.median(rows) / scale == pytest.approx(batch.scenes['y'][0], abs=1.5)
    area = len(rows) / scale ** 2
    assert 0.35 * 4.6 * 1.9 < area < 4.6 * 1.9     # without its outline and its windscreen


def test_tempers_are_shown_only_when_asked_for() -> None:
    batch = Batch(load_scenario('merge'), 32)
    batch.reset(np.arange(32))
    for _ in range(20):
        batch.step(np.full(32, -4.0))
    painter = Painter(batch.scenario)
    angry = TEMPER_COLOURS['accelerate']
    drawn = [painter.draw(batch.scenes[i], batch.cars[i], tempers=True) for i in range(8)]
    shown = [has_colour(without_bands(picture, batch.scenario), angry) for picture in drawn]
    hidden = [has_colour(painter.draw(batch.scenes[i], batch.cars[i]), angry) for i in range(8)]
    assert any(shown)
    assert not any(hidden)


ARGUMENTS = ['--scenario', 'left_turn', '--controller', 'constant:4', '--seed', '7', '--width', '300']


def test_an_episode_becomes_a_gif_and_a_moment_a_png(tmp_path: Path) -> None:
    gif, png, early = tmp_path / 'a' / 'turn.gif', tmp_path / 'turn.png', tmp_path / 'early.png'
    assert render.main([*ARGUMENTS, '--tempers', '--out', str(gif)]) == 0
    with Image.open(gif) as film:
        assert film.n_frames > 25
        assert film.info['duration'] == 100
        legend = np.asarray(film.convert('RGB'))[-70:]
        assert all(has_colour(legend, colour) for colour in TEMPER_COLOURS.values())
    assert render.main([*ARGUMENTS, '--out', str(png)]) == 0
    assert render.main([*ARGUMENTS, '--at', '2', '--out', str(early)]) == 0
    with Image.open(png) as picture, Image.open(early) as other:
        assert picture.size == other.size
        assert picture.width == 300
        assert (np.asarray(picture) != np.asarray(other)).any()


def test_a_picture_of_a_moment_is_the_films_last() -> None:
    scenario, controller = prepare('merge', 'train', 'predict:1')
    painter = Painter(scenario, 300)
    frames = list(render.film(scenario, controller, 7, 2, painter, until=1.5))
    (last,) = render.film(scenario, controller, 7, 2, painter, until=1.5, last_only=True)
    assert len(frames) == 16
    assert np.array_equal(frames[-1], last)


@pytest.mark.parametrize('name', scenario_names())
def test_whoever_was_hit_is_marked(name: str) -> None:
    batch = Batch(load_scenario(name), 32, auto_reset=False)
    batch.reset(np.arange(32))
    painter = Painter(batch.scenario, 1800)
    before = without_bands(painter.draw(batch.scenes[0], batch.cars[0]), batch.scenario)
    batch.step(np.full(32, 4.0), repeat=300)
    crashed = int(np.flatnonzero(batch.scenes['outcome'] == COLLISION)[0])
    after = without_bands(painter.draw(batch.scenes[crashed], batch.cars[crashed]), batch.scenario)
    assert not has_colour(before, HIT)
    rows, columns = np.nonzero((after == np.array(ImageColor.getrgb(HIT))).all(axis=2))
    left, _low, right, high = batch.scenario.window
    scale = 1800 / (right - left)
    car = batch.cars[crashed, batch.scenes['hit'][crashed]]
    assert left + (columns.min() + columns.max()) / 2 / scale == pytest.approx(car['x'], abs=0.5)
    assert high - (rows.min() + rows.max()) / 2 / scale == pytest.approx(car['y'], abs=0.5)


@pytest.mark.parametrize('name', scenario_names())
def test_no_number_covers_another_or_a_vehicle(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[tuple[float, float], str, dict]] = []
    plain = ImageDraw.ImageDraw.text

    def text(self: ImageDraw.ImageDraw, at: tuple[float, float], words: str, **options) -> None:
        if words.isdigit():
            written.append((at, words, options))
        plain(self, at, words, **options)

    monkeypatch.setattr(ImageDraw.ImageDraw, 'text', text)
    batch = Batch(load_scenario(name, '+10/8%' if name == 'left_turn' else '+10/3%'), 16)
    batch.reset(np.arange(16))
    batch.step(np.full(16, -4.0), repeat=60)
    painter = Painter(batch.scenario, 900)
    for scene, cars in zip(batch.scenes, batch.cars, strict=True):
        written.clear()
        painter.draw(scene, cars)
        pen = ImageDraw.Draw(Image.new('RGB', (1, 1)))
        boxes = [pen.textbbox(at, words, font=options['font'], anchor='mm') for at, words, options in written]
        assert len(boxes) == np.sum(cars['status'] == DRIVING) + 1
        window = batch.scenario.window
        scale = 2 * 900 / (window[2] - window[0])     # drawn twice as large, then shrunk
        for driving in cars[cars['status'] == DRIVING]:
            x, y = (driving['x'] - window[0]) * scale, (window[3] - driving['y']) * scale
            assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes)
        for (a_left, a_top, a_right, a_bottom), (left, top, right, bottom) in itertools.combinations(boxes, 2):
            assert a_right <= left or right <= a_left or a_bottom <= top or bottom <= a_top


@pytest.mark.parametrize(('arguments', 'message'), [
    (['--out', 'turn.bmp'], 'turn.bmp: pictures are written as .gif or .png'),
    (['--at', 'nan', '--out', 'turn.png'], '--at: expected seconds from 0 on, got nan'),
    (['--at', '-1', '--out', 'turn.png'], '--at: expected seconds from 0 on, got -1.0'),
    (['--at', 'inf', '--out', 'turn.png'], '--at: expected seconds from 0 on, got inf'),
    (['--width', '0', '--out', 'turn.png'], 'width: expected a whole number from 100 to 5000, got 0'),
    (['--width', '5000', '--out', 'turn.png'], 'width: 5000 pixels for this window mean a picture of 33333333'),
    (['--set', 'window=[0, 0, 1, 200]', '--out', 'turn.png'], 'width: 300 pixels for this window mean a picture of'),
    (['--episode', '-1', '--out', 'turn.png'], 'episode: expected a whole number from 0 to 999999, got -1'),
])
def test_what_cannot_be_drawn_is_refused_before_any_drawing(arguments: list[str], message: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch,
                                                            capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    assert render.main([*ARGUMENTS, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1
    assert not list(tmp_path.iterdir())
