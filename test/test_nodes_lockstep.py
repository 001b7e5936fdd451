"""Lock-step: an episode over ROS is the same episode as in process, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import AccelStamped
from nav_msgs.msg import Odometry
from node_probe import COMMAND, ODOMETRY, VEHICLES, Nodes, Probe, nanoseconds
from sensor_msgs.msg import MultiDOFJointState
from std_msgs.msg import Float64MultiArray

from sim_node.episode import Episode
from sim_node.scenario import load_scenario
from wcpg_ros.domain import Running
from wcpg_ros.episodes import EPISODE, drive
from wcpg_ros.policy import Policy

STEP = 100_000_000     # ns


def quaternion(heading: float) -> tuple[float, float]:
    return np.sin(heading / 2), np.cos(heading / 2)


def in_process(scenario: Any, policy: Policy, alpha: float, seeds: range) -> tuple[dict, dict, dict]:
    """States, commands and results of the same episodes without ROS, the first two by stamp."""
    states, commands, results = {}, {}, {}
    episode = Episode(scenario)
    observation = episode._batch._observation[0]
    for seed in seeds:
        episode.begin(seed)
        while True:
            states[episode.stamp] = (episode.ego.copy(), dict(zip(episode.names, episode.others.copy(), strict=True)))
            if episode.result is not None:
                results[seed] = episode.result
                break
            if (episode.stamp - episode.start) % (4 * STEP) == 0:
                command = policy.act(observation, alpha)
            commands[episode.stamp] = command
            episode.step(command)
    return states, commands, results


@pytest.mark.parametrize(('scenario', 'row', 'model', 'alpha'), [
    ('left_turn', 'train', {'seed': 12}, 0.3), ('merge', '+10/3%', {'seed': 11, 'time_feature': True}, 1.0)])
def test_every_state_and_command_is_the_one_in_process(
        nodes: Nodes, probe: Probe, scenario: str, row: str, model: dict, alpha: float) -> None:
    size = 16 + int('time_feature' in model)
    path = nodes.model(**model, scenario=scenario, observation_size=size)
    episodes = 10
    heard = {topic: probe.listen(kind, topic) for kind, topic in
             ((Odometry, ODOMETRY), (MultiDOFJointState, VEHICLES), (AccelStamped, COMMAND))}
    results = probe.results()
    sim = nodes.sim(scenario=scenario, row=row, seed=40, episodes=episodes)
    probe.run(False)     # until the test hears all that is said
    nodes.wcpg(model=path, alpha=alpha)
    probe.until(lambda: all(heard.values()), 'everybody is there')
    probe.run(True)
    probe.until(lambda: len(results) == episodes, 'all episodes', 60)
    assert sim.ended() == 0

    scene = load_scenario(scenario, row, {'layout.time': 'time_feature' in model})
    states, commands, expected = in_process(scene, Policy.load(path), alpha, range(40, 40 + episodes))
    assert results == list(expected.values())
    for topic, last in ((ODOMETRY, max(states)), (VEHICLES, max(states)), (COMMAND, max(commands))):
        probe.until(lambda topic=topic, last=last: nanoseconds(heard[topic][-1]) >= last, f'the last of {topic}')
    assert len({result.outcome for result in results}) > 1     # the test would show little otherwise
    assert {nanoseconds(message) for message in heard[ODOMETRY]} == states.keys()
    for message in heard[ODOMETRY]:
        (x, y, heading, speed), _ = states[nanoseconds(message)]
        pose, twist = message.pose.pose, message.twist.twist
        assert (pose.position.x, pose.position.y, twist.linear.x) == (x, y, speed)
        assert (pose.orientation.z, pose.orientation.w) == quaternion(heading)
    assert {nanoseconds(message) for message in heard[VEHICLES]} == states.keys()
    for message in heard[VEHICLES]:
        _, others = states[nanoseconds(message)]
        assert message.joint_names == list(others)
        for name, pose, twist in zip(message.joint_names, message.transforms, message.twist, strict=True):
            x, y, heading, speed = others[name]
            assert (pose.translation.x, pose.translation.y, twist.linear.x) == (x, y, speed)
            assert (pose.rotation.z, pose.rotation.w) == quaternion(heading)
    answered = {nanoseconds(message): message.accel.linear.x for message in heard[COMMAND]}
    assert {stamp: answered[stamp] for stamp in commands} == commands


def test_outcomes_steps_and_returns_are_those_of_evaluate(nodes: Nodes, probe: Probe) -> None:
    path = nodes.model(0, scenario='merge')
    results = probe.results()
    nodes.sim(scenario='merge', seed=2_000_000, episodes=10)
    nodes.wcpg(model=path, alpha=0.05)
    probe.until(lambda: len(results) == 10, 'all episodes', 60)
    from wcpg_ros.controllers import prepare
    rows = drive(*prepare('merge', 'train', str(path), 0.05), episodes=10, seed=2)
    outcomes = np.array([(i, r.seed, ('running', 'success', 'collision', 'timeout').index(r.outcome), r.steps,
                          r.episode_return, int(r.hit.removeprefix('vehicle_') or -1))
                         for i, r in enumerate(results)], EPISODE)
    assert (outcomes == rows).all()


def test_a_scene_elsewhere_on_the_map_is_the_same_scene(nodes: Nodes, probe: Probe) -> None:
    results, states = probe.results(), probe.listen(Odometry, ODOMETRY)
    pose = [100.0, 50.0, 0.3]
    nodes.sim(seed=5, episodes=3, scene_pose=pose)
    nodes.wcpg(model=nodes.model(12), alpha=0.3, scene_pose=pose)
    probe.until(lambda: len(results) == 3, 'all episodes', 60)
    _, _, expected = in_process(load_scenario('left_turn'), Policy.load(nodes.model(12)), 0.3, range(5, 8))
    assert [(r.outcome, r.steps) for r in results] == [(r.outcome, r.steps) for r in expected.values()]
    assert all(np.hypot(state.pose.pose.position.x - 100.0, state.pose.pose.position.y - 50.0) < 120.0
               for state in states)


def test_a_new_alpha_counts_from_the_next_decision_and_changes_nothing_before(nodes: Nodes, probe: Probe) -> None:
    """The same seed twice, step by step; the second time the dial is turned at 1.0 s, between 0.8 and 1.2."""
    commands = probe.listen(AccelStamped, COMMAND)
    risks = probe.listen(Float64MultiArray, '/wcpg/risk')
    nodes.sim()
    assert probe.run(False).message == 'paused'
    nodes.wcpg(alpha=0.1, model=nodes.model(5))
    # What was said before the test was known to listen is lost. A step a second stays below 5 s, from where an episode
    # would begin later than at 10 s.
    probe.insist(lambda: probe.trigger('/sim/step'), lambda: commands and risks, 'everybody is there')
    driven = []
    for turned in (False, True):
        assert probe.set('sim', 'seed', 77) == ''
        assert probe.trigger('/sim/reset').message == 'episode of seed 77'
        for step in range(30):
            if turned and step == 10:
                assert probe.set('wcpg', 'alpha', 1.0) == ''
            probe.until(lambda: probe.trigger('/sim/step').success, f'step {step}')
        start = {False: 10, True: 20}[turned] * 1_000_000_000
        probe.until(lambda start=start: nanoseconds(commands[-1]) >= start + 29 * STEP, 'the last command')
        driven.append({nanoseconds(message) - start: message.accel.linear.x for message in commands
                       if 0 <= nanoseconds(message) - start < 30 * STEP})
    cautious, other = driven
    assert cautious.keys() == other.keys() == {STEP * step for step in range(30)}
    assert all(cautious[STEP * step] == other[STEP * step] for step in range(12))
    assert all(cautious[STEP * step] != other[STEP * step] for step in range(12, 30))
    for start in range(0, 28, 4):     # held in between
        assert len({other[STEP * step] for step in range(start, start + 4)}) == 1
    by_time = {round(message.data[0], 3): message.data[1] for message in risks}
    assert [by_time[20 + 0.4 * i] for i in range(8)] == [0.1] * 3 + [1.0] * 5
    assert risks[0].layout.dim[0].label == 'stamp,alpha,mean,std,cvar'


def test_a_late_joiner_is_answered_and_hears_of_earlier_episodes(nodes: Nodes, probe: Probe) -> None:
    states = probe.listen(Odometry, ODOMETRY)
    sim = nodes.sim(seed=3, episodes=1)
    probe.until(lambda: len(states) >= 12, 'the same state again and again')
    assert {nanoseconds(message) for message in states} == {0}
    first = nodes.wcpg(stale_after=1.0)
    sim.wait_for(r'episode 1 \(seed 3\): (\w+) after')
    assert sim.ended() == 0

    second = nodes.sim(seed=8)     # and the policy goes on with a simulator started anew
    second.wait_for(r'episode 2 \(seed 9\)')
    late = probe.results()
    probe.until(lambda: [result.seed for result in late][:2] == [8, 9], 'results published before anybody listened')
    assert isinstance(first, Running)
    assert first.process.poll() is None
