"""A driving scene: its geometry, its traffic and its rewards, read from one YAML file per scene.

The defaults below are what both scenes share; a scene's file (sim_node/scenes/*.yaml) states what is its own. The
paper's environment table gives scale, speeds, spawn rate, tempers and rewards; the rest is ours.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sim_node.geometry import build_geometry
from sim_node.observation import VERSIONS, Layout
from sim_node.settings import (
    REQUIRED,
    Group,
    SettingsError,
    bounded,
    check,
    choices,
    from_mapping,
    read_yaml,
    replaced,
)

STEP_SECONDS = 0.1

_SCENES = resources.files('sim_node').joinpath('scenes')


@dataclass(frozen=True)
class Piece(Group):
    """A stretch of a path: straight for `straight` m, or `turn` degrees (positive to the left) at `radius` m."""

    straight: float = bounded(0.0, '[0, 2000]')
    turn: float = bounded(0.0, '[-120, 120]')      # a third of a circle: more is two pieces
    radius: float = bounded(0.0, '[0, 2000]')

    def __post_init__(self) -> None:
        super().__post_init__()
        bends = self.turn != 0.0
        check(bends != (self.straight > 0.0) and (self.radius >= 1.0 if bends else self.radius == 0.0), 'straight',
              f'expected either straight or turn and radius, of at least 1 m, got {self}')

    @property
    def length(self) -> float:
        """In m."""
        return self.straight or math.radians(abs(self.turn)) * self.radius


@dataclass(frozen=True)
class Path2D(Group):
    """A path from a pose (x m, y m, heading degrees), piece by piece."""

    pieces: tuple[Piece, ...]
    start: tuple[float, float, float] = bounded(REQUIRED, '[-1000, 1000]')

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0.0 < self.length <= 2000.0, 'pieces', f'expected a path of up to 2000 m, got {self.length:g} m')

    @property
    def length(self) -> float:
        """In m."""
        return sum(piece.length for piece in self.pieces)


@dataclass(frozen=True)
class Road(Group):
    """A road of others: its reference path and the lanes beside it, by their offset to the left in m."""

    path: Path2D
    lanes: tuple[float, ...] = bounded(REQUIRED, '[-100, 100]')
    lane_width: float = bounded(3.5, '[0.1, 20]')

    def __post_init__(self) -> None:
        super().__post_init__()
        check(bool(self.lanes), 'lanes', 'expected at least one')
        spacing = min((left - right for right, left in itertools.pairwise(sorted(self.lanes))), default=math.inf)
        check(spacing > self.lane_width - 1e-6, 'lanes',
              f'expected at least lane_width, {self.lane_width:g} m, from one to the next, got {list(self.lanes)}')
        tightest = min((piece.radius for piece in self.path.pieces if piece.turn), default=math.inf)
        check(max(map(abs, self.lanes)) < tightest, 'lanes',
              f'expected all nearer to the path than its tightest bend, {tightest:g} m, got {list(self.lanes)}')


@dataclass(frozen=True)
class Vehicle(Group):
    """Every vehicle's body and steering."""

    length: float = bounded(4.6, '[0.1, 30]')              # m
    width: float = bounded(1.9, '[0.1, 5]')                # m
    front_axle: float = bounded(1.35, '[0.1, 15]')         # m, from the centre of gravity
    rear_axle: float = bounded(1.35, '[0.1, 15]')          # m
    acceleration_limit: float = bounded(4.0, '[0.1, 20]')  # m/s², either way (paper)
    steering_limit: float = bounded(0.6, '[0.01, 1.5]')    # rad
    stanley_gain: float = bounded(2.0, '[0, 100]')         # 1/s
    stanley_softening: float = bounded(1.0, '[0.01, 100]')  # m/s


@dataclass(frozen=True)
class Ego(Group):
    """Ego's route and start."""

    path: Path2D
    goal: float = bounded(REQUIRED, '(0, 2000]')     # m of arc length at which the maneuver is done
    start_speed: tuple[float, float] = bounded((0.0, 20.0), '[0, 60]', rising=True)     # m/s (paper)
    # It starts where, braking to the stop line at `start_braking`, it has `start_margin` m to spare: it can stop.
    start_margin: tuple[float, float] = bounded((3.0, 12.0), '[0, 1000]', rising=True)
    start_braking: float = bounded(3.5, '[0.1, 20]')  # m/s²
    stop_margin: float = bounded(1.0, '[0, 100]')    # m from the stop line to the conflict zone
    speed_min: float = bounded(0.0, '[0, 60]')       # m/s
    speed_max: float = bounded(20.0, '[0.1, 60]')    # m/s
    cornering: float = bounded(5.0, '[0.1, 100]')    # m/s² of lateral acceleration for which ego slows before a bend
    bend_braking: float = bounded(3.0, '[0.1, 20]')  # m/s² with which it does
    sight: float = bounded(200.0, '[1, 10000]')      # m

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.speed_min <= self.start_speed[0] and self.start_speed[1] <= self.speed_max, 'start_speed',
              f'expected within speed_min and speed_max, [{self.speed_min:g}, {self.speed_max:g}], '
              f'got {list(self.start_speed)}')
        before = self.start_speed[1] ** 2 / (2.0 * self.start_braking) + self.start_margin[1]
        check(before <= 2000.0, 'start_braking',
              f'expected a start at most 2000 m before the stop line, got {before:g} m')


@dataclass(frozen=True)
class Driver(Group):
    """The other drivers' adaptive cruise control and lane changes."""

    cruise_gain: float = bounded(0.5, '[0, 100]')             # 1/s
    cruise_acceleration: float = bounded(2.0, '[0, 20]')      # m/s², towards the desired speed
    standstill_gap: float = bounded(2.0, '[0, 100]')          # m, bumper to bumper
    headway: float = bounded(0.8, '[0, 60]')                  # s
    gap_gain: float = bounded(0.3, '[0, 100]')                # 1/s²
    speed_gain: float = bounded(1.0, '[0, 100]')              # 1/s
    reaction: float = bounded(0.3, '[0, 60]')                 # s, in the safe speed
    lane_change_time: float = bounded(4.5, '[0.5, 60]')       # s, along the planned trajectory
    lane_change_headway: float = bounded(2.5, '[0, 60]')      # s behind a slower leader at which a driver wants to pass
    lane_change_advantage: float = bounded(1.0, '[0, 60]')    # m/s that the leader must be below the desired speed
    lane_change_gap: float = bounded(8.0, '[0, 1000]')        # m in front and behind, beside being able to stop
    lane_change_speed: float = bounded(5.0, '[0.1, 60]')      # m/s below which nobody begins one
    lane_change_speedup: float = bounded(1.4, '[1, 10]')      # times the speed at its beginning, at most, during one
    lane_change_pause: float = bounded(3.0, '[0, 1000]')      # s between two changes


@dataclass(frozen=True)
class Temper(Group):
    """What the hidden tempers do, once ego has committed itself and is near."""

    mix: tuple[float, float, float] = bounded(REQUIRED, '[0, 1]')    # shares of yield, ignore, accelerate (paper)
    notice: float = bounded(100.0, '[0, 10000]')       # m from ego within which a driver reacts
    joined: float = bounded(0.6, '[0.01, 20]')         # m from a lane's middle at which ego counts as in it
    yield_braking: float = bounded(3.0, '[0, 20]')     # m/s²
    boost: tuple[float, float] = bounded((3.0, 4.0), '[0, 20]', rising=True)    # m/s², an accelerating driver's own
    boost_headway: float = bounded(0.8, '[0, 60]')     # s that it keeps behind whoever is in front meanwhile
    boost_speed: float = bounded(10.0, '[0, 60]')      # m/s over the desired speed

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.mix, 'mix')


@dataclass(frozen=True)
class Traffic(Group):
    """Who is born, when and how fast."""

    speed: tuple[float, float] = bounded(REQUIRED, '[0.1, 60]', rising=True)     # m/s, desired (paper)
    spawn_rate: float = bounded(0.01, '[0, 1)')        # per step and birth lane (paper)
    spawned: int = bounded(2, '[0, 100]')              # births at that rate, at most
    last_birth: float = bounded(10.0, '[0, 1000]')     # s after which nobody is born
    platoon: int = bounded(5, '[0, 100]')              # vehicles under way when the episode begins
    # s until the first of them reaches the conflict zone, and s between their arrivals
    first_arrival: tuple[float, float] = bounded((0.5, 5.0), '[0, 1000]', rising=True)
    arrival_gap: tuple[float, float] = bounded((1.7, 4.5), '[0, 1000]', rising=True)
    gap_power: float = bounded(1.0, '[0.1, 10]')       # 1: gaps of all widths alike; more makes wide ones rare
    platoon_spread: float = bounded(1.0, '[0, 1]')     # of their speeds: 0, all as fast as the first; 1, as anybody's
    platoon_lanes: tuple[float, ...] = bounded((), '[0, 1]')    # shares of the platoon by lane; equal if empty

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.platoon_lanes:
            check_shares(self.platoon_lanes, 'platoon_lanes')


@dataclass(frozen=True)
class Reward(Group):
    """Paid at the end of an episode, and only then."""

    success: float = bounded(REQUIRED, '[-1e6, 1e6]')      # × exp(-steps / decay) + bonus (paper)
    bonus: float = bounded(REQUIRED, '[-1e6, 1e6]')
    decay: float = bounded(50.0, '[0.1, 1e6]')             # steps of 0.1 s
    collision: float = bounded(-50.0, '[-1e6, 1e6]')
    timeout: float = bounded(0.0, '[-1e6, 1e6]')


@dataclass(frozen=True)
class Scenario(Group):
    """One scene with one row of traffic: everything a simulation needs."""

    name: str
    title: str
    ego: Ego
    roads: tuple[Road, ...]
    temper: Temper
    traffic: Traffic
    reward: Reward
    rows: dict[str, dict[str, Any]]
    # For pictures, m: what they show (x_min, y_min, x_max, y_max), further asphalt, painted lines (x and y from … to).
    window: tuple[float, float, float, float] = bounded(REQUIRED, '[-5000, 5000]')
    pavement: tuple[tuple[float, float, float, float], ...] = bounded((), '[-5000, 5000]')
    centre_lines: tuple[tuple[float, float, float, float], ...] = bounded((), '[-5000, 5000]')
    row: str = 'train'
    vehicle: Vehicle = field(default_factory=Vehicle)
    driver: Driver = field(default_factory=Driver)
    layout: Layout = field(default_factory=Layout)
    max_steps: int = bounded(300, '[1, 100000]')
    action_repeat: int = bounded(4, '[1, 1000]')      # simulation steps per decision (paper)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, box in (('window', self.window), *(('pavement', box) for box in self.pavement)):
            check(min(box[2] - box[0], box[3] - box[1]) >= 1.0, name,
                  f'expected [x_min, y_min, x_max, y_max], at least 1 m wide and high, got {list(box)}')
        check(self.layout.version in VERSIONS, 'layout.version',
              f'this software speaks observation layouts {VERSIONS}, got {self.layout.version}')
        check(1 <= self.layout.vehicles <= 100, 'layout.vehicles',
              f'expected within [1, 100], got {self.layout.vehicles}')
        lanes = sum(len(road.lanes) for road in self.roads)
        check(0 < lanes <= 16, 'roads', f'expected 1 to 16 lanes of others, got {lanes}')
        check(len(self.traffic.platoon_lanes) in (0, lanes), 'traffic.platoon_lanes', f'expected {lanes} shares')
        narrowest = min(road.lane_width for road in self.roads)
        check(self.vehicle.width < narrowest, 'vehicle.width',
              f'expected less than the narrowest lane, {narrowest:g} m, got {self.vehicle.width:g}')


def check_shares(shares: Sequence[float], where: str) -> None:
    """Refuse shares that are not those of a whole."""
    check(abs(sum(shares) - 1.0) < 1e-9, where, f'expected shares that add up to 1, got {list(shares)}')


def scenario_names() -> list[str]:
    """The scenes that come with the package."""
    return sorted(item.name[:-5] for item in _SCENES.iterdir()
                  if item.name.endswith('.yaml'))


def load_scenario(name: str | Path, row: str = 'train', changes: Mapping[str, Any] | None = None) -> Scenario:
    """A scene by name (or the path of a scene file), on a row of its extrapolation table, with settings changed.

    `changes` maps dotted names to values, for instance {'traffic.spawn_rate': 0.05, 'layout.time': True}.
    """
    scenario = _read(os.fspath(name))
    if row not in scenario.rows:
        raise SettingsError(f'row {row!r}: {scenario.name} has no such row; {choices(scenario.rows)}')
    changes = {**scenario.rows[row], **(changes or {})}
    for fixed in ('name', 'row', 'rows'):
        check(fixed not in changes, f'{scenario.name}.{fixed}', 'says which scene this is, and cannot be changed')
    scenario = replaced(scenario, {**changes, 'row': row}, scenario.name)
    build_geometry(scenario)     # finds what is wrong with a route
    return scenario


def _read(name: str) -> Scenario:
    if name in scenario_names():
        return _parse(name, _SCENES.joinpath(f'{name}.yaml').read_text())
    if not name.endswith(('.yaml', '.yml')):
        raise SettingsError(f'scenario {name!r} is unknown; {choices(scenario_names())}, or give the path of a .yaml')
    try:
        return _parse(name, Path(name).read_text())
    except OSError as error:
        raise SettingsError(f'scenario {name!r}: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise SettingsError(f'scenario {name!r}: not a text: {error}') from None


@cache
def _parse(name: str, text: str) -> Scenario:
    return from_mapping(Scenario, read_yaml(text, name), name)
