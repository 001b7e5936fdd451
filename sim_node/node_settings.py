"""What can be set on the simulator node, and the scene that this asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim_node.parameters import Row
from sim_node.scenario import Scenario, load_scenario, scenario_names
from sim_node.settings import check

FRAME, BASE_FRAME = 'map', 'base_link'
COMMAND = 'ego/acceleration_command'

PARAMETERS = (
    Row('scenario', 'left_turn', 'the scene, from the next reset on', choices=tuple(scenario_names())),
    Row('row', 'train', "row of the scene's extrapolation table, from the next reset on"),
    Row('seed', 0, 'seed of the next episode; each further one adds 1', low=0, high=9_000_000_000_000_000_000),
    Row('speed_factor', 1.0, 'how much faster than real time; 0: as fast as the commands come', low=0.0, high=1000.0),
    Row('lockstep', False, 'wait for the command that answers each state', read_only=True),
    Row('episodes', 0, 'end after this many episodes; 0: never', low=0, high=1_000_000_000, read_only=True),
    Row('await_driver', False, 'the first state stands until a command has come', read_only=True),
    Row('await_recorder', False, 'begin only when a recorder listens to everything; in lock-step, wait where it falls '
        'behind', read_only=True),
    Row('command_timeout', 0.5, 'silence after which ego brakes, or in lock-step the episode ends', 's', 0.05, 3600.0),
    Row('failsafe_deceleration', 4.0, 'how ego brakes when nobody drives', 'm/s²', 0.0, 4.0),
    Row('scene_pose', (0.0, 0.0, 0.0), "where the scene's origin lies in the map: x, y, yaw", 'm, m, rad'),
    Row('traffic.spawn_rate', -1.0, "births per step and lane; -1: the row's", low=-1.0, high=0.99),
    Row('traffic.speed_min', -1.0, "slowest desired speed; -1: the row's", 'm/s', -1.0, 60.0),
    Row('traffic.speed_max', -1.0, "fastest desired speed; -1: the row's", 'm/s', -1.0, 60.0),
    Row('traffic.platoon', -1, "vehicles under way at the start; -1: the row's", low=-1, high=100),
    Row('traffic.spawned', -1, "further vehicles at most; -1: the row's", low=-1, high=100),
)


def wanted_scenario(values: Mapping[str, Any]) -> Scenario:
    """The scene that the parameters ask for; a SettingsError says why there is none."""
    row = load_scenario(values['scenario'], values['row'])
    for name, value in values.items():
        check(not name.startswith('traffic.') or value >= 0 or value == -1, name,
              f"expected -1 (the row's) or at least 0, got {value}")
    asked = values['traffic.speed_min'], values['traffic.speed_max']
    changes: dict[str, Any] = {
        'traffic.speed': [speed if speed >= 0 else own for speed, own in zip(asked, row.traffic.speed, strict=True)]}
    changes.update({name: values[name] for name in ('traffic.spawn_rate', 'traffic.platoon', 'traffic.spawned')
                    if values[name] >= 0})
    return load_scenario(values['scenario'], values['row'], changes)
