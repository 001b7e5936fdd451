"""The simulator's memory: one record per scene (ego and clock), one per vehicle, one of constants."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np

from sim_node.geometry import Geometry
from sim_node.scenario import Scenario

RUNNING, SUCCESS, COLLISION, TIMEOUT = range(4)
OUTCOMES = ('running', 'success', 'collision', 'timeout')

# A vehicle's way through an episode. One that cannot be born because its place is taken is dropped.
WAITING, DRIVING, GONE, DROPPED = range(4)

_F, _I = np.float64, np.int64

SCENE = np.dtype([
    ('seed', _I), ('stride', _I), ('step', _I), ('outcome', _I), ('hit', _I),
    ('x', _F), ('y', _F), ('heading', _F), ('speed', _F), ('acceleration', _F),
    ('row', _I), ('s', _F), ('lateral', _F),     # where ego's front axle is on its route
])

CAR = np.dtype([
    ('status', _I), ('birth', _I), ('temper', _I), ('desired', _F), ('boost', _F), ('start', _F),
    ('x', _F), ('y', _F), ('heading', _F), ('speed', _F), ('acceleration', _F),
    ('lane', _I), ('target', _I), ('change', _F), ('change_length', _F), ('rest', _F),
    ('row', _I), ('s', _F), ('lateral', _F),     # where its centre is on its road
])

RESULT = np.dtype([
    ('reward', np.float32), ('done', np.bool_), ('outcome', np.int8), ('steps', np.int32), ('hit', np.int32),
    ('seed', _I),
])


def constants(scenario: Scenario, geometry: Geometry) -> np.ndarray:
    """All numbers of a scenario as one record: `driver.headway` becomes `driver_headway`, a range `…_0` and `…_1`."""
    values: dict[str, float] = {}
    for group in ('vehicle', 'ego', 'driver', 'temper', 'traffic', 'reward'):
        for name, value in dataclasses.asdict(getattr(scenario, group)).items():
            if isinstance(value, tuple):
                values.update({f'{group}_{name}_{index}': item for index, item in enumerate(value)})
            elif isinstance(value, int | float):
                values[f'{group}_{name}'] = value
    for name in ('ego_first', 'ego_last', 'stop_line', 'conflict_enter', 'conflict_leave'):
        values[name] = getattr(geometry, name)
    values['max_steps'] = scenario.max_steps
    values['with_time'] = scenario.layout.time
    lanes = len(geometry.lanes)
    shares = scenario.traffic.platoon_lanes or (1.0,) * lanes
    names = tuple(name for name in values if not name.startswith('traffic_platoon_lanes_'))
    record = np.zeros(1, _constants_type(names, lanes))
    for name in names:
        record[name] = values[name]
    record['platoon_share'] = np.cumsum(shares) / np.sum(shares)
    return record


@cache
def _constants_type(names: tuple[str, ...], lanes: int) -> np.dtype:
    # One object for all batches: numba compares types at every call, and two equal ones field by field (4 µs).
    return np.dtype([*((name, _F) for name in names), ('platoon_share', _F, (lanes,))])
