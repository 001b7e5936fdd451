"""Our simulator against libsumo and HighwayEnv, one core, one run: `python bench/simulator.py [--json] [--seconds 4]`.

Ours goes through the Python API, one step of 0.1 s per call, observations included, N scenes at a time. libsumo drives
the same roads and the same traffic (see sumo_scene.py); HighwayEnv has its own scenes of the kind. Everybody's ego
gets accelerations drawn alike. Seconds are those that the one thread really ran, and the contenders take turns in
short rounds, so that whatever else the machine does hits all of them. Printed are medians over the rounds, and the mean
number of vehicles present, ego among them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import thread_time
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from sim_node.batch import Batch
from sim_node.scenario import Scenario, load_scenario

try:
    from peers import HOLD, HighwayEnv, Round, Sumo, draw_accelerations
except ImportError as missing:
    sys.exit(f"bench/simulator.py: {missing}; the peers come with: pip install -e '.[gym,bench]'")

SCENARIOS = ('left_turn', 'merge')
SIZES = (1, 16, 64, 512)
# (ours, peer, how many times its scene-steps per second at least)
BARS = (('N=1', 'libsumo', 3.0), ('N=64', 'libsumo', 30.0), ('N=1', 'HighwayEnv', 1000.0))
# The cost of a vehicle-step at N = 512 against N = 64 must not grow, but for a little: a processor learns the branches
# of a few scenes by heart. (512 copies of one scene cost what 64 copies do.)
GROWTH_BAR = 1.1


class Contender(Protocol):
    """Somebody who can be asked to drive for some seconds."""

    name: str

    def drive(self, seconds: float) -> Round: ...


class Ours:
    """A batch of N scenes."""

    def __init__(self, scenario: Scenario, n: int) -> None:
        self.name = f'N={n}'
        self.batch = Batch(scenario, n)
        self.batch.reset(np.arange(n))
        self.accelerations = itertools.cycle(draw_accelerations(1000, n))

    def drive(self, seconds: float) -> Round:
        """Steps until they have taken so long; episodes end and begin inside them."""
        done, batch, step = Round(), self.batch, self.batch.step
        while done.seconds < seconds:
            held = next(self.accelerations)
            start = thread_time()
            for _ in range(HOLD):
                step(held)
            done.seconds += thread_time() - start
            done.scene_steps += HOLD * batch.n
            done.vehicle_steps += HOLD * (int(batch.counts.sum()) + batch.n)
        return done


def measure(seconds: float, rounds: int) -> dict[str, dict[str, list[Round]]]:
    """Every contender's rounds, by scenario and name; each drives for `seconds` in all, after one round to warm up."""
    results: dict[str, dict[str, list[Round]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        contenders: dict[str, list[Contender]] = {}
        for name in SCENARIOS:
            scenario = load_scenario(name)
            contenders[name] = [*(Ours(scenario, n) for n in SIZES), Sumo(scenario, Path(folder)), HighwayEnv(scenario)]
            results[name] = {contender.name: [] for contender in contenders[name]}
        total = (rounds + 1) * sum(map(len, contenders.values()))
        with tqdm(total=total, unit='round', file=sys.stderr, leave=False) as bar:
            for turn in range(rounds + 1):
                for name in SCENARIOS:
                    for contender in contenders[name]:
                        done = contender.drive(seconds / rounds)
                        if turn:
                            results[name][contender.name].append(done)
                        bar.update()
    return results


def figures(rounds: list[Round]) -> dict[str, float]:
    """Medians over a contender's rounds."""
    return {
        'scene_steps_per_s': statistics.median(done.scene_steps / done.seconds for done in rounds),
        'vehicle_steps_per_s': statistics.median(done.vehicle_steps / done.seconds for done in rounds),
        'ns_per_vehicle_step': statistics.median(1e9 * done.seconds / done.vehicle_steps for done in rounds),
        'mean_vehicles': sum(done.vehicle_steps for done in rounds) / sum(done.scene_steps for done in rounds),
    }


def summary(results: dict[str, dict[str, list[Round]]]) -> dict[str, Any]:
    """Figures, ratios and whether the bars are met, by scenario."""
    report: dict[str, Any] = {}
    for scenario, contenders in results.items():
        rows = {name: figures(rounds) for name, rounds in contenders.items()}
        bars = []
        for ours, peer, bar in BARS:
            ratio = rows[ours]['scene_steps_per_s'] / rows[peer]['scene_steps_per_s']
            per_vehicle = rows[ours]['vehicle_steps_per_s'] / rows[peer]['vehicle_steps_per_s']
            bars.append({'ours': ours, 'peer': peer, 'scene_steps_ratio': ratio, 'vehicle_steps_ratio': per_vehicle,
                         'bar': bar, 'met': ratio >= bar})
        growth = rows['N=512']['ns_per_vehicle_step'] / rows['N=64']['ns_per_vehicle_step']
        report[scenario] = {'contenders': rows, 'bars': bars,
                            'cost_512_to_64': {'ratio': growth, 'bar': GROWTH_BAR, 'met': growth <= GROWTH_BAR}}
    return report


def show(report: dict[str, Any]) -> None:
    """The report as tables."""
    for scenario, parts in report.items():
        print(f'{scenario:<12}{"scene-steps/s":>15}{"vehicle-steps/s":>17}{"ns/vehicle-step":>17}{"vehicles":>10}')
        for name, row in parts['contenders'].items():
            print(f'  {name:<10}{row["scene_steps_per_s"]:>15,.0f}{row["vehicle_steps_per_s"]:>17,.0f}'
                  f'{row["ns_per_vehicle_step"]:>17,.0f}{row["mean_vehicles"]:>10.2f}')
        for bar in parts['bars']:
            print(f'  {bar["ours"]} is {bar["scene_steps_ratio"]:,.1f} times {bar["peer"]}, by vehicle-steps '
                  f'{bar["vehicle_steps_ratio"]:,.1f} (bar: {bar["bar"]:,.0f}, {_verdict(bar["met"])})')
        growth = parts['cost_512_to_64']
        print(f'  a vehicle-step at N=512 costs {growth["ratio"]:.2f} of one at N=64 '
              f'(bar: {growth["bar"]}, {_verdict(growth["met"])})\n')


def _verdict(met: bool) -> str:
    return 'met' if met else 'MISSED'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--seconds', type=float, default=4.0, help='measured per contender and scenario (default: 4)')
    parser.add_argument('--rounds', type=int, default=10, help='turns in which to do it (default: 10)')
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report = summary(measure(given.seconds, given.rounds))
    if given.json:
        print(json.dumps(report))
    else:
        show(report)


if __name__ == '__main__':
    main()
