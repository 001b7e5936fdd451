"""The simulators we measure against, each behind the same `drive(seconds)` as ours.

They are treated kindly: the time of their resets does not count (ours happens inside `step` and does), and nothing is
converted for the learner's sake beyond what each gives by itself.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import thread_time

import gymnasium
import highway_env  # noqa: F401  (registers its environments)
import libsumo
import numpy as np
from sumo_scene import write_network, write_traffic

from sim_node.scenario import STEP_SECONDS, Scenario

HOLD = 20                             # steps for which an acceleration is held
ACCELERATIONS = (-3.0, 0.0, 3.0)      # m/s² …
SHARES = (0.3, 0.3, 0.4)              # … drawn with these odds: ego stops, waits and goes, and episodes end

SIMILAR = {'left_turn': 'intersection-v0', 'merge': 'merge-v0'}    # HighwayEnv's scenes of the kind


@dataclass
class Round:
    """What a contender did: over the seconds measured, all scenes and vehicles (ego among them) of every step."""

    seconds: float = 0.0
    scene_steps: int = 0
    vehicle_steps: int = 0


def draw_accelerations(count: int, scenes: int) -> np.ndarray:
    """The commands of everybody's ego, each to be held."""
    return np.random.default_rng(1).choice(ACCELERATIONS, (count, scenes), p=SHARES)


class Sumo:
    """libsumo: step, ego's speed set, everybody's position, speed and angle read, collisions asked for."""

    name = 'libsumo'
    episodes = 100    # different ones, then again from the first

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.options = ['--net-file', str(write_network(scenario, folder)), '--step-length', str(STEP_SECONDS),
                        '--collision.action', 'warn', '--collision.check-junctions', 'true',
                        '--collision.mingap-factor', '0', '--time-to-teleport', '-1', '--no-step-log', 'true',
                        '--no-warnings', 'true', '--seed', '1', '--route-files']
        routes = [folder / f'{scenario.name}-{seed}.rou.xml' for seed in range(self.episodes)]
        for seed, path in enumerate(routes):
            write_traffic(scenario, seed, path)
        self.routes = itertools.cycle(map(str, routes))
        self.accelerations = itertools.cycle(draw_accelerations(1000, 1)[:, 0].tolist())
        if not libsumo.isLoaded():
            libsumo.start(['sumo', *self.options, next(self.routes)])

    def drive(self, seconds: float) -> Round:
        """Whole episodes until their steps have taken so long."""
        done = Round()
        while done.seconds < seconds:
            libsumo.load([*self.options, next(self.routes)])
            libsumo.simulationStep()    # ego enters
            libsumo.vehicle.setSpeedMode('ego', 0)
            start = thread_time()
            self._episode(done)
            done.seconds += thread_time() - start
        return done

    def _episode(self, done: Round) -> None:
        vehicle, simulation, top_speed = libsumo.vehicle, libsumo.simulation, self.scenario.ego.speed_max
        speed = vehicle.getSpeed('ego')
        for step in range(self.scenario.max_steps):
            if step % HOLD == 0:
                acceleration = next(self.accelerations)
            speed = min(max(speed + acceleration * STEP_SECONDS, 0.0), top_speed)
            vehicle.setSpeed('ego', speed)
            libsumo.simulationStep()
            names = vehicle.getIDList()
            states = [(vehicle.getPosition(name), vehicle.getSpeed(name), vehicle.getAngle(name)) for name in names]
            done.scene_steps += 1
            done.vehicle_steps += len(states)
            if 'ego' not in names or any('ego' in (crash.collider, crash.victim)
                                         for crash in simulation.getCollisions()):
                return


class HighwayEnv:
    """HighwayEnv's own scene of the kind, at 10 Hz, observation included."""

    name = 'HighwayEnv'

    def __init__(self, scenario: Scenario) -> None:
        config: dict[str, object] = {'simulation_frequency': 10, 'policy_frequency': 10}
        if scenario.name == 'left_turn':
            # It spawns per decision: 0.6 at its usual 1 Hz is a tenth of that at 10 Hz.
            config['spawn_probability'] = 0.06
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', DeprecationWarning)    # there are later versions of both
            self.env = gymnasium.make(SIMILAR[scenario.name], config=config, disable_env_checker=True).unwrapped
        index = {label: number for number, label in self.env.action_type.actions.items()}
        label = dict(zip(ACCELERATIONS, ('SLOWER', 'IDLE', 'FASTER'), strict=True))
        self.actions = itertools.cycle(index[label[a]] for a in draw_accelerations(1000, 1)[:, 0].tolist())
        self.max_steps = scenario.max_steps
        self.seeds = itertools.count()

    def drive(self, seconds: float) -> Round:
        """Episodes, the last one cut off, until their steps have taken so long."""
        done = Round()
        while done.seconds < seconds:
            self.env.reset(seed=next(self.seeds))
            for step in range(self.max_steps):
                if step % HOLD == 0:
                    action = next(self.actions)
                start = thread_time()
                _, _, terminated, truncated, _ = self.env.step(action)
                done.seconds += thread_time() - start
                done.scene_steps += 1
                done.vehicle_steps += len(self.env.road.vehicles)
                if terminated or truncated or done.seconds >= seconds:
                    break
        return done
