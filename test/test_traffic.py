"""The other drivers, watched over many random episodes on every row."""

import math

import numba
import numpy as np
import pytest

from sim_node.batch import Batch
from sim_node.compiled import compiled
from sim_node.drivers import IGNORE
from sim_node.scenario import load_scenario, scenario_names
from sim_node.state import DRIVING
from sim_node.vehicles import overlap

ROWS = [(name, row) for name in scenario_names() for row in load_scenario(name).rows]

(overlap_compiled,) = compiled(overlap)


@numba.njit
def count_overlaps(cars, length, width):
    """Pairs of vehicles, other than ego, whose bodies overlap."""
    found = 0
    for i in range(cars.shape[0]):
        for j in range(cars.shape[1]):
            for k in range(j):
                a, b = cars[i, j], cars[i, k]
                if a.status == DRIVING and b.status == DRIVING and overlap_compiled(
                        b.x - a.x, b.y - a.y, math.cos(a.heading), math.sin(a.heading), length, width,
                        math.cos(b.heading), math.sin(b.heading), length, width):
                    found += 1
    return found


class Watch:
    """What 64 scenes at once show while ego drives at random."""

    def __init__(self, name: str, row: str, episodes: int) -> None:
        scenario = load_scenario(name, row)
        batch = Batch(scenario, 64)
        batch.reset(np.arange(64) + 5_000_000)
        random = np.random.default_rng(1)
        road = scenario.roads[0]
        self.overlaps = self.ended = self.changes = 0
        self.hardest = self.sharpest = self.furthest = 0.0
        while self.ended < episodes:
            before, ego_before = batch.cars.copy(), batch.scenes.copy()
            result = batch.step(random.choice([-4.0, 0.0, 4.0], 64, p=[0.4, 0.3, 0.3]))
            cars = batch.cars
            self.ended += int(result.done.sum())
            self.overlaps += count_overlaps(cars, scenario.vehicle.length, scenario.vehicle.width)
            going_on = (before['status'] == DRIVING) & (cars['status'] == DRIVING) & ~result.done[:, None]
            changing = going_on & (before['lane'] != before['target'])
            self.changes += int((going_on & (before['target'] == before['lane'])
                                 & (cars['target'] != cars['lane'])).sum())
            speed_change = np.abs(cars['speed'] - before['speed'])[going_on]
            ego_change = np.abs(batch.scenes['speed'] - ego_before['speed'])[~result.done]
            self.hardest = max(self.hardest, speed_change.max(initial=0) / 0.1, ego_change.max(initial=0) / 0.1)
            turn = np.abs(cars['heading'] - before['heading'])[changing] / 0.1 * before['speed'][changing]
            self.sharpest = max(self.sharpest, turn.max(initial=0))
            edge = max(abs(offset) for offset in road.lanes) + road.lane_width / 2
            body = np.abs(cars['lateral']) + scenario.vehicle.width / 2 - edge
            self.furthest = max(self.furthest, body[going_on].max(initial=-9.0) + 9.0)


@pytest.mark.parametrize(('name', 'row'), ROWS)
def test_drivers_keep_the_rules_of_the_road_on_every_row(name: str, row: str) -> None:
    watch = Watch(name, row, 700)
    print(f'{name} {row}: {watch.ended} episodes, {watch.overlaps} overlaps, {watch.changes} lane changes, '
          f'hardest {watch.hardest:.3f} m/s², sharpest {watch.sharpest:.2f} m/s²')
    assert watch.overlaps == 0
    assert watch.hardest <= 4.0 + 1e-9
    assert watch.sharpest < 3.0
    assert watch.furthest < 9.0, 'a body left the road'
    assert watch.changes > 10


def test_a_driver_heeds_a_standing_car_beside_one_that_is_passing_it() -> None:
    """It begins to change lanes; the nearest ahead is in the other lane, at 12 m/s, and 12 m further on a car stands in
    its own: 33.4 m away, of which braking from 15 m/s at 4 m/s² takes 28."""
    batch = Batch(load_scenario('merge'), 1, auto_reset=False)
    batch.reset([0])
    cars = batch.cars[0]
    cars['status'][3:] = 0
    for car, s, speed, lane, target in ((0, 100.0, 0.0, 0, 0), (1, 88.0, 12.0, 1, 1), (2, 62.0, 15.0, 0, 1)):
        cars[['status', 'lane', 'target', 's', 'x', 'y', 'lateral', 'heading', 'speed', 'desired']][car] = (
            DRIVING, lane, target, s, s - 135.0, 3.5 * lane - 1.75, 3.5 * lane - 1.75, 0.0, speed, speed)
        cars['change'][car], cars['change_length'][car] = 1.0, 67.0
    for _ in range(30):
        batch.step([-4.0])
        assert cars['s'][2] + 4.6 < cars['s'][0]


@pytest.mark.parametrize(('headway', 'closes_up'), [(0.8, False), (0.0, True)])
def test_who_hurries_closes_up_to_the_one_in_front_unless_it_keeps_a_headway(headway: float, closes_up: bool) -> None:
    """Two at 10 m/s, 10 m between them: the headway and the gap of a standing car, 8 m + 2 m."""
    changes = {'temper.boost_headway': headway, 'temper.mix': [0.0, 0.0, 1.0], 'temper.boost': [2.0, 2.0]}
    batch = Batch(load_scenario('merge', changes=changes), 1, auto_reset=False)
    batch.reset([0])
    cars = batch.cars[0]
    cars['status'][2:] = 0
    for car, s in ((0, 54.6), (1, 40.0)):
        cars[['status', 'lane', 'target', 's', 'x', 'y', 'lateral', 'heading', 'speed', 'desired']][car] = (
            DRIVING, 0, 0, s, s - 135.0, -1.75, -1.75, 0.0, 10.0, 10.0)
    cars['temper'][0] = IGNORE
    gaps = []
    for _ in range(30):
        batch.step([4.0])
        gaps.append(cars['s'][0] - cars['s'][1] - 4.6)
    assert (min(gaps) < 7.5) == closes_up
    assert (min(gaps) > 9.5) != closes_up
