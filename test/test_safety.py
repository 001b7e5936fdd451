"""Safety: what is refused, when it brakes, what it says; each with numbers a person can check."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_node import guards
from sim_node.guards import InputGuard, Problem, SoleSource
from wcpg_ros import safety
from wcpg_ros.safety import CommandLimiter, Safety, SafetySettings

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.floats()
NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])
UNIT = (0.0, 0.0, math.sin(0.4), math.cos(0.4))
ORIGIN = (0.0, 0.0, 0.0)


class SteadyClock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def kind(problem: Problem | None) -> str | None:
    return None if problem is None else problem.kind


def odometry(**changes: object) -> Problem | None:
    message = {'frame_id': 'map', 'child_frame_id': 'base_link', 'position': (1.0, 2.0, 0.0), 'orientation': UNIT,
               'linear': (8.0, 0.0, 0.0), 'angular': ORIGIN}
    return safety.check_odometry(**{**message, **changes})   # type: ignore[arg-type]


def vehicles(**changes: object) -> Problem | None:
    message = {'frame_id': 'map', 'ids': ['a', 'b'], 'positions': [ORIGIN, (5.0, 1.0, 0.0)],
               'orientations': [UNIT, UNIT], 'linear': [ORIGIN, ORIGIN], 'angular': [ORIGIN, ORIGIN]}
    return safety.check_vehicles(**{**message, **changes})   # type: ignore[arg-type]


def test_a_good_message_has_no_problem() -> None:
    assert odometry() is None
    assert vehicles() is None
    assert vehicles(ids=[], positions=[], orientations=[], linear=[], angular=[]) is None   # none in sight
    assert guards.check_command('base_link', -3.0) is None


def test_a_wrong_frame_is_refused() -> None:
    assert odometry(frame_id='odom') == (guards.WRONG_FRAME, "frame 'odom', expected 'map'")
    assert odometry(frame_id='') == (guards.WRONG_FRAME, "frame '', expected 'map'")
    assert odometry(child_frame_id='map') == (guards.WRONG_FRAME, "child frame 'map', expected 'base_link'")
    assert kind(vehicles(frame_id='base_link')) == guards.WRONG_FRAME
    assert kind(guards.check_command('map', 1.0)) == guards.WRONG_FRAME


@given(field=st.sampled_from(['position', 'orientation', 'linear', 'angular']), index=st.integers(0, 2),
       bad=NOT_FINITE)
def test_what_is_not_finite_is_refused_wherever_it_stands(field: str, index: int, bad: float) -> None:
    values = list(UNIT if field == 'orientation' else ORIGIN)
    values[index] = bad
    assert kind(odometry(**{field: values})) == guards.NOT_FINITE
    several = {'position': 'positions', 'orientation': 'orientations'}.get(field, field)
    good = UNIT if field == 'orientation' else ORIGIN
    assert kind(vehicles(**{several: [good, values]})) == guards.NOT_FINITE


@given(FINITE, FINITE, FINITE, FINITE)
def test_only_unit_quaternions_pass(x: float, y: float, z: float, w: float) -> None:
    unit = abs(math.hypot(x, y, z, w) - 1.0) <= 1e-3
    assert kind(odometry(orientation=(x, y, z, w))) == (None if unit else guards.NOT_A_ROTATION)


def test_a_quaternion_may_be_off_by_rounding_and_no_more() -> None:
    assert odometry(orientation=(0.0, 0.0, 0.0, 1.0009)) is None
    assert odometry(orientation=(0.0, 0.0, 0.0, 1.002)) == (
        guards.NOT_A_ROTATION, "the quaternion of 'ego' has length 1.002")
    assert kind(odometry(orientation=(0.0, 0.0, 0.0, 0.0))) == guards.NOT_A_ROTATION


def test_unequal_lengths_and_duplicate_ids_are_refused() -> None:
    assert kind(vehicles(ids=['a'])) == guards.UNEQUAL_LENGTHS
    assert kind(vehicles(linear=[ORIGIN])) == guards.UNEQUAL_LENGTHS
    assert kind(vehicles(angular=[])) == guards.UNEQUAL_LENGTHS
    assert vehicles(ids=['a', 'a']) == (guards.DUPLICATE_ID, "'a' stands for more than one vehicle")


@given(value=ANY)
def test_a_command_passes_exactly_when_it_is_finite(value: float) -> None:
    assert (guards.check_command('base_link', value) is None) == math.isfinite(value)


def test_a_refused_message_is_counted_and_the_last_good_one_ages() -> None:
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    assert guard.offer(0, None)
    for _ in range(4):
        clock.now += 0.2
        assert not guard.offer(1, Problem(guards.NOT_FINITE, 'x has NaN or infinity in it'))
    assert guard.is_stale()
    assert guard.refused == {guards.NOT_FINITE: 4}
    assert guard.accepted == 1
    assert guard.status() == {'odometry accepted': '1', 'odometry refused, not finite': '4'}


def test_a_problem_that_comes_and_goes_is_reported_every_five_seconds() -> None:
    """As with two sources whose stamps differ: every other message is refused."""
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    reports = []
    for step in range(130):
        clock.now = step / 10
        guard.offer(1000 + step, None)
        guard.offer(step, None)
        reports += [(clock.now, report.split(':')[0]) for report in guard.take_reports()]
    assert guard.refused == {guards.BACKWARDS: 130}
    assert reports == [(0.0, 'odometry refused'), (0.1, 'odometry is valid again'), (5.0, 'odometry refused'),
                       (5.1, 'odometry is valid again'), (10.0, 'odometry refused'), (10.1, 'odometry is valid again')]


def test_a_second_publisher_is_reported_once_if_it_stays() -> None:
    source = SoleSource('odometry')
    assert [source.look(2) for _ in range(24)] == [None] * 24
    assert source.look(1) is None     # the first one had been killed
    reports = [source.look(3) for _ in range(60)]
    assert [report for report in reports if report] == [
        'odometry has 3 publishers, where one is believed: stop the others (ros2 topic info -v)']


def test_reports_come_on_edges_only() -> None:
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    bad = Problem(guards.WRONG_FRAME, "frame 'odom', expected 'map'")
    guard.offer(0, None)
    assert guard.take_reports() == []
    for _ in range(3):
        guard.offer(0, bad)
    assert guard.take_reports() == ["odometry refused: wrong frame, frame 'odom', expected 'map'"]
    clock.now += 0.6
    assert guard.is_stale()
    assert guard.is_stale()
    assert guard.take_reports() == ['odometry is stale: nothing valid for 0.5 s']
    guard.offer(0, None)
    guard.offer(0, None)
    assert guard.take_reports() == ['odometry is valid again']


def test_staleness_begins_after_the_limit_and_not_before_the_first_message() -> None:
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    clock.now += 10.0
    assert not guard.is_stale()
    assert not guard.seen
    guard.offer(0, None)
    clock.now += 0.5
    assert not guard.is_stale()
    clock.now += 0.001
    assert guard.is_stale()


def test_stamps_may_stand_still_but_not_go_back_until_the_source_has_been_silent() -> None:
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    assert guard.offer(1000, None)
    assert guard.offer(1000, None)     # paused: the same state again
    assert not guard.offer(999, None)
    assert guard.refused == {guards.BACKWARDS: 1}
    clock.now += 0.6                   # silent for too long, though nobody has looked meanwhile
    assert guard.offer(0, None)        # a simulator that was started anew
    assert not guard.offer(-1, None)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.floats(0.0, 0.4)), max_size=60))
def test_every_offered_message_is_either_accepted_or_counted(messages: list[tuple[int, bool, float]]) -> None:
    clock = SteadyClock()
    guard = InputGuard('odometry', 0.5, clock)
    used = 0
    for stamp, bad, pause in messages:
        clock.now += pause
        used += guard.offer(stamp, Problem(guards.NOT_FINITE, '') if bad else None)
    assert guard.accepted == used
    assert guard.accepted + sum(guard.refused.values()) == len(messages)


@given(wanted=st.lists(ANY, max_size=50), jerk=st.none() | st.floats(0.1, 100.0), seconds=ANY)
def test_commands_are_bounded_whatever_is_wanted(wanted: list[float], jerk: float | None, seconds: float) -> None:
    limiter = CommandLimiter(4.0, jerk)
    last = None
    for acceleration in wanted:
        if not math.isfinite(acceleration):
            with pytest.raises(ValueError, match='the wanted acceleration is'):
                limiter.apply(acceleration, seconds)
            continue
        command = limiter.apply(acceleration, seconds)
        assert -4.0 <= command <= 4.0
        if jerk is not None and last is not None and 0.0 < seconds < math.inf:
            assert abs(command - last) <= jerk * seconds + 1e-9
        last = command


def test_the_limits_in_numbers() -> None:
    limiter = CommandLimiter(4.0)
    assert [limiter.apply(wanted, 0.1) for wanted in (1.5, 9.0, -4.5)] == [1.5, 4.0, -4.0]
    smooth = CommandLimiter(4.0, jerk=10.0)
    assert [smooth.apply(wanted, 0.1) for wanted in (0.0, 4.0, 4.0, -4.0)] == [0.0, 1.0, 2.0, 1.0]
    assert smooth.brake(4.0) == -4.0           # at once
    assert smooth.apply(4.0, 0.1) == -3.0      # and on from there
    assert smooth.brake(9.0) == -4.0           # braking has the same bound


def test_a_nan_does_not_stay_in_the_jerk_limiter() -> None:
    limiter = CommandLimiter(4.0, jerk=10.0)
    limiter.apply(1.0, 0.1)
    with pytest.raises(ValueError, match='nan'):
        limiter.apply(math.nan, 0.1)
    assert limiter.apply(1.5, 0.1) == 1.5


def make_safety(**settings: float) -> tuple[Safety, SteadyClock]:
    clock = SteadyClock()
    return Safety(['odometry', 'vehicles'], SafetySettings(**settings), clock), clock


def test_no_command_before_every_input_was_valid_once() -> None:
    guarded, clock = make_safety()
    assert guarded.command(lambda: 1.0, 0.1) is None
    guarded.inputs['odometry'].offer(0, None)
    guarded.inputs['vehicles'].offer(0, Problem(guards.NOT_FINITE, ''))
    clock.now += 2.0
    assert guarded.command(lambda: 1.0, 0.1) is None
    assert guarded.mode == Safety.WAITING


def test_a_stale_input_brakes_until_it_is_fresh_again() -> None:
    guarded, clock = make_safety(fail_safe_deceleration=3.0)
    for name in guarded.inputs:
        guarded.inputs[name].offer(0, None)
    assert guarded.command(lambda: 1.0, 0.1) == 1.0
    clock.now += 0.4
    guarded.inputs['odometry'].offer(1, None)
    clock.now += 0.2                                  # the vehicles are 0.6 s old
    asked = []
    assert guarded.command(lambda: asked.append(1) or 1.0, 0.1) == -3.0
    assert asked == []                                # nobody asks the policy about an old state
    assert guarded.mode == Safety.STALE
    guarded.command(lambda: 1.0, 0.1)
    assert guarded.take_reports() == ['vehicles is stale: nothing valid for 0.5 s']
    guarded.inputs['vehicles'].offer(0, None)
    assert guarded.command(lambda: 1.0, 0.1) == 1.0
    assert guarded.mode == Safety.DRIVING
    assert guarded.take_reports() == ['vehicles is valid again']


@pytest.mark.parametrize('wrong', [lambda: math.nan, lambda: math.inf, lambda: 1 / 0, lambda: 'fast'])
def test_a_policy_that_fails_brakes_and_is_reported_once(wrong: object) -> None:
    guarded, _ = make_safety()
    for guard in guarded.inputs.values():
        guard.offer(0, None)
    for _ in range(3):
        assert guarded.command(wrong, 0.1) == -4.0   # type: ignore[arg-type]
    assert guarded.mode == Safety.FAILED
    assert guarded.failures == 3
    [report] = guarded.take_reports()
    assert report.startswith('the policy failed, braking: ')
    assert guarded.command(lambda: 0.5, 0.1) == 0.5
    assert guarded.take_reports() == ['the policy works again']
    assert guarded.status() == {'mode': 'driving', 'policy failures': '3', 'odometry accepted': '1',
                                'vehicles accepted': '1'}


def test_stopping_brakes_and_nothing_else_follows() -> None:
    guarded, _ = make_safety(fail_safe_deceleration=2.5)
    for guard in guarded.inputs.values():
        guard.offer(0, None)
    assert guarded.stop() == -2.5
    assert guarded.command(lambda: 4.0, 0.1) == -2.5
    assert guarded.mode == Safety.STOPPING


STEPS = st.tuples(st.sampled_from(['odometry', 'vehicles', 'ask']), ANY, st.integers(0, 5), st.floats(0.0, 1.0))


@given(st.lists(STEPS, max_size=80), st.none() | st.floats(0.1, 50.0))
def test_whatever_happens_every_command_is_finite_and_bounded(
        steps: list[tuple[str, float, int, float]], jerk: float | None) -> None:
    clock = SteadyClock()
    guarded = Safety(['odometry', 'vehicles'], SafetySettings(jerk=jerk), clock)
    for what, value, stamp, pause in steps:
        clock.now += pause
        if what == 'ask':
            command = guarded.command(lambda value=value: value, 0.1)
            assert command is None or (math.isfinite(command) and -4.0 <= command <= 4.0)
        else:
            guarded.inputs[what].offer(stamp, guards.check_command('base_link', value))
