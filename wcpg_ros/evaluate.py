"""How a controller fares: many seeded episodes, the same traffic for every controller.

    evaluate --scenario left_turn --controller gap:3.0 --row train --episodes 1000 --seed 7 --json
    evaluate --scenario merge --controller models/merge.safetensors --alpha 0.1 --episodes 100000 --backend processes
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sim_node.scenario import scenario_names
from sim_node.settings import SettingsError, read_yaml
from wcpg_ros.controllers import CHOICES
from wcpg_ros.episode_store import Drive, collect
from wcpg_ros.episodes import check_rows_file, summary, write_rows
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.jobs import BACKENDS, check_backend
from wcpg_ros.json_text import json_text


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
    parser.add_argument('--rows', type=Path, metavar='FILE', help='also keep one row per episode: .csv or .parquet')
    parser.add_argument('--backend', default='threads', help=f'{BACKENDS} (default: threads)')
    parser.add_argument('--keep', type=Path, metavar='DIRECTORY',
                        help='keep finished chunks of 1,000 episodes there, and drive none of them again')
    given = parser.parse_args(args)
    try:
        drive = Drive(given.scenario, given.controller, given.alpha, given.row, given.seed, given.episodes,
                      changes=tuple(parse_changes(given.changes).items()))
        scenario = drive.check()
        check_backend(given.backend)
        if given.rows:
            check_rows_file(given.rows)
        rows = collect(drive, given.backend, given.keep)
        if given.rows:
            write_rows(rows, given.rows)
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
