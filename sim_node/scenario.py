"""A driving scene: its geometry, its traffic and its rewards, read from one YAML file per scene.

The defaults below are what both scenes share; a scene's file (sim_node/scenes/*.yaml) states what is its own. The
paper's environment table gives scale, speeds, spawn rate, tempers and rewards; the rest is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from sim_node.observation import VERSION, Layout
from sim_node.settings import SettingsError, check, choices, from_mapping, replaced

STEP_SECONDS = 0.1

_SCENES = resources.files('sim_node').joinpath('scenes')


@dataclass(frozen=True)
class Piece:
    """A stretch of a path: straight for `straight` m, or `turn` degrees (positive to the left) at `radius` m."""

    straight: float = 0.0
    turn: float = 0.0
    radius: float = 0.0


@dataclass(frozen=True)
class Path2D:
    """A path from a pose (x m, y m, heading degrees), piece by piece."""

    start: tuple[float, float, float]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Road:
    """A road of others: its reference path and the lanes beside it, by their offset to the left in m."""

    path: Path2D
    lanes: tuple[float, ...]
    lane_width: float = 3.5


@dataclass(frozen=True)
class Vehicle:
    """Every vehicle's body and steering."""

    length: float = 4.6               # m
    width: float = 1.9                # m
    front_axle: float = 1.35          # m, from the centre of gravity
    rear_axle: float = 1.35           # m
    acceleration_limit: float = 4.0   # m/s², either way (paper)
    steering_limit: float = 0.6       # rad
    stanley_gain: float = 2.0         # 1/s
    stanley_softening: float = 1.0    # m/s


@dataclass(frozen=True)
class Ego:
    """Ego's route and start."""

    path: Path2D
    goal: float                                        # m of arc length at which the maneuver is done
    start_speed: tuple[float, float] = (0.0, 20.0)     # m/s (paper)
    start_margin: tuple[float, float] = (3.0, 12.0)    # m to spare when braking to the stop line …
    start_braking: float = 3.5                         # … at this, m/s²: ego can always stop
    stop_margin: float = 1.0                           # m from the stop line to the conflict zone
    speed_min: float = 0.0                             # m/s
    speed_max: float = 20.0                            # m/s
    cornering: float = 5.0                             # m/s² of lateral acceleration for which ego slows before a bend
    bend_braking: float = 3.0                          # m/s² with which it does
    sight: float = 200.0                               # m


@dataclass(frozen=True)
class Driver:
    """The other drivers' adaptive cruise control and lane changes."""

    cruise_gain: float = 0.5             # 1/s
    cruise_acceleration: float = 2.0     # m/s², towards the desired speed
    standstill_gap: float = 2.0          # m, bumper to bumper
    headway: float = 0.8                 # s
    gap_gain: float = 0.3                # 1/s²
    speed_gain: float = 1.0              # 1/s
    reaction: float = 0.3                # s, in the safe speed
    lane_change_time: float = 4.5        # s, along the planned trajectory
    lane_change_headway: float = 2.5     # s behind a slower leader at which a driver wants to pass
    lane_change_advantage: float = 1.0   # m/s that the leader must be below the desired speed
    lane_change_gap: float = 8.0         # m in front and behind, beside being able to stop
    lane_change_speed: float = 5.0       # m/s below which nobody begins one
    lane_change_speedup: float = 1.4     # times the speed at its beginning, at most, during one
    lane_change_pause: float = 3.0       # s between two changes


@dataclass(frozen=True)
class Temper:
    """What the hidden tempers do, once ego has committed itself and is near."""

    mix: tuple[float, float, float]                  # shares of yield, ignore, accelerate (paper)
    notice: float = 100.0                            # m from ego within which a driver reacts
    joined: float = 0.6                              # m from a lane's middle at which ego counts as in it
    yield_braking: float = 3.0                       # m/s²
    boost: tuple[float, float] = (3.0, 4.0)          # m/s², an accelerating driver's own, sampled
    boost_speed: float = 10.0                        # m/s over the desired speed


@dataclass(frozen=True)
class Traffic:
    """Who is born, when and how fast."""

    speed: tuple[float, float]                     # m/s, desired (paper)
    spawn_rate: float = 0.01                       # per step and birth lane (paper)
    spawned: int = 2                               # births at that rate, at most
    last_birth: float = 10.0                       # s after which nobody is born
    platoon: int = 5                               # vehicles under way when the episode begins
    first_arrival: tuple[float, float] = (0.5, 5.0)    # s until the first of them reaches the conflict zone
    arrival_gap: tuple[float, float] = (1.7, 4.5)      # s between their arrivals
    platoon_lanes: tuple[float, ...] = ()          # shares of the platoon by lane; equal if empty


@dataclass(frozen=True)
class Reward:
    """Paid at the end of an episode, and only then."""

    success: float          # × exp(-steps / decay) + bonus (paper)
    bonus: float
    decay: float = 50.0     # steps of 0.1 s
    collision: float = -50.0
    timeout: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One scene with one row of traffic: everything a simulation needs."""

    name: str
    title: str
    ego: Ego
    roads: tuple[Road, ...]
    temper: Temper
    traffic: Traffic
    reward: Reward
    window: tuple[float, float, float, float]    # m that a picture shows: x_min, y_min, x_max, y_max
    rows: dict[str, dict[str, Any]]
    pavement: tuple[tuple[float, float, float, float], ...] = ()    # m: further asphalt in pictures
    centre_lines: tuple[tuple[float, float, float, float], ...] = ()    # m: painted, x and y from … to
    row: str = 'train'
    vehicle: Vehicle = field(default_factory=Vehicle)
    driver: Driver = field(default_factory=Driver)
    layout: Layout = field(default_factory=Layout)
    max_steps: int = 300
    action_repeat: int = 4      # simulation steps per decision (paper)


def scenario_names() -> list[str]:
    """The scenes that come with the package."""
    return sorted(item.name[:-5] for item in _SCENES.iterdir()
                  if item.name.endswith('.yaml'))


def load_scenario(name: str, row: str = 'train', changes: dict[str, Any] | None = None) -> Scenario:
    """A scene by name (or the path of a scene file), on a row of its extrapolation table, with settings changed.

    `changes` maps dotted names to values, for instance {'traffic.spawn_rate': 0.05, 'layout.time': True}.
    """
    scenario = _read(name)
    if row not in scenario.rows:
        raise SettingsError(f'row {row!r}: {scenario.name} has no such row; {choices(scenario.rows)}')
    scenario = replaced(scenario, {**scenario.rows[row], 'row': row, **(changes or {})}, scenario.name)
    _validate(scenario)
    return scenario


@cache
def _read(name: str) -> Scenario:
    if name.endswith('.yaml'):
        try:
            text = Path(name).read_text()
        except OSError as error:
            raise SettingsError(f'scenario {name!r}: {error.strerror}') from None
    elif name in scenario_names():
        text = _SCENES.joinpath(f'{name}.yaml').read_text()
    else:
        raise SettingsError(f'scenario {name!r} is unknown; {choices(scenario_names())}, or give the path of a .yaml')
    try:
        return from_mapping(Scenario, yaml.safe_load(text), name)
    except yaml.YAMLError as error:
        raise SettingsError(f'scenario {name!r}: not YAML: {error}') from None


def _validate(scenario: Scenario) -> None:
    traffic, temper, ego, where = scenario.traffic, scenario.temper, scenario.ego, scenario.name
    for label, (low, high) in {
        'traffic.speed': traffic.speed, 'traffic.first_arrival': traffic.first_arrival,
        'traffic.arrival_gap': traffic.arrival_gap, 'temper.boost': temper.boost,
        'ego.start_speed': ego.start_speed, 'ego.start_margin': ego.start_margin,
    }.items():
        check(0.0 <= low <= high, f'{where}.{label}', f'expected 0 <= low <= high, got [{low}, {high}]')
    check(0.0 <= traffic.spawn_rate < 1.0, f'{where}.traffic.spawn_rate',
          f'expected a probability per step in [0, 1), got {traffic.spawn_rate}')
    check(traffic.speed[0] > 0.0, f'{where}.traffic.speed', 'vehicles must move: the lower bound must exceed 0')
    check(traffic.spawned >= 0 and traffic.platoon >= 0, f'{where}.traffic', 'numbers of vehicles cannot be negative')
    check(min(temper.mix) >= 0.0 and abs(sum(temper.mix) - 1.0) < 1e-9, f'{where}.temper.mix',
          f'expected three shares that add up to 1, got {list(temper.mix)}')
    check(scenario.max_steps > 0 and scenario.action_repeat > 0, where, 'max_steps and action_repeat must be positive')
    check(scenario.layout.version == VERSION, f'{where}.layout.version',
          f'this software speaks observation layout {VERSION}')
    check(scenario.layout.vehicles > 0, f'{where}.layout.vehicles', 'at least one vehicle must be observed')
    lanes = sum(len(road.lanes) for road in scenario.roads)
    check(lanes > 0, f'{where}.roads', 'a scene needs a lane for the others')
    check(len(traffic.platoon_lanes) in (0, lanes), f'{where}.traffic.platoon_lanes', f'expected {lanes} shares')
