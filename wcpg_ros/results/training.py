"""Train the runs of config/results.yaml whose files are missing, on all cores; stopped, it goes on where it was.

Of a run that is shipped, once all its seeds are there, the median one on the validation seeds is.

    python -m wcpg_ros.results.training --list
    python -m wcpg_ros.results.training --only ddpg ppo
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from sim_node.scenario import Scenario, load_scenario
from sim_node.settings import SettingsError, choices
from wcpg_ros.baselines.train import BaselineConfig, BaselineTrainer, check_terms
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.jobs import BACKENDS, check_backend, run_jobs
from wcpg_ros.model_file import write_atomically
from wcpg_ros.places import make_writable
from wcpg_ros.results.manifest import MANIFEST, MOVE_AWAY, Manifest, Run, load_manifest, sorted_out
from wcpg_ros.results.shipping import check_place, ship
from wcpg_ros.run_directory import RunConfig, RunDirectory, RunError
from wcpg_ros.settings import to_mapping
from wcpg_ros.train import make_trainer


@dataclass(frozen=True)
class Training:
    """A job: one run, in its directory."""

    run: Run
    directory: Path
    beginning: Path | None = None     # the directory of the shorter run that it begins as


def directory_of(run: Run, parent: Path) -> Path:
    """Named after everything the run is made from, so that a changed recipe does not resume an old run."""
    facts = {'run': to_mapping(config_of(run)), 'scene': to_mapping(_scene(run))}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
    return parent / f'{run.name}_{run.scenario}_{run.seed}_{digest}'


def _training(run: Run, manifest: Manifest, parent: Path) -> Training:
    shorter = run.settings.begins_as
    beginning = directory_of(replace(run, name=shorter, settings=manifest.runs[shorter]), parent) if shorter else None
    return Training(run, directory_of(run, parent), beginning)


def _scene(run: Run) -> Scenario:
    world = run.recipe().world
    return load_scenario(run.scenario, world.row, world.changes)


def config_of(run: Run) -> RunConfig | BaselineConfig:
    """What its trainer is told."""
    if run.settings.algorithm == 'wcpg':
        return RunConfig(run.scenario, run.seed, run.episodes, run.recipe(), decisions=run.decisions)
    return BaselineConfig(run.settings.algorithm, run.scenario, run.seed, run.decisions, run.recipe())


def _begin(job: Training, config: RunConfig | BaselineConfig) -> None:
    """A new run, or a copy of the one it begins as: at once, so that one who is killed leaves no half of it."""
    making = job.directory.with_name(f'{job.directory.name}.making')
    shutil.rmtree(making, ignore_errors=True)
    files = RunDirectory.create(making, config)
    if job.beginning and (job.beginning / files.checkpoint.name).exists():
        shutil.copytree(job.beginning, making, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns(files.config_file.name))
    making.rename(job.directory)


def train_run(job: Training) -> bool:
    """Begin or go on, and keep the best policy and the learning curve; whether the end was reached."""
    config = config_of(job.run)
    if not (job.directory / 'config.yaml').exists():
        _begin(job, config)
    files = RunDirectory(job.directory)
    with files.locked():
        if isinstance(config, BaselineConfig):
            BaselineTrainer(job.directory).train(progress=False)
        elif not make_trainer(job.directory).run(progress=False):
            return False
    write_atomically(job.run.log, files.log.read_bytes())
    write_atomically(job.run.file, files.best.read_bytes())
    return True


def _ship(manifest: Manifest) -> None:
    for name, settings in manifest.runs.items():
        for scenario in manifest.scenarios:
            runs = manifest.runs_of(name, scenario)
            if settings.shipped and all(run.trained and not run.objection() for run in runs):
                before = [run for run in runs if run.file == run.shipped_file]
                if (chosen := ship(runs)) not in before:
                    print(f'{chosen.file}: now of seed {chosen.seed}, the median of {len(runs)} on validation')


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='python -m wcpg_ros.results.training', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--manifest', type=Path, default=MANIFEST, help=f'default: {MANIFEST}')
    parser.add_argument('--only', nargs='+', metavar='NAME', help='runs of these names')
    parser.add_argument('--runs', type=Path, default=Path('runs/results'), help='where they are trained')
    parser.add_argument('--backend', default='processes', help=f'{BACKENDS} (default: processes)')
    parser.add_argument('--list', action='store_true', help='say what is missing, train nothing')
    given = parser.parse_args(args)
    try:
        manifest = load_manifest(given.manifest)
        for name in given.only or ():
            if name not in manifest.runs:
                raise SettingsError(f'run {name!r} is not in {given.manifest}; {choices(manifest.runs)}')
        wanted = [run for run in manifest.all_runs() if not given.only or run.name in given.only]
        check_place(wanted)
        missing, objections = sorted_out(wanted)
        if given.list:
            print('\n'.join([*(str(run.file) for run in missing), *objections]) or 'nothing is missing')
            return 0
        if objections:
            raise SettingsError('\n'.join([*objections, MOVE_AWAY]))
        check_backend(given.backend)
        for directory in {given.runs, *(run.file.parent for run in missing)}:
            make_writable(directory)
        jobs = [_training(run, manifest, given.runs) for run in missing]
        for job in jobs:
            config = config_of(job.run)
            if isinstance(config, BaselineConfig):
                check_terms(config)
        finished = 0
        for job, ended in tqdm(run_jobs(train_run, jobs, given.backend), total=len(jobs), unit='run', disable=None):
            finished += ended
            tqdm.write(f'{job.run.file}: {"done" if ended else "stopped; the same command goes on"}')
            if not ended:     # by a Ctrl-C, which is meant for all of them
                break
        _ship(manifest)
    except (ValueError, RunError, OSError) as error:
        print(f'training: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('training: stopped; the same command goes on', file=sys.stderr)
        return INTERRUPTED
    return 0 if finished == len(jobs) else INTERRUPTED


if __name__ == '__main__':
    sys.exit(main())
