"""Bird's-eye pictures of a scene: arrays, PNG and GIF."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sim_node.drivers import TEMPERS
from sim_node.geometry import build_geometry
from sim_node.roads import LENGTH, START, locate
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.settings import SettingsError
from sim_node.state import COLLISION, DRIVING, OUTCOMES, RUNNING, SUCCESS

GRASS, ASPHALT, PAINT, CENTRE, INK, PAPER = '#dfe8d8', '#6f747d', '#f4f4f0', '#e6c229', '#20242b', '#ffffff'
EGO, OTHER, ROUTE, ZONE = '#0072b2', '#d9dce1', '#56b4e9', (240, 228, 66, 70)
# Okabe and Ito's palette: told apart by colour-blind people too.
TEMPER_COLOURS = dict(zip(TEMPERS, ('#009e73', '#d9dce1', '#d55e00'), strict=True))
OUTCOME_COLOURS = {SUCCESS: '#009e73', COLLISION: '#d55e00'}

_SMOOTH = 2             # pictures are drawn this much larger, then shrunk
_BEYOND = 60.0          # m that roads are drawn beyond their ends, to the edge of the picture

Point = tuple[float, float]


@lru_cache(maxsize=16)
def _font(pixels: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(pixels)


class Painter:
    """Draws the scenes of one scenario, `width` pixels wide; the road is drawn once."""

    def __init__(self, scenario: Scenario, width: int = 900) -> None:
        self.scenario = scenario
        self._geometry = build_geometry(scenario)
        left, low, right, high = scenario.window
        self._left, self._high = left, high
        self._scale = width * _SMOOTH / (right - left)
        self._size = width * _SMOOTH, round((high - low) * self._scale)
        self._road = self._paint_road()

    def draw(self, scene: np.void, cars: np.ndarray, tempers: bool = False, note: str = '') -> np.ndarray:
        """The scene as an RGB array. `tempers` shows what ego cannot see; `note` is a line of the caller's."""
        image = self._road.copy()
        pen = ImageDraw.Draw(image)
        for car in cars[cars['status'] == DRIVING]:
            self._vehicle(pen, car, TEMPER_COLOURS[TEMPERS[car['temper']]] if tempers else OTHER)
        self._vehicle(pen, scene, EGO)
        self._caption(pen, scene, note)
        if tempers:
            self._legend(pen)
        return np.asarray(image.resize((image.width // _SMOOTH, image.height // _SMOOTH), Image.Resampling.LANCZOS))

    def _at(self, x: float, y: float) -> Point:
        return (x - self._left) * self._scale, (self._high - y) * self._scale

    def _along(self, path: tuple[int, int], s: float, offset: float) -> Point:
        x, y, _ = locate(self._geometry.segments, *path, s, offset)
        return self._at(x, y)

    def _paint_road(self) -> Image.Image:
        geometry, scenario = self._geometry, self.scenario
        image = Image.new('RGB', self._size, GRASS)
        pen = ImageDraw.Draw(image, 'RGBA')
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

    def _vehicle(self, pen: ImageDraw.ImageDraw, state: np.void, colour: str) -> None:
        x, y, cos, sin = state['x'], state['y'], math.cos(state['heading']), math.sin(state['heading'])
        nose, side = self.scenario.vehicle.length / 2, self.scenario.vehicle.width / 2

        def shape(*points: Point) -> list[Point]:
            return [self._at(x + ahead * cos - left * sin, y + ahead * sin + left * cos) for ahead, left in points]

        pen.polygon(shape((nose, side), (nose, -side), (-nose, -side), (-nose, side)), fill=colour, outline=INK,
                    width=max(round(0.12 * self._scale), 1))
        pen.polygon(shape((0.55 * nose, 0.8 * side), (0.55 * nose, -0.8 * side), (0.2 * nose, -0.7 * side),
                          (0.2 * nose, 0.7 * side)), fill=INK)
        # The speed stands to the vehicle's right, where it hides nobody in the same lane.
        (beside,) = shape((0.0, -side - 2.2))
        pen.text(beside, f'{state["speed"]:.0f}', fill=EGO if colour == EGO else INK, anchor='mm',
                 font=_font(max(round(2.2 * self._scale), 10 * _SMOOTH)))

    def _caption(self, pen: ImageDraw.ImageDraw, scene: np.void, note: str) -> None:
        pixels = 14 * _SMOOTH
        lines = [f'{self.scenario.title}   t = {scene["step"] * STEP_SECONDS:.1f} s   ego {scene["speed"]:.1f} m/s, '
                 f'{scene["acceleration"]:+.1f} m/s per s', *([note] if note else [])]
        pen.rectangle((0, 0, self._size[0], (len(lines) + 0.5) * 1.25 * pixels), fill=PAPER)
        for index, text in enumerate(lines):
            pen.text((pixels * 0.7, pixels * (0.35 + 1.25 * index)), text, fill=INK, font=_font(pixels))
        if scene['outcome'] != RUNNING:
            pen.text((self._size[0] - pixels * 0.7, pixels * 0.35), OUTCOMES[scene['outcome']].upper(),
                     fill=OUTCOME_COLOURS.get(int(scene['outcome']), INK), font=_font(pixels), anchor='ra')

    def _legend(self, pen: ImageDraw.ImageDraw) -> None:
        pixels = 12 * _SMOOTH
        width, height = self._size
        x, y = float(pixels), height - 1.8 * pixels
        pen.rectangle((0, height - 2.3 * pixels, width, height), fill=PAPER)
        for name, colour in (('ego', EGO), *TEMPER_COLOURS.items()):
            pen.rectangle((x, y, x + 1.6 * pixels, y + pixels), fill=colour, outline=INK)
            pen.text((x + 2.0 * pixels, y - 0.15 * pixels), name, fill=INK, font=_font(pixels))
            x += 3.6 * pixels + pen.textlength(name, font=_font(pixels))
        pen.text((x, y - 0.15 * pixels), 'numbers: m/s', fill=INK, font=_font(pixels))


def save(frames: Sequence[np.ndarray], path: Path, seconds: float = STEP_SECONDS) -> None:
    """Write frames as a GIF, or the last one as a PNG, by the file's ending."""
    if path.suffix.lower() not in ('.gif', '.png'):
        raise SettingsError(f'{path}: pictures are written as .gif or .png')
    images = [Image.fromarray(frame) for frame in frames]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == '.png':
        images[-1].save(path)
        return
    palette = images[0].quantize(64, dither=Image.Dither.NONE)
    reduced = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    reduced[0].save(path, save_all=True, append_images=reduced[1:], duration=round(1000 * seconds), loop=0)
