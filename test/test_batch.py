"""The batched stepper: seeds, streams, resets, and what it refuses."""

import copy
import pickle

import numpy as np
import pytest

from sim_node.batch import Batch
from sim_node.geometry import LANE_APPROACH, build_geometry
from sim_node.scenario import load_scenario, scenario_names
from sim_node.seeds import LAST_SEED, episode_seed
from sim_node.settings import SettingsError
from sim_node.state import COLLISION, DROPPED, RUNNING, SUCCESS, TIMEOUT

DRAWN_AT_BIRTH = ('birth', 'temper', 'desired', 'boost', 'start')


def trajectory(name: str, seeds: list[int], watched: int, steps: int = 120, row: str = 'train') -> np.ndarray:
    """Everything that one scene of a batch goes through under accelerations that depend on its own seed only."""
    batch = Batch(load_scenario(name, row), len(seeds), auto_reset=False)
    batch.reset(seeds)
    plans = [np.random.default_rng(seed).uniform(-4, 4, steps) for seed in seeds]
    seen = []
    for k in range(steps):
        result = batch.step([plan[k] for plan in plans])
        seen.append(np.concatenate([result.observation[watched], [result.reward[watched], result.outcome[watched]],
                                    batch.others[watched].ravel()]))
    return np.array(seen)


@pytest.mark.parametrize('name', scenario_names())
def test_a_seed_gives_the_same_bits_alone_and_among_any_neighbours(name: str) -> None:
    alone = trajectory(name, [41], 0)
    crowd = trajectory(name, [*range(100, 130), 41, *range(200, 240)], 30)
    assert alone.tobytes() == crowd.tobytes()


@pytest.mark.parametrize('name', scenario_names())
def test_every_controller_meets_the_same_attempts_speeds_and_tempers(name: str) -> None:
    plans = []
    for acceleration in (-4.0, 0.5, 4.0):
        batch = Batch(load_scenario(name, '+10/8%' if name == 'left_turn' else '+10/3%'), 32, auto_reset=False)
        batch.reset(np.arange(32))
        for _ in range(150):
            batch.step(np.full(32, acceleration))
        plans.append(np.stack([batch.cars[name] for name in DRAWN_AT_BIRTH]))
    assert np.array_equal(plans[0], plans[1])
    assert np.array_equal(plans[0], plans[2])


def test_rows_share_the_random_numbers_so_that_only_the_row_differs() -> None:
    drawn = {}
    for row in ('train', '+10/5%'):
        batch = Batch(load_scenario('left_turn', row), 16)
        batch.reset(np.arange(16))
        drawn[row] = batch.cars[:, :5].copy()
    share = {row: (cars['desired'] - 10.0) / spread for (row, cars), spread in zip(drawn.items(), (10.0, 20.0),
                                                                                     strict=True)}
    assert np.allclose(share['train'], share['+10/5%'])
    assert np.array_equal(drawn['train']['temper'], drawn['+10/5%']['temper'])


def test_blocked_births_are_dropped_and_do_happen() -> None:
    batch = Batch(load_scenario('left_turn', '+0/8%'), 256, auto_reset=False)
    batch.reset(np.arange(256))
    for _ in range(300):
        batch.step(np.full(256, -4.0))
    due = batch.cars['birth'] <= 100
    assert 0.02 < np.mean(batch.cars['status'][due] == DROPPED) < 0.5


@pytest.mark.parametrize('name', scenario_names())
def test_the_number_of_vehicles_is_capped_and_traffic_ends(name: str) -> None:
    platoon = load_scenario(name).traffic.platoon
    for row, vehicles in (('train', platoon + 2), (list(load_scenario(name).rows)[6], platoon + 6)):
        batch = Batch(load_scenario(name, row), 64, auto_reset=False)
        assert batch.cars.shape[1] == vehicles
        batch.reset(np.arange(64))
        while (batch.scenes['outcome'] == RUNNING).any():
            batch.step(np.full(64, -4.0))
        assert np.mean(batch.counts == 0) > 0.6


def drawn_with_spread(spread: float) -> np.ndarray:
    """Who drives in 16 merges."""
    batch = Batch(load_scenario('merge', changes={'traffic.platoon_spread': spread}), 16)
    batch.reset(np.arange(16))
    return batch.cars.copy()


@pytest.mark.parametrize('spread', [0.0, 0.5])
def test_a_platoon_drives_as_fast_as_its_first_more_or_less(spread: float) -> None:
    platoon = load_scenario('merge').traffic.platoon
    alike, unlike = drawn_with_spread(spread), drawn_with_spread(1.0)
    speeds, first = unlike['desired'][:, :platoon], unlike['desired'][:, :1]
    assert np.ptp(speeds, axis=1).max() > 5.0
    assert alike['desired'][:, :platoon] == pytest.approx(first + spread * (speeds - first))
    assert np.array_equal(alike['desired'][:, platoon:], unlike['desired'][:, platoon:])
    assert np.array_equal(alike['temper'], unlike['temper'])


def arrivals(power: float) -> np.ndarray:
    """When the platoons of 2,000 left turns reach the conflict zone, s: [scenes, platoon]."""
    scenario = load_scenario('left_turn', changes={'traffic.gap_power': power, 'traffic.arrival_gap': [1.0, 3.0],
                                                   'traffic.platoon': 4, 'traffic.platoon_lanes': [1.0, 0.0],
                                                   'traffic.speed': [10.0, 10.0]})
    batch = Batch(scenario, 2000)
    batch.reset(np.arange(2000))
    cars = batch.cars[:, :4]
    assert (cars['birth'] == 0).all()     # all are under way
    return (build_geometry(scenario).lanes[0, LANE_APPROACH] - cars['start']) / cars['desired']


@pytest.mark.parametrize(('power', 'wide'), [(1.0, 0.5), (2.0, 1 - 0.5 ** (1 / 2)), (3.0, 1 - 0.5 ** (1 / 3))])
def test_the_more_the_power_the_rarer_wide_gaps(power: float, wide: float) -> None:
    gaps = np.diff(arrivals(power), axis=1)
    assert gaps.min() >= 1.0 - 1e-9
    assert gaps.max() <= 3.0 + 1e-9
    assert np.mean(gaps > 2.0) == pytest.approx(wide, abs=0.02)     # beyond the middle: u**power > 1/2


def test_temper_shares_and_speeds_follow_the_table() -> None:
    for name, shares, (low, high) in (('left_turn', (0.0, 0.8, 0.2), (10, 20)), ('merge', (0.2, 0.4, 0.4), (5, 15))):
        batch = Batch(load_scenario(name), 3000)
        batch.reset(np.arange(3000))
        found = np.bincount(batch.cars['temper'].ravel(), minlength=3) / batch.cars.size
        assert np.allclose(found, shares, atol=0.01)
        assert batch.cars['desired'].min() >= low
        assert batch.cars['desired'].max() <= high
        assert batch.cars['desired'].mean() == pytest.approx((low + high) / 2, abs=0.1)


def test_spawn_attempts_come_at_the_rate_of_the_table() -> None:
    batch = Batch(load_scenario('left_turn', changes={'traffic.spawned': 1}), 4000)
    batch.reset(np.arange(4000))
    # Two birth lanes with a chance of 1% each per step: the first attempt after 1 / (1 - 0.99²) steps on average.
    assert batch.cars['birth'][:, -1].mean() == pytest.approx(1 / (1 - 0.99 ** 2), rel=0.05)


def test_rewards_are_those_of_the_paper() -> None:
    for name, success, bonus in (('left_turn', 50.0, 10.0), ('merge', 75.0, 5.0)):
        batch = Batch(load_scenario(name), 64)
        batch.reset(np.arange(64))
        seen = set()
        for k in range(2400):
            # Half of the scenes wait for the time-out, the others gamble.
            result = batch.step(np.where(np.arange(64) % 2, 4.0, -4.0))
            for i in np.flatnonzero(result.done):
                paid = {SUCCESS: success * np.exp(-result.steps[i] / 50) + bonus, COLLISION: -50.0, TIMEOUT: 0.0}
                assert result.reward[i] == pytest.approx(paid[result.outcome[i]])
                assert (result.steps[i] == 300) == (result.outcome[i] == TIMEOUT)
                assert (result.hit[i] >= 0) == (result.outcome[i] == COLLISION)
                seen.add(int(result.outcome[i]))
            assert not result.reward[~result.done].any()
            if k > 300 and seen == {SUCCESS, COLLISION, TIMEOUT}:
                break
        assert seen == {SUCCESS, COLLISION, TIMEOUT}


def test_an_ended_episode_is_followed_by_the_one_of_the_next_seed() -> None:
    batch = Batch(load_scenario('left_turn'), 4)
    first = batch.reset([10, 11, 12, 13]).copy()
    ended: list[int] = []
    while len(ended) < 12:
        result = batch.step(np.full(4, 4.0), repeat=4)
        for i in np.flatnonzero(result.done):
            ended.append(int(result.seed[i]))
            assert batch.scenes['seed'][i] == result.seed[i] + 4
            assert not np.array_equal(result.observation[i], result.final_observation[i])
    assert len(set(ended)) == len(ended)
    batch.reset([14, 15, 16, 17])
    again = batch.reset([10, 11, 12, 13])
    assert np.array_equal(first, again)


def test_a_decision_ends_with_its_episode_even_in_the_middle_of_its_four_steps() -> None:
    by_four, by_one = (Batch(load_scenario('merge'), 32, auto_reset=False) for _ in range(2))
    by_four.reset(np.arange(32))
    by_one.reset(np.arange(32))
    for _ in range(75):
        by_four.step(np.full(32, 4.0), repeat=4)
        for _ in range(4):
            by_one.step(np.full(32, 4.0))
    assert np.array_equal(by_four.scenes, by_one.scenes)
    assert (by_four.scenes['step'] % 4 != 0).any()


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    batch, other = Batch(load_scenario('merge'), 8), Batch(load_scenario('merge'), 8)
    batch.reset(np.arange(8))
    accelerations = np.random.default_rng(0).uniform(-4, 4, (200, 8))
    for row in accelerations[:100]:
        result = batch.step(row)
    assert np.array_equal(other.restore(batch.state()), result.observation)
    assert np.array_equal(other.others, batch.others)     # what a rule sees before the next step
    for row in accelerations[100:]:
        assert np.array_equal(batch.step(row).observation, other.step(row).observation)


@pytest.mark.parametrize('copied', [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_a_copy_drives_on_alone(copied) -> None:
    batch = Batch(load_scenario('left_turn'), 4)
    assert not copied(batch).begun
    with pytest.raises(SettingsError, match='state: call reset'):
        batch.state()
    batch.reset(np.arange(4))
    batch.step(np.full(4, -4.0), repeat=20)
    other = copied(batch)
    before = batch.scenes.copy()
    seen = other.step(np.full(4, -4.0), repeat=4)
    assert np.array_equal(batch.scenes, before)
    assert np.array_equal(seen.steps, other.scenes['step'])
    assert np.array_equal(seen.observation, batch.step(np.full(4, -4.0), repeat=4).observation)


@pytest.mark.parametrize(('other', 'message'), [
    (lambda: Batch(load_scenario('merge'), 4), "state: 'scenes' does not fit this batch of 4 scenes"),
    (lambda: Batch(load_scenario('left_turn', changes={'traffic.platoon': load_scenario('merge').traffic.platoon}), 8),
     'state: of another scene, or of other settings'),
    (lambda: Batch(load_scenario('merge', changes={'driver.headway': 1.0}), 8), 'state: of another scene, or of other'),
    (lambda: Batch(load_scenario('merge', '+5/1%'), 8), "state: 'cars' does not fit"),
])
def test_a_state_of_something_else_is_refused_and_changes_nothing(other, message: str) -> None:
    batch, other = Batch(load_scenario('merge'), 8), other()
    batch.reset(np.arange(8))
    with pytest.raises(SettingsError, match=message):
        other.restore(batch.state())
    assert not other.begun
    assert not other.scenes['seed'].any()


@pytest.mark.parametrize('name', scenario_names())
def test_an_ended_episode_stays_ended_and_is_paid_once(name: str) -> None:
    batch = Batch(load_scenario(name), 32, auto_reset=False)
    batch.reset(np.arange(32))
    paid, moments = np.zeros(32), np.zeros(32, int)
    for _ in range(90):
        result = batch.step(np.full(32, 4.0), repeat=4)
        paid += result.reward
        moments += result.reward != 0.0
    assert result.done.all()
    assert (moments == 1).all()
    assert set(paid[result.outcome == COLLISION]) == {-50.0}
    ended = batch.scenes.copy()
    batch.step(np.full(32, -4.0))
    assert np.array_equal(batch.scenes, ended)


def test_without_any_vehicle_the_road_stays_empty() -> None:
    batch = Batch(load_scenario('left_turn', changes={'traffic.platoon': 0, 'traffic.spawned': 0}), 64)
    batch.reset(np.arange(64))
    for _ in range(100):
        assert not batch.step(np.full(64, -4.0)).done.any()
        assert not batch.counts.any()


def test_chosen_scenes_begin_anew_while_the_others_go_on() -> None:
    batch, untouched = (Batch(load_scenario('merge'), 3, auto_reset=False) for _ in range(2))
    with pytest.raises(SettingsError, match='chosen: expected everywhere at the first reset'):
        batch.reset([1, 2, 3], chosen=np.array([True, False, True]))
    for each in (batch, untouched):
        each.reset([1, 2, 3])
        each.step(np.full(3, -4.0), repeat=20)
    first = Batch(load_scenario('merge'), 1).reset(7)
    observation = batch.reset([9, 7, 9], chosen=np.array([False, True, False]))
    assert np.array_equal(observation[1], first[0])
    assert batch.scenes['step'].tolist() == [20, 0, 20]
    assert batch.scenes['seed'].tolist() == [1, 7, 3]
    assert np.array_equal(batch.step(np.zeros(3)).observation[::2], untouched.step(np.zeros(3)).observation[::2])


@pytest.mark.parametrize('n', [0, -3, 2.5, True, '4', 10 ** 12])
def test_a_batch_needs_a_whole_number_of_scenes(n: object) -> None:
    with pytest.raises(SettingsError, match='number of scenes: expected a whole number from 1 to 1000000'):
        Batch(load_scenario('merge'), n)  # type: ignore[arg-type]


def test_accelerations_that_cannot_be_are_refused_and_change_nothing() -> None:
    batch = Batch(load_scenario('left_turn'), 3)
    with pytest.raises(SettingsError, match='reset'):
        batch.step([0.0, 0.0, 0.0])
    batch.reset([1, 2, 3])
    before = batch.scenes.copy()
    with pytest.raises(SettingsError, match=r'accelerations\[1\]: expected a finite number, got nan'):
        batch.step([0.0, float('nan'), 0.0])
    with pytest.raises(SettingsError, match=r'accelerations\[2\]: expected a finite number, got inf'):
        batch.step([0.0, 1.0, float('inf')])
    with pytest.raises(SettingsError, match=r'accelerations: expected 3 numbers, got float64 of shape \(2,\)'):
        batch.step([0.0, 1.0])
    for wrong in (['a', 'b', 'c'], [None] * 3, [True] * 3, [1j] * 3, [[1.0], [1.0, 2.0], [0.0]], 0.0, [[0.0]] * 3):
        with pytest.raises(SettingsError, match='accelerations: expected 3 numbers, got'):
            batch.step(wrong)  # type: ignore[arg-type]
    for repeat in (0, -1, 2.0, True, 10 ** 30):
        with pytest.raises(SettingsError, match='repeat: expected a whole number from 1 to 1000000'):
            batch.step([0.0, 0.0, 0.0], repeat=repeat)  # type: ignore[arg-type]
    assert np.array_equal(before, batch.scenes)


def test_seeds_that_cannot_be_are_refused_and_change_nothing() -> None:
    batch = Batch(load_scenario('left_turn'), 3)
    batch.reset([1, 2, 3])
    before = batch.scenes.copy()
    for wrong in ([1.0, 2.0, 3.0], [1, 2], [True] * 3, ['1', '2', '3'], [1, 2, 2 ** 64], [[1, 2, 3]]):
        with pytest.raises(SettingsError, match='seeds: expected 3 whole numbers'):
            batch.reset(wrong)  # type: ignore[arg-type]
    for culprit in (-1, 2 ** 63 - 1):
        with pytest.raises(SettingsError, match=f'seeds: expected from 0 to {LAST_SEED}, got .{culprit}.'):
            batch.reset([1, culprit, 3])
    with pytest.raises(SettingsError, match='seeds: expected from 0 to'):
        batch.reset(np.array([1, 2, 2 ** 63], np.uint64))
    for stride in (-1, 0.5, 2 ** 40):
        with pytest.raises(SettingsError, match='stride: expected'):
            batch.reset([1, 2, 3], stride)  # type: ignore[arg-type]
    assert np.array_equal(before, batch.scenes)
    batch.reset(np.full(3, LAST_SEED))
    assert (batch.step(np.zeros(3)).seed == LAST_SEED).all()


def test_a_decision_may_be_longer_than_its_episode_and_arrays_of_any_layout_do() -> None:
    batch, other = (Batch(load_scenario('merge'), 4, auto_reset=False) for _ in range(2))
    batch.reset(np.arange(8, dtype=np.uint8)[::2])
    other.reset([0, 2, 4, 6])
    wide = np.repeat(np.array([4.0, -4.0, 0.0, 1.0], np.float32), 3)[::3]
    assert np.array_equal(batch.step(wide, repeat=1_000_000).steps, other.step([4, -4, 0, 1], repeat=300).steps)
    assert batch.scenes['outcome'].all()


def test_seeds_of_runs_never_meet() -> None:
    assert episode_seed(7, 12) == 7_000_012
    with pytest.raises(SettingsError, match='seed'):
        episode_seed(-1, 0)
    with pytest.raises(SettingsError, match='episode'):
        episode_seed(0, 1_000_000)
