"""Our scenes as SUMO networks and routes: the same roads, lanes, bodies, drivers' numbers and traffic.

The traffic of a seed is the one our own simulator draws: births, places, speeds and lanes are read from a scene that
has just begun. Everything is written as plain XML into a folder of the caller's.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import sumo

from sim_node.batch import Batch
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.state import DRIVING, WAITING

Element = tuple[str, dict[str, object]]
Network = tuple[dict[str, tuple[float, float]], list[dict[str, object]], list[tuple[str, str, int]]]

FAST_ROAD = 60.0    # m/s: no limit but the vehicles' own
JOIN_HALF = 6.0     # m
# Others come in over `main` and go out over `exit`; ego comes in over `side`. `turn` is the left turn's own way out.
EGO_ROUTE = {'left_turn': 'side turn', 'merge': 'side exit'}


def write_network(scenario: Scenario, folder: Path) -> Path:
    """Write a scene's nodes, edges and connections and have netconvert make a network of them."""
    nodes, edges, links = {'left_turn': _left_turn, 'merge': _merge}[scenario.name](scenario)
    width = scenario.roads[0].lane_width
    paths = {kind: folder / f'{scenario.name}.{kind}.xml' for kind in ('nod', 'edg', 'con', 'net')}
    _write(paths['nod'], 'nodes', (('node', {'id': name, 'x': x, 'y': y, 'type': 'priority', **_shape(name, x, y)})
                                   for name, (x, y) in nodes.items()))
    _write(paths['edg'], 'edges', (('edge', {
        **edge, 'speed': FAST_ROAD, 'width': width, 'priority': 1 if edge['id'] == 'side' else 2}) for edge in edges))
    _write(paths['con'], 'connections', (('connection', {'from': a, 'to': b, 'fromLane': lane, 'toLane': lane})
                                         for a, b, lane in links))
    subprocess.run([f'{sumo.SUMO_HOME}/bin/netconvert', '-n', paths['nod'], '-e', paths['edg'], '-x', paths['con'],
                    '-o', paths['net'], '--no-turnarounds', 'true', '--no-warnings', 'true'],
                   check=True, capture_output=True, text=True)
    return paths['net']


def write_traffic(scenario: Scenario, seed: int, path: Path) -> None:
    """Write ego and the traffic that a seed means in our simulator as SUMO vehicles."""
    batch = Batch(scenario, 1)
    batch.reset(seed)
    body, driver, ego = scenario.vehicle, scenario.driver, batch.scenes[0]
    front = body.length / 2     # SUMO's positions are front bumpers
    lane_index = np.argsort(np.argsort(scenario.roads[0].lanes))   # SUMO counts lanes from the right
    elements: list[Element] = [
        ('vType', {'id': 'car', 'length': body.length, 'width': body.width, 'minGap': driver.standstill_gap,
                   'tau': driver.headway, 'accel': driver.cruise_acceleration, 'decel': body.acceleration_limit,
                   'sigma': 0, 'speedFactor': 1}),
        ('route', {'id': 'ego', 'edges': EGO_ROUTE[scenario.name]}),
        ('route', {'id': 'others', 'edges': 'main exit'}),
        ('vehicle', {'id': 'ego', 'type': 'car', 'route': 'ego', 'depart': 0, 'departPos': float(ego['s']) + front,
                     'departSpeed': float(ego['speed']), 'insertionChecks': 'none',
                     'arrivalPos': _goal_on_last_edge(scenario)})]
    cars = batch.cars[0]
    for number in np.argsort(cars['birth'], kind='stable'):
        car = cars[number]
        if car['status'] in (WAITING, DRIVING):
            elements.append(('vehicle', {
                'id': number, 'type': 'car', 'route': 'others', 'depart': round(car['birth'] * STEP_SECONDS, 1),
                'departLane': lane_index[car['lane']], 'departPos': float(car['start']) + front,
                'departSpeed': float(car['desired']), 'maxSpeed': float(car['desired'])}))
    _write(path, 'routes', elements)


def _left_turn(scenario: Scenario) -> Network:
    road, (straight, bend, _) = scenario.roads[0], scenario.ego.path.pieces
    half = road.lane_width / 2
    _, top, _ = road.path.start
    ego_x, bottom, _ = scenario.ego.path.start
    end_x = ego_x - bend.radius - scenario.ego.path.pieces[2].straight
    # SUMO lays lanes to the right of the line between nodes: ego's own lanes lie half a width beside it.
    middle = (ego_x - half, bottom + straight.straight + bend.radius - half)
    nodes = {'south': (middle[0], bottom), 'north': (middle[0], top), 'crossing': middle,
             'far': (middle[0], top - road.path.pieces[0].straight), 'west': (end_x, middle[1])}
    lanes = len(road.lanes)
    edges = [_edge('side', 'south', 'crossing', 1), _edge('turn', 'crossing', 'west', 1),
             _edge('main', 'north', 'crossing', lanes), _edge('exit', 'crossing', 'far', lanes)]
    return nodes, edges, [('side', 'turn', 0), *(('main', 'exit', lane) for lane in range(lanes))]


def _merge(scenario: Scenario) -> Network:
    road = scenario.roads[0]
    left, y, _ = road.path.start
    x, ramp_y, degrees = scenario.ego.path.start
    line = y + len(road.lanes) * road.lane_width / 2
    join_x = x + scenario.ego.path.pieces[0].straight * math.cos(math.radians(degrees))
    nodes = {'ramp': (x, ramp_y), 'left': (left, line), 'join': (join_x, line),
             'right': (left + road.path.pieces[0].straight, line)}
    lanes = len(road.lanes)
    half = road.lane_width / 2
    ramp = f'{x},{ramp_y + half} {join_x},{y + min(road.lanes) + half}'
    edges = [{**_edge('side', 'ramp', 'join', 1), 'shape': ramp}, _edge('main', 'left', 'join', lanes),
             _edge('exit', 'join', 'right', lanes)]
    return nodes, edges, [('side', 'exit', 0), *(('main', 'exit', lane) for lane in range(lanes))]


def _edge(name: str, start: str, end: str, lanes: int) -> dict[str, object]:
    return {'id': name, 'from': start, 'to': end, 'numLanes': lanes}


def _shape(node: str, x: float, y: float) -> dict[str, object]:
    """The outline of the merge's junction: left to itself, netconvert makes one of 40 m where roads meet so flatly."""
    if node != 'join':
        return {}
    corners = ((-JOIN_HALF, -10.0), (JOIN_HALF, -10.0), (JOIN_HALF, 1.0), (-JOIN_HALF, 1.0))
    return {'shape': ' '.join(f'{x + dx},{y + dy}' for dx, dy in corners)}


def _goal_on_last_edge(scenario: Scenario) -> float:
    straight, bend, _ = scenario.ego.path.pieces
    return scenario.ego.goal - straight.straight - math.radians(abs(bend.turn)) * bend.radius + scenario.vehicle.length


def _write(path: Path, root: str, elements: Iterable[Element]) -> None:
    tree = ElementTree.Element(root)
    for tag, attributes in elements:
        ElementTree.SubElement(tree, tag, {name: str(value) for name, value in attributes.items()})
    ElementTree.ElementTree(tree).write(path)
