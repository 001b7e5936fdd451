"""Bird's-eye pictures of a scene: arrays, PNG and GIF."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

try:
    from PIL import Image, ImageColor, ImageDraw, ImageFont
except ImportError:
    raise ImportError("pictures need Pillow: pip install 'wcpg_ros[pictures]'") from None

from sim_node.drivers import TEMPERS
from sim_node.geometry import build_geometry
from sim_node.roads import LENGTH, START, locate
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.settings import SettingsError, check, whole_number
from sim_node.state import COLLISION, DRIVING, OUTCOMES, RUNNING, SUCCESS

GRASS, ASPHALT, PAINT, CENTRE, INK, PAPER = '#dfe8d8', '#6f747d', '#f4f4f0', '#e6c229', '#20242b', '#ffffff'
EGO, OTHER, ROUTE, ZONE, HIT = '#0072b2', '#d9dce1', '#56b4e9', '#93936d', '#c4006f'
# Okabe and Ito's palette: told apart by colour-blind people too.
TEMPER_COLOURS = dict(zip(TEMPERS, ('#009e73', '#d9dce1', '#d55e00'), strict=True))
OUTCOME_COLOURS = {SUCCESS: '#009e73', COLLISION: '#d55e00'}

_SMOOTH = 2             # pictures are drawn this much larger, then shrunk
_BEYOND = 60.0          # m that roads are drawn beyond their ends, to the edge of the picture
_MOST_PIXELS = 10_000_000

Point = tuple[float, float]
Box = tuple[float, float, float, float]     # pixels: left, top, right, bottom


@lru_cache(maxsize=16)
def _font(pixels: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(pixels)


class Painter:
    """Draws the scenes of one scenario, `width` pixels wide; the road is drawn once."""

    def __init__(self, scenario: Scenario, width: int = 900) -> None:
        self.scenario = scenario
        self._geometry = build_geometry(scenario)
        left, low, right, high = scenario.window
        pixels = whole_number('width', width, 100, 5000) ** 2 * (high - low) / (right - left)
        check(1e4 <= pixels <= _MOST_PIXELS, 'width', f'{width} pixels for this window mean a picture of {pixels:.0f}, '
                                                      f'expected 10000 to {_MOST_PIXELS}')
        self._left, self._high = left, high
        self._scale = width * _SMOOTH / (right - left)
        self._size = width * _SMOOTH, round((high - low) * self._scale)
        self._road = self._paint_road()

    def draw(self, scene: np.void, cars: np.ndarray, tempers: bool = False, note: str = '') -> np.ndarray:
        """The scene under a caption and above a legend, as an RGB array; `note` is a line of the caller's."""
        return np.concatenate([_shrunk(self._caption(scene, note)), self.view(scene, cars, tempers),
                               _shrunk(self._legend(_colours(tempers)))])

    def view(self, scene: np.void, cars: np.ndarray, tempers: bool = False) -> np.ndarray:
        """The scene alone, as an RGB array. `tempers` shows what ego cannot see."""
        image = self._road.copy()
        pen = ImageDraw.Draw(image)
        vehicles = [(car, TEMPER_COLOURS[TEMPERS[car['temper']]] if tempers else OTHER)
                    for car in cars[cars['status'] == DRIVING]]
        vehicles.append((scene, EGO))
        for state, colour in vehicles:
            self._vehicle(pen, state, colour)
        if scene['hit'] >= 0:
            self._ring(pen, cars[scene['hit']])
        self._speeds(pen, vehicles)
        return _shrunk(image)

    def _at(self, x: float, y: float) -> Point:
        return (x - self._left) * self._scale, (self._high - y) * self._scale

    def _along(self, path: tuple[int, int], s: float, offset: float) -> Point:
        x, y, _ = locate(self._geometry.segments, *path, s, offset)
        return self._at(x, y)

    def _paint_road(self) -> Image.Image:
        geometry, scenario = self._geometry, self.scenario
        image = Image.new('RGB', self._size, GRASS)
        pen = ImageDraw.Draw(image)
        route = geometry.ego_first, geometry.ego_last
        last = geometry.segments[geometry.ego_last]
        half_lane = scenario.roads[0].lane_width / 2
        strips = [(route, 0.0, float(last[START] + last[LENGTH]), -half_lane, half_lane)]
        for road, (first_row, last_row, length) in zip(scenario.roads, geometry.roads, strict=True):
            strips.append(((first_row, last_row), 0.0, length, min(road.lanes) - road.lane_width / 2,
                           max(road.lanes) + road.lane_width / 2))
        for margin, colour in ((0.25, PAINT), (0.0, ASPHALT)):
            for path, start, end, right, left in strips:
                pen.polygon(self._strip(path, start - _BEYOND, end + _BEYOND, right - margin, left + margin),
                            fill=colour)
            for x_min, y_min, x_max, y_max in scenario.pavement:
                pen.rectangle([self._at(x_min - margin, y_max + margin), self._at(x_max + margin, y_min - margin)],
                              fill=colour)
        for x_from, y_from, x_to, y_to in scenario.centre_lines:
            pen.line([self._at(x_from, y_from), self._at(x_to, y_to)], fill=CENTRE, width=round(0.3 * self._scale))
        for road, (first_row, last_row, length) in zip(scenario.roads, geometry.roads, strict=True):
            offsets = sorted(road.lanes)
            for right, left in itertools.pairwise(offsets):
                self._dashes(pen, (first_row, last_row), -_BEYOND, length + _BEYOND, (right + left) / 2, PAINT,
                             4.0, 6.0, 0.15)
        leave = min(geometry.conflict_leave, scenario.ego.goal)
        pen.polygon(self._strip(route, geometry.conflict_enter, leave, -1.2, 1.2), fill=ZONE)
        self._dashes(pen, route, 0.0, scenario.ego.goal, 0.0, ROUTE, 1.0, 1.5, 0.25)
        nose = scenario.vehicle.length / 2
        for s, colour, thickness in ((geometry.stop_line + nose, PAINT, 0.6), (scenario.ego.goal + nose, ROUTE, 0.8)):
            pen.line([self._along(route, s, -half_lane), self._along(route, s, half_lane)], fill=colour,
                     width=round(thickness * self._scale))
        return image

    def _strip(self, path: tuple[int, int], start: float, end: float, right: float, left: float) -> list[Point]:
        stations = np.linspace(start, end, max(round(end - start), 2))
        return ([self._along(path, s, right) for s in stations]
                + [self._along(path, s, left) for s in stations[::-1]])

    def _dashes(self, pen: ImageDraw.ImageDraw, path: tuple[int, int], start: float, end: float, offset: float,
                colour: str, dash: float, pause: float, thickness: float) -> None:
        for s in np.arange(start, end, dash + pause):
            pen.line([self._along(path, at, offset) for at in (s, s + dash / 2, s + dash)], fill=colour,
                     width=max(round(thickness * self._scale), 1))

    def _shape(self, state: np.void, *points: Point) -> list[Point]:
        """Points given from a vehicle's centre (m ahead, m to the left), in the picture."""
        x, y, cos, sin = state['x'], state['y'], math.cos(state['heading']), math.sin(state['heading'])
        return [self._at(x + ahead * cos - left * sin, y + ahead * sin + left * cos) for ahead, left in points]

    def _body(self, state: np.void) -> list[Point]:
        nose, side = self.scenario.vehicle.length / 2, self.scenario.vehicle.width / 2
        return self._shape(state, (nose, side), (nose, -side), (-nose, -side), (-nose, side))

    def _vehicle(self, pen: ImageDraw.ImageDraw, state: np.void, colour: str) -> None:
        nose, side = self.scenario.vehicle.length / 2, self.scenario.vehicle.width / 2
        pen.polygon(self._body(state), fill=colour, outline=INK, width=max(round(0.12 * self._scale), 1))
        pen.polygon(self._shape(state, (0.55 * nose, 0.8 * side), (0.55 * nose, -0.8 * side), (0.2 * nose, -0.7 * side),
                                (0.2 * nose, 0.7 * side)), fill=INK)

    def _ring(self, pen: ImageDraw.ImageDraw, state: np.void) -> None:
        """Mark the vehicle that was hit."""
        ((x, y),) = self._shape(state, (0.0, 0.0))
        radius = 0.8 * self.scenario.vehicle.length * self._scale
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=HIT,
                    width=max(round(0.5 * self._scale), 2 * _SMOOTH))

    def _speeds(self, pen: ImageDraw.ImageDraw, vehicles: list[tuple[np.void, str]]) -> None:
        """Every speed beside its vehicle, where it covers no other vehicle and no other number."""
        font = _font(max(round(2.2 * self._scale), 10 * _SMOOTH))
        nose, side = self.scenario.vehicle.length / 2, self.scenario.vehicle.width / 2
        places = [(ahead, left) for away in (side + 2.2, side + 4.4) for ahead in (0.0, -nose, nose)
                  for left in (-away, away)]
        taken = [_box(self._body(state)) for state, _ in vehicles]
        for state, colour in vehicles:
            text = f'{state["speed"]:.0f}'
            for at in self._shape(state, *places):
                box = pen.textbbox(at, text, font=font, anchor='mm')
                if not any(_overlap(box, other) for other in taken):
                    pen.text(at, text, fill=EGO if colour == EGO else INK, anchor='mm', font=font,
                             stroke_width=_SMOOTH, stroke_fill=PAPER)
                    taken.append(box)
                    break

    def _caption(self, scene: np.void, note: str) -> Image.Image:
        """Two lines above the scene."""
        pixels, width = 14 * _SMOOTH, self._size[0]
        image = Image.new('RGB', (width, 3 * pixels), PAPER)
        pen = ImageDraw.Draw(image)
        text = (f'{self.scenario.title}   t = {scene["step"] * STEP_SECONDS:.1f} s   ego {scene["speed"]:.1f} m/s, '
                f'{scene["acceleration"]:+.1f} m/s per s')     # its font has no ²
        for line, words in enumerate((text, note)):
            fitting = pixels * min((width - pixels) / max(_font(pixels).getlength(words), 1.0), 1.0)
            pen.text((0.7 * pixels, (0.35 + 1.25 * line) * pixels), words, fill=INK, font=_font(int(fitting)))
        if scene['outcome'] != RUNNING:
            pen.text((width - 0.7 * pixels, 1.6 * pixels), OUTCOMES[scene['outcome']].upper(),
                     fill=OUTCOME_COLOURS.get(int(scene['outcome']), INK), font=_font(pixels), anchor='ra')
        return image

    def _legend(self, colours: dict[str, str]) -> Image.Image:
        """What the colours mean, below the scene in as many lines as it takes."""
        pixels, width = 12 * _SMOOTH, self._size[0]
        font = _font(pixels)
        # A name, a field's colour and outline, and the colour of a bar across it.
        entries = [*((name, colour, INK, colour) for name, colour in {**colours, 'conflict zone': ZONE}.items()),
                   ('stop line', ASPHALT, INK, PAINT), ('goal', ASPHALT, INK, ROUTE), ('hit', PAPER, HIT, PAPER),
                   ('numbers: m/s', PAPER, PAPER, PAPER)]
        places = []
        x, y = 1.0 * pixels, 0.5 * pixels
        for name, *_ in entries:
            wide = 3.2 * pixels + font.getlength(name)
            if x + wide > width and x > pixels:
                x, y = 1.0 * pixels, y + 1.5 * pixels
            places.append((x, y))
            x += wide
        image = Image.new('RGB', (width, 2 * round((y + 1.3 * pixels) / 2)), PAPER)
        pen = ImageDraw.Draw(image)
        for (x, y), (name, field, outline, bar) in zip(places, entries, strict=True):
            pen.rectangle((x, y, x + 1.6 * pixels, y + pixels), fill=field, outline=outline, width=_SMOOTH)
            pen.rectangle((x + 0.6 * pixels, y + _SMOOTH, x + pixels, y + pixels - _SMOOTH), fill=bar)
            pen.text((x + 2.0 * pixels, y - 0.15 * pixels), name, fill=INK, font=font)
        return image


def _colours(tempers: bool) -> dict[str, str]:
    return {'ego': EGO, **(TEMPER_COLOURS if tempers else {'others': OTHER})}


def _shrunk(image: Image.Image) -> np.ndarray:
    return np.asarray(image.resize((image.width // _SMOOTH, image.height // _SMOOTH), Image.Resampling.LANCZOS))


def _box(points: list[Point]) -> Box:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def check_suffix(path: Path) -> None:
    """Refuse a file that `save` could not write."""
    if path.suffix.lower() not in ('.gif', '.png'):
        raise SettingsError(f'{path}: pictures are written as .gif or .png')


def _palette() -> Image.Image:
    """Every colour that a picture may hold, and two steps between any two of them for smooth edges."""
    names = {GRASS, ASPHALT, PAINT, CENTRE, INK, PAPER, EGO, OTHER, ROUTE, ZONE, HIT, *TEMPER_COLOURS.values()}
    pure = [np.array(ImageColor.getrgb(name)) for name in sorted(names)]
    mixed = [(a + a + b) // 3 for a, b in itertools.permutations(pure, 2)]
    palette = Image.new('P', (1, 1))
    palette.putpalette(np.concatenate(pure + mixed).astype(np.uint8).tobytes())
    return palette


def save(frames: Iterable[np.ndarray], path: Path, seconds: float = STEP_SECONDS) -> None:
    """Write frames as a GIF, or the last one as a PNG, by the file's ending."""
    check_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    images = (Image.fromarray(frame) for frame in frames)
    if path.suffix.lower() == '.png':
        *_, last = images
        last.save(path)
        return
    palette = _palette()
    reduced = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    next(reduced).save(path, save_all=True, append_images=reduced, duration=round(1000 * seconds), loop=0)
