"""Train a policy.

    train --scenario left_turn --config config/paper.yaml --seed 3 --episodes 5000 --out runs/x
    train --config config/left_turn.yaml --seeds 0 1 2 3 --out runs/y
    train --from-bag bags/big --config config/offline.yaml --out runs/z [--then-sim 1000]
    train --resume runs/x

From bags it learns without driving; --then-sim goes on in the simulator. Ctrl-C saves; --resume continues as if never
stopped, bit for bit. Several seeds run side by side, one process and one thread each, in runs/y/seed0 and so on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim_node.batch import Batch
from sim_node.scenario import load_scenario
from sim_node.settings import SettingsError, replaced
from wcpg_ros.bag_rules import BagError, Rules, add_rules_arguments, rules_of
from wcpg_ros.evaluate import parse_changes
from wcpg_ros.interrupts import INTERRUPTED, interrupts
from wcpg_ros.jobs import end_with_parent
from wcpg_ros.learner import NotFiniteError
from wcpg_ros.run_directory import RunConfig, RunDirectory, RunError
from wcpg_ros.settings import load_recipe
from wcpg_ros.trainer import Trainer


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='train', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--scenario', help='left_turn, merge, or the path of a scene file (default: of the recipe)')
    parser.add_argument('--config', type=Path, help='the recipe, a YAML file')
    parser.add_argument('--set', nargs='*', action='extend', default=[], metavar='NAME=VALUE',
                        help='change a setting of the recipe, for instance learning.gamma=0.98')
    parser.add_argument('--seed', type=int, help='seed of the run (default 0)')
    parser.add_argument('--seeds', type=int, nargs='+', help='several runs side by side')
    parser.add_argument('--episodes', type=int,
                        help='length of the run (default: of the recipe); up to world.scenes - 1 more where several '
                             'end at once')
    parser.add_argument('--decisions', type=int, help='length of the run in decisions instead')
    parser.add_argument('--from-bag', type=Path, nargs='+', metavar='BAG', help='learn from recorded drives')
    parser.add_argument('--then-sim', type=int, metavar='EPISODES',
                        help='after the bags, go on in the simulator, so long as --episodes would')
    parser.add_argument('--out', type=Path, help='directory to make (default: named after the run, in runs/)')
    parser.add_argument('--resume', type=Path, metavar='DIRECTORY', help='continue the run, or the runs, in there')
    add_rules_arguments(parser)
    options = parser.parse_args(args)
    runs: list[Path] = []
    try:
        runs = _resumed(parser, options) if options.resume else _created(parser, options)
        finished = _run_all(runs)
    except MemoryError as error:
        for run in runs:
            RunDirectory(run).discard()     # so that the same command works with smaller sizes
        print(f'train: {error}: too much memory for learning.replay, networks or scenes of these sizes',
              file=sys.stderr)
        return 2
    except (SettingsError, RunError, NotFiniteError, BagError, OSError) as error:
        print(f'train: {error}', file=sys.stderr)
        return 2
    for run, ended in zip(runs, finished, strict=True):
        print(f'{run}: {"done" if ended else f"stopped; continue with --resume {run}"}')
    return 0 if all(finished) else INTERRUPTED


def _created(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Path]:
    bags = tuple(str(path.resolve()) for path in options.from_bag or ())
    rules = rules_of(options)
    if bags:
        options.scenario = options.scenario or _offline().scenario_of(options.from_bag, rules)
        options.out = options.out or Path('runs', options.from_bag[0].resolve().name)
        if options.episodes is not None or options.decisions is not None:
            parser.error('--episodes and --decisions count driven ones: with --from-bag say --then-sim')
    elif options.then_sim is not None or rules != Rules():
        parser.error('--then-sim, --map, --vehicle-size, --scene-pose and --tolerance go with --from-bag')
    if options.config is None:
        parser.error('--config is needed (or --resume)')
    recipe = replaced(load_recipe(options.config), parse_changes(options.set), 'recipe')
    options.scenario = options.scenario or recipe.world.scenario
    if not options.scenario:
        parser.error('--scenario is needed (or --resume)')
    if options.seed is not None and options.seeds:
        parser.error('give --seed or --seeds, not both')
    seeds = options.seeds or [options.seed or 0]
    if not options.out:
        names = dict.fromkeys([Path(options.scenario).stem, options.config.stem])
        options.out = Path('runs', '_'.join([*names, *([] if options.seeds else [f'seed{seeds[0]}'])]))
    if bags:
        episodes = options.then_sim or 0
    else:
        episodes = recipe.world.episodes if options.episodes is None else options.episodes
    decisions = 0 if options.decisions is None else options.decisions
    if options.decisions is not None and options.episodes is not None:
        parser.error('give --episodes or --decisions, not both')
    if len(set(seeds)) < len(seeds):
        parser.error('--seeds: give each once')
    if episodes < (0 if bags else 1) or (options.decisions is not None and decisions < 1):
        parser.error('--then-sim must be at least 0, --episodes and --decisions at least 1')
    if Path(options.scenario).is_file():
        options.scenario = str(Path(options.scenario).resolve())     # so that --resume finds it from anywhere
    load_scenario(options.scenario, recipe.world.row, recipe.world.changes)   # fails before anything is made
    configs = {options.out / f'seed{seed}' if options.seeds else options.out:
               RunConfig(options.scenario, seed, episodes, recipe, bags, rules, decisions) for seed in seeds}
    for path, config in configs.items():
        RunDirectory.create(path, config)
    return list(configs)


def _resumed(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Path]:
    for name in ('scenario', 'config', 'seed', 'seeds', 'episodes', 'decisions', 'from_bag', 'then_sim', 'out', 'set',
                 'map', 'vehicle_size', 'scene_pose', 'tolerance'):
        if getattr(options, name) != parser.get_default(name):
            parser.error(f'--resume continues the run as it was begun: it takes no --{name.replace("_", "-")}')
    if (options.resume / 'config.yaml').exists():
        return [options.resume]
    runs = sorted(path.parent for path in options.resume.glob('seed*/config.yaml'))
    if not runs:
        raise RunError(f'{options.resume}: not a run directory, it has no config.yaml; '
                       'give a directory that `train` made')
    return runs


def _run_all(runs: list[Path]) -> list[bool]:
    if len(runs) == 1:
        return [train(runs[0])]
    workers = min(len(runs), os.cpu_count() or 1)
    finished: dict[Path, bool] = {}
    with ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), end_with_parent) as pool:
        futures = [pool.submit(_train_each, runs[index::workers], index) for index in range(workers)]
        with interrupts(lambda: None):   # the same Ctrl-C has reached the workers: wait until they have saved
            for future in futures:
                finished |= future.result()
    return [finished[run] for run in runs]


def _train_each(runs: list[Path], position: int) -> dict[Path, bool]:
    """A worker's runs, one after the other; after a Ctrl-C none begins."""
    interrupted: list[bool] = []
    signal.signal(signal.SIGINT, lambda number, frame: interrupted.append(True))
    finished: dict[Path, bool] = {}
    for run in runs:
        finished[run] = not interrupted and train(run, position)
        if not finished[run]:
            interrupted.append(True)
    return finished


def train(path: Path, position: int = 0) -> bool:
    """Begin or continue one run; whether it reached its end."""
    with RunDirectory(path).locked():     # before its checkpoint is read: another process may be about to write one
        trainer = make_trainer(path)
        try:
            if trainer.config.bags and not _offline().learn(trainer, position):
                return False
        except BagError:
            trainer.run_directory.discard()     # so that the same command works once the bags are right
            raise
        return trainer.run(position=position) if trainer.config.episodes else trainer.calibrate()


def _offline() -> Any:
    """The module that reads bags; training in the simulator does without the libraries it needs."""
    try:
        from wcpg_ros import offline
    except ModuleNotFoundError as missing:
        raise BagError(f"{missing}; it comes with: pip install 'wcpg_ros[bags]'") from None
    return offline


def make_trainer(path: Path) -> Trainer:
    """The trainer of a run directory, where its checkpoint left it."""
    run, config = RunDirectory.open(path, RunConfig)
    world = config.recipe.world
    scenario = load_scenario(config.scenario, world.row, world.changes)
    config = replace(config, scenario=scenario.name)   # a path would tie the model to this machine
    make = Trainer.resume if run.checkpoint.exists() else Trainer
    return make(run, config, lambda n: Batch(scenario, n), scenario.action_repeat)


if __name__ == '__main__':
    sys.exit(main())
