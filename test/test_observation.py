"""`observe()`: its layout, its choice of vehicles, and that both of its paths agree."""

import math

import numpy as np
import pytest

from sim_node.batch import Batch
from sim_node.geometry import build_geometry
from sim_node.observation import (
    CONFLICTS,
    EGO_ENTERS,
    EGO_JOINS,
    LANE_ENTERS,
    LANE_JOINS,
    VERSIONS,
    Layout,
    observe,
)
from sim_node.roads import new_way
from sim_node.scenario import load_scenario, scenario_names
from sim_node.state import COLLISION


def look(name: str, ego: tuple[float, ...], others: list[tuple[float, ...]], layout: Layout | None = None,
         elapsed: float = 0.0, **changes: float) -> np.ndarray:
    layout = layout or Layout()
    ego_changes = {f'ego.{key}': value for key, value in changes.items()}
    geometry = build_geometry(load_scenario(name, changes={**layout.changes(), **ego_changes}))
    out = np.zeros(layout.size, np.float32)
    rows = np.array(others, dtype=np.float64).reshape(-1, 4)
    observe(geometry.segments, geometry.lanes, geometry.view, np.array(ego), rows, len(rows), elapsed, layout.time,
            new_way(), out)
    return out


SOUTH = -math.pi / 2
EGO = (1.75, -12.0, math.pi / 2, 3.0)


def test_ego_comes_first_then_the_closest_oncoming_vehicles_in_order() -> None:
    far, near, middle = (-1.75, 90.0, SOUTH, 20.0), (-5.25, 20.0, SOUTH, 11.0), (-1.75, 50.0, SOUTH, 15.0)
    seen = look('left_turn', EGO, [far, near, middle])
    expected = [*EGO, -7.0, 32.0, SOUTH, 11.0, -3.5, 62.0, SOUTH, 15.0, -3.5, 102.0, SOUTH, 20.0]
    assert seen.dtype == np.float32
    assert seen == pytest.approx(np.array(expected, np.float32))


def test_the_furthest_of_four_is_left_out_whatever_their_order() -> None:
    oncoming = [(-1.75, y, SOUTH, 10.0 + y / 10) for y in (20.0, 40.0, 60.0, 80.0)]
    expected = look('left_turn', EGO, oncoming[:3])
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (3, 0, 1, 2)):
        assert np.array_equal(look('left_turn', EGO, [oncoming[k] for k in order]), expected)


def test_a_vehicle_that_has_passed_or_drives_elsewhere_is_not_seen() -> None:
    nobody = look('left_turn', EGO, [])
    passed, cross_traffic, own_direction = (-1.75, -25.0, SOUTH, 15.0), (-1.75, 30.0, 0.0, 15.0), \
        (1.75, 40.0, math.pi / 2, 10.0)
    out_of_sight = (-1.75, 500.0, SOUTH, 15.0)
    for other in (passed, cross_traffic, own_direction, out_of_sight):
        assert np.array_equal(look('left_turn', EGO, [other]), nobody)


def test_an_empty_slot_reads_as_a_vehicle_standing_where_they_are_born() -> None:
    assert look('left_turn', EGO, [])[4:8] == pytest.approx([-3.5, 167.0, SOUTH, 0.0])
    assert look('merge', (-20.0, -4.0, 0.06, 5.0), [])[4:8] == pytest.approx([-115.0, 2.25, 0.0, 0.0])


def test_in_the_merge_those_behind_and_a_slower_one_ahead_are_seen() -> None:
    ego = (0.0, -2.5, 0.06, 10.0)
    behind, slower_ahead, pulling_away = (-30.0, -1.75, 0.0, 12.0), (20.0, -1.75, 0.0, 6.0), (20.0, -1.75, 0.0, 14.0)
    other_lane = (-5.0, 1.75, 0.0, 12.0)
    assert look('merge', ego, [behind])[4:8] == pytest.approx([-30.0, 0.75, 0.0, 12.0])
    assert look('merge', ego, [behind, slower_ahead])[4:8] == pytest.approx([20.0, 0.75, 0.0, 6.0])
    assert np.array_equal(look('merge', ego, [pulling_away, other_lane]), look('merge', ego, []))


def test_a_vehicle_changing_into_the_merge_lane_is_seen_before_it_is_there() -> None:
    ego = (0.0, -2.5, 0.06, 10.0)
    assert look('merge', ego, [(-20.0, 0.8, -0.05, 12.0)])[4] == pytest.approx(-20.0)


def test_a_heading_with_a_full_turn_more_or_less_is_the_same_heading() -> None:
    oncoming = (-1.75, 40.0, SOUTH, 10.0)
    plain = look('left_turn', EGO, [oncoming])
    for turns in (-2, -1, 1, 3):
        shift = 2 * math.pi * turns
        turned = look('left_turn', (*EGO[:2], EGO[2] + shift, EGO[3]), [(*oncoming[:2], SOUTH + shift, 10.0)])
        assert turned == pytest.approx(plain, abs=1e-5)
    # Where the turn ends, ego points west: a hair more or less must not flip the sign.
    west = [look('left_turn', (-8.0, 2.0, math.pi + hair, 5.0), [])[2] for hair in (-1e-3, 0.0, 1e-3)]
    assert west == pytest.approx([math.pi - 1e-3, math.pi, math.pi + 1e-3], abs=1e-6)


def test_the_layout_decides_how_many_vehicles_and_whether_time_is_told() -> None:
    oncoming = [(-1.75, y, SOUTH, 10.0) for y in (20.0, 40.0)]
    seen = look('left_turn', EGO, oncoming, Layout(vehicles=2, time=True), elapsed=3.2)
    assert seen.shape == (13,)
    assert seen[-1] == np.float32(3.2)
    assert seen[8:12] == pytest.approx([-3.5, 52.0, SOUTH, 10.0])


CONFLICT = Layout(version=CONFLICTS, vehicles=2)
JOINING = Layout(version=CONFLICTS, vehicles=3)


def test_conflicts_are_in_order_of_arrival_and_nobody_never_arrives() -> None:
    near_but_slow, far_but_fast = (-1.75, 50.0, SOUTH, 5.0), (-1.75, 90.0, SOUTH, 30.0)
    seen = look('left_turn', EGO, [near_but_slow, far_but_fast], CONFLICT)
    assert seen.shape == (14,)
    assert seen[[5, 10]] == pytest.approx([30.0, 5.0])
    assert seen[4] - seen[9] == pytest.approx(40.0)
    assert look('left_turn', EGO, [], CONFLICT)[4:] == pytest.approx([200.0, 0.0, 10.0, 10.0, -10.0] * 2)
    in_front, behind = [-10.0, 0.0, -0.5, -2.0, 10.0], [10.0, 0.0, 10.0, 10.0, -0.5]
    assert look('merge', EGO, [], CONFLICT)[4:] == pytest.approx(in_front + behind)


def test_where_ego_joins_a_lane_conflicts_are_told_in_seconds() -> None:
    near_but_slow, far_but_fast = (-60.0, -1.75, 0.0, 8.0), (-110.0, -1.75, 0.0, 30.0)
    seen = look('merge', (-60.0, -7.9235, 0.0873, 20.0), [near_but_slow, far_but_fast], JOINING)
    assert seen[[10, 15]] == pytest.approx([15.0, 8.0])     # 15: or quicker
    assert 30.0 * seen[9] - 8.0 * seen[14] == pytest.approx(50.0, abs=1e-3)


def test_where_ego_joins_a_lane_the_last_one_in_front_has_a_slot_of_its_own() -> None:
    """Ego, at 20 m/s, is beside the lane's -3 m in 3 s; the others are where they are at that moment."""
    ego = (-60.0, -7.9235, 0.0873, 20.0)
    far_ahead, ahead, beside, behind, far_behind = ((then - 3.0 * 15.0, -1.75, 0.0, 15.0)
                                                   for then in (60.0, 30.0, -10.0, -40.0, -60.0))
    places = [look('merge', ego, [other], JOINING, cornering=100.0) for other in (ahead, behind, far_behind)]
    together = look('merge', ego, [behind, far_ahead, ahead, far_behind], JOINING, cornering=100.0)
    assert together[4:9] == pytest.approx(places[0][4:9])
    assert together[9:14] == pytest.approx(places[1][9:14])
    assert together[14:19] == pytest.approx(places[2][9:14])
    # Who is told of the first whom it may join in front of is told the same of the second, once the first has passed.
    alone = look('merge', ego, [beside], JOINING, cornering=100.0)
    assert alone[9:14] == pytest.approx(look('merge', ego, [ahead, beside], JOINING, cornering=100.0)[9:14])


def test_in_its_lane_ego_knows_when_to_brake_behind_the_one_in_front() -> None:
    """12 m/s behind 6 m/s: (6 m/s)² / (2 · 4 m/s²) = 4.5 m to brake, and a length, 4.6 m, between the centres."""
    for metres in (30.0, 20.0, 12.0, 8.0):
        seen = look('merge', (10.0, -1.75, 0.0, 12.0), [(metres + 10.0, -1.75, 0.0, 6.0)], JOINING)
        assert seen[8] == pytest.approx((metres - 4.6 - 4.5) / 12.0, abs=0.05)


def test_the_seconds_of_a_conflict_by_hand() -> None:
    """Ego drives 20 m/s on the straight merge ramp, already at its limit; the other one comes along the main road.

    Each must be a length, 4.6 m, behind the other; and ego, 10 m/s quicker, (10 m/s)² / (2 · 4 m/s²) = 12.5 m more.
    """
    ego, other = (-60.0, -7.9235, 0.0873, 20.0), (-60.0, -1.75, 0.0, 10.0)
    seen = look('merge', ego, [other], JOINING, cornering=100.0)
    to_zone, speed, until_zone, until_goal = seen[:4]
    assert speed == 20.0
    assert until_zone == pytest.approx(to_zone / 20.0, abs=1e-3)
    assert until_goal > until_zone
    arrives, other_speed, before, harmless, behind = seen[9:14]
    assert other_speed == 10.0
    lane = build_geometry(load_scenario('merge')).lanes[0]
    there = lane[LANE_JOINS] - lane[EGO_JOINS] + lane[EGO_ENTERS]     # of ego as it enters, along the lane
    now = lane[LANE_ENTERS] - 10.0 * arrives
    assert before == pytest.approx(arrives - until_zone - 4.6 / 10.0, abs=1e-3)
    until_joined = until_zone + (lane[EGO_JOINS] - lane[EGO_ENTERS]) / 20.0
    gap = lane[LANE_JOINS] - 4.6 - now
    until_then = 10.0 * until_joined + 0.5 * harmless * until_joined ** 2
    quick = 10.0 + harmless * until_joined
    assert quick > 20.0
    assert gap - until_then == pytest.approx((quick - 20.0) ** 2 / 8.0, abs=1e-2)
    assert behind == -0.5     # or less
    arrives, *_, behind = look('merge', ego, [(-10.0, -1.75, 0.0, 10.0)], JOINING, cornering=100.0)[4:9]
    then = lane[LANE_ENTERS] - 10.0 * (arrives - until_zone)
    assert behind == pytest.approx((then - there - 4.6 - 12.5) / 20.0, abs=1e-3)
    assert behind > 0.0


def full_throttle(row: str, count: int, in_zone: float = 4.0, **changes: object
                  ) -> tuple[Batch, np.ndarray, np.ndarray]:
    """Ego and one other: the batch, what was seen at the start, and whether full throttle led to a collision.

    In the conflict zone ego accelerates by `in_zone`.
    """
    alone = {'traffic.platoon': 1, 'traffic.spawned': 0, **changes}
    batch = Batch(load_scenario('merge', row, {**CONFLICT.changes(), **alone}), count, auto_reset=False)
    seen = batch.reset(np.arange(count)).copy()
    outcome = np.zeros(count, np.int64)
    to_zone = seen[:, 0]
    while not outcome.all():
        result = batch.step(np.where(to_zone > 0.0, 4.0, in_zone))
        to_zone = result.observation[:, 0].copy()
        outcome = np.where(result.done & (outcome == 0), result.outcome, outcome)
    return batch, seen, outcome == COLLISION


@pytest.mark.parametrize('row', ['train', '+15/1%'])
def test_the_seconds_left_to_one_who_does_not_care_say_how_it_ends(row: str) -> None:
    """One other vehicle, as quick as in training or twice as quick."""
    does_not_care = {'temper.mix': [0.0, 1.0, 0.0]}
    _, seen, collided = full_throttle(row, 2000, **does_not_care)
    in_front, behind = seen[:, 4] > -10.0, seen[:, 9] < 10.0
    assert not (in_front & behind).any()
    to_brake, before = seen[:, 8], seen[:, 11]
    _, _, collided_braking = full_throttle(row, 2000, in_zone=-4.0, **does_not_care)
    for safe, at_least, how_it_ended in ((behind & (before > 0.2), 500, collided),
                                         (in_front & (to_brake > 0.15), 20, collided_braking)):
        assert safe.sum() >= at_least
        assert not how_it_ended[safe].any()
    # A slow one beside ego where the zone begins is often behind it where they would touch.
    for lost, at_least in ((behind & (before < -0.15), 0.2), (in_front & (to_brake < -0.15), 0.8)):
        assert lost.sum() >= 20
        assert collided[lost].mean() > at_least


@pytest.mark.parametrize('row', ['train', '+15/1%'])
def test_ahead_of_a_driver_who_is_bold_but_not_bold_enough_is_safe(row: str) -> None:
    """The same with drivers who accelerate: each one's own boost, against the one that would be harmless."""
    bold = {'temper.mix': [0.0, 0.0, 1.0], 'temper.boost': [0.5, 4.0]}
    batch, seen, collided = full_throttle(row, 1000, **bold)
    harmless, boost = seen[:, 12], batch.cars['boost'][:, 0]     # 10 where nobody is behind, or not in sight yet
    safe = (boost < harmless - 0.3) & (harmless < 10.0)
    lost = (harmless > 0.0) & (boost > harmless + 0.3)
    assert safe.sum() > 50
    assert lost.sum() > 20
    assert not collided[safe].any()
    assert collided[lost].mean() > 0.3


def test_the_seconds_of_a_conflict_come_true() -> None:
    """The prediction at the start, against the seconds that an accelerating ego then takes to its goal."""
    for name in scenario_names():
        alone = {'traffic.platoon': 0, 'traffic.spawned': 0}
        batch = Batch(load_scenario(name, changes={**CONFLICT.changes(), **alone}), 8)
        predicted = batch.reset(np.arange(8))[:, 3].copy()
        took = np.zeros(8)
        while not took.all():
            result = batch.step(np.full(8, 4.0))
            took = np.where((took == 0) & result.done, result.steps, took)
        assert predicted == pytest.approx(took / 10, abs=0.25)


@pytest.mark.parametrize('version', VERSIONS)
@pytest.mark.parametrize('name', scenario_names())
def test_the_plain_and_the_compiled_path_give_the_same_bits(name: str, version: int) -> None:
    scenario = load_scenario(name, list(load_scenario(name).rows)[3], Layout(version, time=True).changes())
    geometry = build_geometry(scenario)
    batch = Batch(scenario, 16)
    batch.reset(np.arange(16))
    random = np.random.default_rng(3)
    plain, way = np.zeros(scenario.layout.size, np.float32), new_way()
    filled = 0
    for _ in range(150):
        result = batch.step(random.uniform(-4, 4, 16), repeat=2)
        for i in range(16):
            observe(geometry.segments, geometry.lanes, geometry.view, batch.ego[i], batch.others[i],
                    int(batch.counts[i]), float(batch.scenes['step'][i]) * 0.1, True, way, plain)
            assert plain.tobytes() == result.observation[i].tobytes()
            filled += int(batch.counts[i])
    assert filled > 1000, 'the comparison must have seen vehicles'
