"""The scenes are worth a risk dial: hurrying is a gamble on the others' tempers, waiting is safe, and both pay."""

import itertools
from functools import cache

import numpy as np
import pytest

from sim_node.batch import Batch
from sim_node.geometry import build_geometry
from sim_node.observation import LANE_CONFLICT, LANE_ENTERS
from sim_node.scenario import load_scenario, scenario_names
from sim_node.state import COLLISION, DRIVING, SUCCESS
from wcpg_ros.controllers import prepare
from wcpg_ros.evaluate import drive
from wcpg_ros.risk import empirical_cvar

EPISODES = 3000
SECONDS = (0.5, 1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0)
SHIFTED = [(name, row) for name in scenario_names() for row in load_scenario(name).rows if row != 'paper_floor']


@cache
def rows(name: str, controller: str, row: str = 'train') -> np.ndarray:
    return drive(*prepare(name, row, controller), EPISODES, seed=7)


def collisions(episodes: np.ndarray) -> float:
    return float(np.mean(episodes['outcome'] == COLLISION))


def steps(episodes: np.ndarray) -> float:
    return float(episodes['steps'][episodes['outcome'] == SUCCESS].mean())


@pytest.mark.parametrize('name', scenario_names())
def test_full_throttle_gambles_and_braking_is_safe(name: str) -> None:
    assert 0.15 <= collisions(rows(name, 'constant:4.0')) <= 0.5
    assert collisions(rows(name, 'brake')) <= 0.002


@pytest.mark.parametrize('name', scenario_names())
def test_waiting_for_larger_gaps_buys_safety_with_time(name: str) -> None:
    family = [rows(name, f'gap:{seconds}') for seconds in SECONDS]
    risky = [episodes for episodes in family if collisions(episodes) >= 0.08]
    safe = [episodes for episodes in family if collisions(episodes) <= 0.001]
    assert risky
    assert safe
    assert min(steps(episodes) for episodes in safe) >= 1.5 * min(steps(episodes) for episodes in risky)
    falling = [collisions(episodes) for episodes in family if steps(episodes) >= steps(risky[-1])]
    assert all(later <= earlier + 0.01 for earlier, later in itertools.pairwise(falling))


@pytest.mark.parametrize('name', scenario_names())
def test_a_risk_neutral_and_a_cautious_driver_want_different_things(name: str) -> None:
    family = [rows(name, f'gap:{seconds}') for seconds in SECONDS]
    neutral = max(family, key=lambda episodes: episodes['return'].mean())
    cautious = max(family, key=lambda episodes: empirical_cvar(episodes['return'], 0.02))
    print(f'{name}: neutral {steps(neutral):.0f} steps, {100 * collisions(neutral):.2f}% collisions; '
          f'cautious {steps(cautious):.0f} steps, {100 * collisions(cautious):.2f}%')
    assert steps(neutral) <= 0.75 * steps(cautious)


@pytest.mark.parametrize(('name', 'row'), SHIFTED)
def test_every_row_can_be_driven_safely(name: str, row: str) -> None:
    assert any(collisions(rows(name, f'gap:{seconds}', row)) <= 0.001
               and np.mean(rows(name, f'gap:{seconds}', row)['outcome'] == SUCCESS) >= 0.98
               for seconds in (4.0, 4.5, 5.0))


def collisions_by_temper_of_the_nearest(name: str, controller_name: str) -> dict[int, float]:
    """Collision rates by the temper of the vehicle next to arrive when ego commits itself."""
    scenario, controller = prepare(name, 'train', controller_name)
    geometry = build_geometry(scenario)
    batch = Batch(scenario, EPISODES, auto_reset=False)
    observation = batch.reset(7_000_000 + np.arange(EPISODES))
    nearest = np.full(EPISODES, -1)
    lanes = geometry.lanes
    for _ in range(scenario.max_steps // scenario.action_repeat):
        scenes, cars = batch.scenes, batch.cars
        centre = scenes['s'] - scenario.vehicle.front_axle
        stopping = scenes['speed'] ** 2 / (2 * scenario.vehicle.acceleration_limit)
        deciding = (nearest < 0) & (centre + stopping > geometry.conflict_enter)
        coming = ((cars['status'] == DRIVING) & (lanes[cars['target'], LANE_CONFLICT] != 0)
                  & (cars['s'] < lanes[cars['target'], LANE_ENTERS]))
        seconds = np.where(coming, (lanes[cars['target'], LANE_ENTERS] - cars['s']) / np.maximum(cars['speed'], 0.1),
                           np.inf)
        first = seconds.argmin(axis=1)
        somebody = deciding & np.isfinite(seconds.min(axis=1))
        nearest[somebody] = cars['temper'][somebody, first[somebody]]
        observation = batch.step(controller.act(batch, observation), scenario.action_repeat).observation
    hit = batch.scenes['outcome'] == COLLISION
    return {temper: float(hit[nearest == temper].mean()) for temper in (1, 2)}


@pytest.mark.parametrize(('name', 'seconds'), [('left_turn', 3.0), ('merge', 2.5)])
def test_the_gamble_is_on_the_nearest_drivers_temper(name: str, seconds: float) -> None:
    ignoring, accelerating = collisions_by_temper_of_the_nearest(name, f'gap:{seconds}').values()
    print(f'{name}, gap:{seconds}: {100 * ignoring:.2f}% against an ignoring driver, '
          f'{100 * accelerating:.2f}% against an accelerating one')
    assert accelerating >= 0.01
    assert accelerating >= 5 * ignoring
