"""How a controller fares: many seeded episodes, the same traffic for every controller.

    evaluate --scenario left_turn --controller gap:3.0 --row train --episodes 1000 --seed 7 --json
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from sim_node.batch import Batch
from sim_node.scenario import Scenario, scenario_names
from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError, read_yaml
from sim_node.state import COLLISION, OUTCOMES, SUCCESS, TIMEOUT
from wcpg_ros.controllers import CHOICES, Controller, prepare
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.json_text import json_text
from wcpg_ros.risk import empirical_cvar

SCENES_AT_ONCE = 64

EPISODE = np.dtype([('episode', np.int64), ('seed', np.int64), ('outcome', np.int8), ('steps', np.int32),
                    ('return', np.float32), ('hit', np.int32)])


def drive(scenario: Scenario, controller: Controller, episodes: int, seed: int, progress: bool = False) -> np.ndarray:
    """One row per episode, in the order of their seeds: the same rows whatever else is driven beside them."""
    if episodes < 1:
        raise SettingsError(f'episodes: expected at least 1, got {episodes}')
    first, last = episode_seed(seed, 0), episode_seed(seed, episodes - 1)
    n = min(SCENES_AT_ONCE, episodes)
    batch = Batch(scenario, n)
    observation = batch.reset(first + np.arange(n))
    rows = np.zeros(episodes, EPISODE)
    missing = episodes
    with tqdm(total=episodes, unit='episode', disable=not progress, leave=False) as bar:
        while missing:
            result = batch.step(controller.act(batch, observation), scenario.action_repeat)
            observation = result.observation
            for i in np.flatnonzero(result.done & (result.seed <= last)):
                rows[result.seed[i] - first] = (result.seed[i] - first, result.seed[i], result.outcome[i],
                                                result.steps[i], result.reward[i], result.hit[i])
                missing -= 1
                bar.update()
    return rows


def summary(rows: np.ndarray) -> dict[str, Any]:
    """Counts, the mean steps of successes (of 0.1 s; None without one), the mean return and its worst 2% and 10%."""
    successes = rows['outcome'] == SUCCESS
    return {
        'n': len(rows),
        'collisions': int(np.sum(rows['outcome'] == COLLISION)),
        'successes': int(np.sum(successes)),
        'timeouts': int(np.sum(rows['outcome'] == TIMEOUT)),
        'mean_steps': round(float(rows['steps'][successes].mean()), 3) if successes.any() else None,
        'mean_return': round(float(rows['return'].mean(dtype=np.float64)), 4),
        'cvar_0.02': round(float(empirical_cvar(rows['return'], 0.02)), 4),
        'cvar_0.1': round(float(empirical_cvar(rows['return'], 0.1)), 4),
    }


def write_rows(rows: np.ndarray, path: Path) -> None:
    """The episodes as CSV, outcomes in words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(EPISODE.names or ())
        for row in rows:
            writer.writerow([OUTCOMES[row[name]] if name == 'outcome' else row[name] for name in EPISODE.names or ()])


def add_scene_arguments(parser: argparse.ArgumentParser, alpha: Callable[[str], Any] = float,
                        alpha_help: str = 'risk level of a model file, 0.01 (cautious) to 1 (default)') -> None:
    """The options that name a scene and a controller, the same in every command but for what `alpha` accepts."""
    parser.add_argument('--scenario', required=True, help=f'{", ".join(scenario_names())}, or the path of a scene file')
    parser.add_argument('--controller', required=True, help=CHOICES)
    parser.add_argument('--alpha', type=alpha, help=alpha_help)
    parser.add_argument('--row', default='train', help='row of the extrapolation table (default: train)')
    parser.add_argument('--seed', type=int, default=0, help='names the episodes (default: 0)')
    parser.add_argument('--set', nargs='*', action='extend', default=[], metavar='NAME=VALUE', dest='changes',
                        help='change a setting of the scene, for instance traffic.spawn_rate=0.05')


def parse_changes(pairs: Sequence[str]) -> dict[str, object]:
    """Settings given as NAME=VALUE, values in YAML."""
    changes = {}
    for pair in pairs:
        name, equals, value = pair.partition('=')
        if not equals:
            raise SettingsError(f'--set {pair!r}: expected NAME=VALUE')
        changes[name] = read_yaml(value, f'--set {name}')
    return changes


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='evaluate', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_scene_arguments(parser)
    parser.add_argument('--episodes', type=int, default=1000, help='default: 1000')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--csv', type=Path, metavar='FILE', help='also keep one row per episode')
    given = parser.parse_args(args)
    try:
        scenario, controller = prepare(given.scenario, given.row, given.controller, given.alpha,
                                       parse_changes(given.changes))
        rows = drive(scenario, controller, given.episodes, given.seed, progress=sys.stderr.isatty())
        if given.csv:
            write_rows(rows, given.csv)
    except (ValueError, OSError) as error:
        print(f'evaluate: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('evaluate: stopped', file=sys.stderr)
        return INTERRUPTED
    result = summary(rows)
    if given.json:
        print(json_text(result))
    else:
        print(f'{scenario.title}, row {scenario.row}, {given.controller}: {result["n"]} episodes of seed {given.seed}')
        for name in ('collisions', 'successes', 'timeouts'):
            print(f'  {name:<12} {result[name]:>6}  {100 * result[name] / result["n"]:6.2f} %')
        if result['successes']:
            print(f'  steps        {result["mean_steps"]:>6.1f}  of 0.1 s, mean of successes')
        print(f'  return       {result["mean_return"]:>6.2f}  mean; worst 10 %: {result["cvar_0.1"]:.2f}, '
              f'worst 2 %: {result["cvar_0.02"]:.2f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
