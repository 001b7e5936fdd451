"""Physics a person can check by hand."""

import math

import numpy as np
import pytest

from sim_node.batch import Batch
from sim_node.drivers import lane_change_offset, safe_speed
from sim_node.geometry import build_geometry
from sim_node.roads import arrival, direction, locate, new_way, predict_way, project, segment_rows
from sim_node.scenario import load_scenario
from sim_node.state import DRIVING, RUNNING, WAITING
from sim_node.vehicles import bicycle, overlap, stanley

SCENARIOS = ('left_turn', 'merge')


State = tuple[float, float, float, float]     # x, y, heading, speed


def ride(state: State, acceleration: float, steering: float, dt: float) -> State:
    x, y, heading, speed = state
    return bicycle(x, y, heading, math.cos(heading), math.sin(heading), speed, acceleration, steering, 1.35, 1.35,
                   0.0, 50.0, dt)


def straight_on(speed: float, acceleration: float, steps: int) -> State:
    state = (0.0, 0.0, 0.0, speed)
    for _ in range(steps):
        state = ride(state, acceleration, 0.0, 0.1)
    return state


def test_20_metres_per_second_for_2_seconds_is_40_metres() -> None:
    x, y, heading, speed = straight_on(20.0, 0.0, 20)
    assert (x, y, heading, speed) == (pytest.approx(40.0), 0.0, 0.0, 20.0)


def test_braking_stops_a_car_and_never_reverses_it() -> None:
    x, _, _, speed = straight_on(8.0, -4.0, 50)
    assert speed == 0.0
    assert x == pytest.approx(0.1 * (8.0 + 0.4) / 2 * 20)     # 8.0, 7.6, …, 0.4 m/s for 0.1 s each


def test_a_steered_bicycle_drives_the_circle_of_its_steering_angle() -> None:
    # A rear axle at the centre of gravity's distance: R = (lf + lr) / tan(steering) for the rear axle.
    steering = math.atan(2.7 / 20.0)
    state = (0.0, 0.0, 0.0, 1.0)
    headings = []
    for _ in range(100):
        state = ride(state, 0.0, steering, 0.01)
        headings.append(state[2])
    radius_of_centre = math.hypot(20.0, 1.35)
    assert headings[-1] == pytest.approx(1.0 / radius_of_centre, rel=1e-3)


def test_stanley_steers_back_towards_the_path_and_along_it() -> None:
    assert stanley(1.0, 0.0, 10.0, 2.0, 1.0, 0.6) == pytest.approx(-math.atan(2.0 / 11.0))
    assert stanley(0.0, 0.2, 10.0, 2.0, 1.0, 0.6) == pytest.approx(-0.2)
    assert stanley(50.0, 0.0, 0.0, 2.0, 1.0, 0.6) == -0.6


def test_rectangles_touch_exactly_where_their_edges_do() -> None:
    def cars_overlap(dx: float, dy: float, heading: float) -> bool:
        return overlap(dx, dy, 1.0, 0.0, 4.0, 2.0, math.cos(heading), math.sin(heading), 4.0, 2.0)

    assert cars_overlap(3.99, 0.0, 0.0)
    assert not cars_overlap(4.01, 0.0, 0.0)
    assert cars_overlap(0.0, 1.99, 0.0)
    assert not cars_overlap(0.0, 2.01, 0.0)
    assert cars_overlap(2.99, 0.0, math.pi / 2)
    assert not cars_overlap(3.01, 0.0, math.pi / 2)
    # Corner to corner at 45°: the axes of the turned rectangle separate what the bounding boxes do not.
    assert not cars_overlap(3.6, 2.6, math.pi / 4)
    assert cars_overlap(3.0, 2.0, math.pi / 4)


def test_overlap_agrees_with_points_sampled_inside_the_rectangles() -> None:
    random = np.random.default_rng(0)
    inside = random.uniform(-0.5, 0.5, (4000, 2)) * (4.6, 1.9)
    for _ in range(300):
        dx, dy, heading = random.uniform(-5, 5), random.uniform(-4, 4), random.uniform(-math.pi, math.pi)
        cos, sin = math.cos(heading), math.sin(heading)
        ahead = (inside[:, 0] - dx) * cos + (inside[:, 1] - dy) * sin
        left = (inside[:, 1] - dy) * cos - (inside[:, 0] - dx) * sin
        shared = np.mean((abs(ahead) < 2.3) & (abs(left) < 0.95))
        found = overlap(dx, dy, 1.0, 0.0, 4.6, 1.9, cos, sin, 4.6, 1.9)
        assert found or shared == 0.0
        assert not found or shared > 0.0 or True in _nearly_touching(dx, dy, cos, sin)


def _nearly_touching(dx: float, dy: float, cos: float, sin: float) -> list[bool]:
    """An overlap too small to have caught a sample: shrinking the rectangles by 20 cm parts them."""
    return [not overlap(dx, dy, 1.0, 0.0, 4.4, 1.7, cos, sin, 4.4, 1.7)]


def test_arc_length_and_offset_survive_the_way_to_the_plane_and_back() -> None:
    rows = segment_rows((3.0, -2.0, 0.4), [(20.0, 0.0), (15.0, 0.08), (10.0, -0.05), (12.0, 0.0)])
    for s in np.linspace(-3.0, 60.0, 64):
        for lateral in (-1.5, 0.0, 2.0):
            x, y, heading = locate(rows, 0, 3, s, lateral)
            _, found, offset, tangent = project(rows, 0, 3, 0, x, y)
            assert (found, offset) == (pytest.approx(s, abs=1e-9), pytest.approx(lateral, abs=1e-9))
            assert math.cos(tangent - heading) == pytest.approx(1.0)


def test_the_safe_speed_lets_a_follower_stop_behind_a_leader_braking_as_hard() -> None:
    for gap, leader in ((5.0, 0.0), (20.0, 10.0), (60.0, 25.0)):
        speed, reaction, braking = safe_speed(gap, leader, 4.0, 0.3), 0.3, 4.0
        room = gap + leader ** 2 / (2 * braking) - speed ** 2 / (2 * braking) - speed * reaction
        assert room == pytest.approx(0.0, abs=1e-9)


def test_a_lane_change_begins_and_ends_at_rest_beside_its_lane() -> None:
    assert lane_change_offset(0.0) == (0.0, 0.0)
    assert lane_change_offset(1.0) == (1.0, 0.0)
    assert lane_change_offset(0.5) == (0.5, 1.875)


@pytest.mark.parametrize('name', SCENARIOS)
def test_ego_on_its_route_stays_within_30_cm_of_it(name: str) -> None:
    for cruising in (3.0, 6.0, 10.0):
        scenario = load_scenario(name, changes={
            'traffic.platoon': 0, 'traffic.spawned': 0, 'ego.start_speed': [cruising, cruising],
            'ego.cornering': 50.0})
        batch = Batch(scenario, 1, auto_reset=False)
        batch.reset([1])
        geometry = build_geometry(scenario)
        worst = 0.0
        while batch.scenes['outcome'][0] == RUNNING:
            batch.step([0.0])
            scene = batch.scenes[0]
            front_x = scene['x'] + 1.35 * math.cos(scene['heading'])
            front_y = scene['y'] + 1.35 * math.sin(scene['heading'])
            _, _, lateral, _ = project(geometry.segments, 0, geometry.ego_last, 0, front_x, front_y)
            worst = max(worst, abs(lateral))
        assert worst < 0.3


def test_a_car_behind_a_standing_car_stops_without_touching_it() -> None:
    batch = Batch(load_scenario('left_turn', changes={'traffic.platoon': 2, 'traffic.spawned': 0}), 1)
    for speed in (5.0, 15.0, 25.0):
        batch.reset([3])
        cars = batch.cars[0]
        cars['status'], cars['lane'], cars['target'] = DRIVING, 0, 0
        cars['row'], cars['heading'], cars['x'], cars['lateral'] = 3, -math.pi / 2, -1.75, 1.75
        cars['s'], cars['speed'], cars['desired'] = (120.0, 30.0), (0.0, speed), (0.0, speed)
        cars['y'] = 155.0 - cars['s']
        # No way around: the other lane is as blocked as the own one.
        cars['rest'] = 1000.0
        for _ in range(290):
            batch.step([-4.0])
            assert cars['s'][0] - cars['s'][1] > 4.6
        assert cars['speed'][1] == pytest.approx(0.0, abs=0.05)
        assert cars['s'][0] - cars['s'][1] - 4.6 == pytest.approx(2.0, abs=0.7)


def test_a_vehicle_that_is_not_yet_born_takes_no_part() -> None:
    batch = Batch(load_scenario('left_turn', changes={'traffic.spawn_rate': 0.0}), 8)
    batch.reset(list(range(8)))
    waiting = batch.cars['status'] == WAITING
    assert batch.counts.tolist() == (batch.cars['status'] == DRIVING).sum(axis=1).tolist()
    assert (batch.cars['birth'][waiting] > 0).all()


def test_a_predicted_way_by_hand() -> None:
    """From 10 m/s at 4 m/s² on a straight: 0, 1, 2.04, 3.12 m, … after 0, 0.1, 0.2, 0.3 s."""
    road, way = segment_rows((0.0, 0.0, 0.0), [(100.0, 0.0)]), new_way()

    def predicted(end: float, horizon: float, speed_max: float = 50.0) -> int:
        return predict_way(road, 0, 0.0, 10.0, end, 4.0, speed_max, 4.0, 2.0, horizon, way)
    count = predicted(3.0, 10.0)
    assert way[:count].tolist() == [pytest.approx(row) for row in
                                    ([0.0, 0.0, 10.0], [0.1, 1.0, 10.4], [0.2, 2.04, 10.8], [0.3, 3.12, 11.2])]
    assert arrival(way, count, 1.52) == pytest.approx((0.15, 10.4))
    assert arrival(way, count, 0.0) == (0.0, 10.0)     # there already
    assert arrival(way, count, 3.5) == pytest.approx((0.3, 11.2))     # not there by then
    count = predicted(90.0, 0.95, speed_max=10.0)
    assert (count, way[count - 1, 1]) == (11, pytest.approx(10.0))
    assert predict_way(road, 0, 0.0, 0.0, 90.0, 0.0, 50.0, 4.0, 2.0, 1e9, way) == len(way)     # room for no more


def test_a_predicted_way_is_slow_enough_for_the_bend() -> None:
    """A bend of 16 m at up to 4 m/s² sideways: 8 m/s."""
    road, way = segment_rows((0.0, 0.0, 0.0), [(40.0, 0.0), (20.0, 1.0 / 16.0)]), new_way()
    count = predict_way(road, 1, 0.0, 12.0, 55.0, 4.0, 50.0, 4.0, 2.0, 60.0, way)
    assert arrival(way, count, 40.0)[1] == pytest.approx(8.0, abs=0.4)     # one step before it
    assert arrival(way, count, 20.0)[1] > 10.0


def test_a_heading_along_the_road_has_the_roads_direction() -> None:
    road = segment_rows((0.0, 0.0, 0.5), [(40.0, 0.0)])
    for heading in (0.5, 0.7):
        assert direction(road, 0, heading) == (math.cos(heading), math.sin(heading))
