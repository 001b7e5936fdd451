"""The scenes are worth a risk dial: hurrying is a gamble on the others' tempers, waiting is safe, and both pay."""

import itertools

import pytest

from sim_node.scenario import load_scenario, scenario_names
from wcpg_ros.scene_report import EPISODES, MIDDLING_GAP, best, family, gamble, measured, solving_gap

SOLVABLE = [(name, row) for name in scenario_names() for row in load_scenario(name).rows if row != 'paper_floor']


@pytest.mark.parametrize('name', scenario_names())
def test_full_throttle_gambles_and_braking_is_safe(name: str) -> None:
    assert 0.15 <= measured(name, 'constant:4.0')['collisions'] / EPISODES <= 0.5
    assert measured(name, 'brake')['collisions'] <= 0.002 * EPISODES


@pytest.mark.parametrize('name', scenario_names())
def test_waiting_for_larger_gaps_buys_safety_with_time(name: str) -> None:
    members = list(family(name, 'gap').values())
    collisions = [member['collisions'] / EPISODES for member in members]
    riskiest = collisions.index(max(collisions))
    assert all(later <= earlier + 0.005 for earlier, later in itertools.pairwise(collisions[riskiest:]))
    gambling = [member['mean_steps'] for member, rate in zip(members, collisions, strict=True) if rate >= 0.08]
    safe = [member['mean_steps'] for member, rate in zip(members, collisions, strict=True) if rate <= 0.001]
    assert min(safe) >= 1.5 * min(gambling)


@pytest.mark.parametrize('name', scenario_names())
def test_a_risk_neutral_and_a_cautious_driver_want_different_things(name: str) -> None:
    members = family(name, 'gap')
    assert best(members, 'mean_return')[1]['mean_steps'] <= 0.75 * best(members, 'cvar_0.02')[1]['mean_steps']


@pytest.mark.parametrize(('name', 'row'), SOLVABLE)
def test_every_row_can_be_driven_safely(name: str, row: str) -> None:
    assert solving_gap(name, row) is not None


@pytest.mark.parametrize('name', scenario_names())
def test_the_gamble_is_on_the_nearest_drivers_temper(name: str) -> None:
    ignoring, accelerating = gamble(name, f'gap:{MIDDLING_GAP[name]}')
    assert accelerating >= 0.01
    assert accelerating >= 5 * ignoring
