"""Train a baseline on the terms of a WCPG recipe.

    baseline --algorithm ddpg --config config/left_turn.yaml --decisions 200000 --out runs/ddpg
    baseline --resume runs/ddpg

A run directory like `train`'s: config.yaml, log.csv, checkpoint.npz, model.safetensors (the last policy) and
best.safetensors (the best mean return on the validation seeds). Ctrl-C loses what came after the last checkpoint.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from sim_node.scenario import Scenario, load_scenario
from sim_node.settings import SettingsError, check, replaced
from wcpg_ros.baselines.baseline_file import Baseline, BaselineInfo
from wcpg_ros.controllers import Trained
from wcpg_ros.episodes import drive, summary
from wcpg_ros.evaluate import parse_changes
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.run_directory import RunDirectory, RunError
from wcpg_ros.seeds import VALIDATION_SEED, run_seed
from wcpg_ros.settings import Recipe, load_recipe, to_mapping

INTERVAL = 20_000     # decisions between two validations …
EVERY = 5             # … of which every so many-th is followed by a checkpoint: with its replay it is 200 MB


@dataclass(frozen=True)
class BaselineConfig:
    """What makes a run: the same config gives the same weights."""

    algorithm: Literal['ddpg', 'ppo', 'c51']
    scenario: str
    seed: int
    decisions: int
    recipe: Recipe

    def __post_init__(self) -> None:
        run_seed(self.seed)


class BaselineTrainer:
    """One run, from where its checkpoint left it."""

    def __init__(self, path: Path) -> None:
        self.run, self.config = RunDirectory.open(path, BaselineConfig)
        self.scenario = _scenario(self.config)
        self.learner = _learner(self.config, self.scenario)
        self._facts: dict[str, Any] = {'best': None, 'seconds': 0.0, 'rows': 0}
        if self.run.checkpoint.exists():
            arrays, facts = self.run.load()
            self._facts = facts.pop('trainer')
            self.learner.restore(arrays, facts)

    def train(self, progress: bool = True) -> None:
        """To the end."""
        config = self.config
        with tqdm(total=config.decisions, initial=self.learner.world.decisions, unit='decision',
                  disable=not progress or None,
                  desc=f'{config.algorithm} {self.scenario.name} seed {config.seed}') as bar:
            while self.learner.world.decisions < config.decisions:
                before, started = self.learner.world.decisions, time.perf_counter()
                self.learner.learn(min(INTERVAL, config.decisions - before))
                self._facts['seconds'] += time.perf_counter() - started
                result = self._validate()
                if self._facts['rows'] % EVERY == 0 or self.learner.world.decisions >= config.decisions:
                    self._save()
                bar.update(self.learner.world.decisions - before)
                bar.set_postfix_str(f'{100 * result["collisions"] / result["n"]:.1f}% collisions, '
                                    f'return {result["mean_return"]:.2f}')

    def _validate(self) -> dict[str, Any]:
        present = self._baseline()
        episodes = self.config.recipe.validation.episodes
        result = summary(drive(self.scenario, Trained(present), episodes, VALIDATION_SEED))
        if self._facts['best'] is None or result['mean_return'] > self._facts['best']:
            self._facts['best'] = result['mean_return']
            present.save(self.run.best)
        present.save(self.run.model)
        row = {'decisions': self.learner.world.decisions, 'episodes': self.learner.world.episodes,
               'seconds': round(self._facts['seconds'], 1), **result}
        lines = self.run.log.read_text().splitlines()[:self._facts['rows'] + 1] if self._facts['rows'] else []
        with self.run.log.open('w', newline='') as file:     # without what a run wrote after its last checkpoint
            file.writelines(f'{line}\n' for line in lines or [','.join(row)])
            csv.writer(file).writerow(row.values())
        self._facts['rows'] += 1
        return result

    def _save(self) -> None:
        arrays, facts = self.learner.state()
        self.run.save(arrays, {**facts, 'trainer': self._facts})

    def _baseline(self) -> Baseline:
        output, tensors = self.learner.tensors()
        config, layout = self.config, self.scenario.layout
        return Baseline(BaselineInfo(
            algorithm=config.algorithm, output=output, scenario=self.scenario.name, layout_version=layout.version,
            vehicles=layout.vehicles, time_feature=layout.time, observation_size=layout.size,
            normaliser_clip=config.recipe.learning.observation_clip,
            action_bound=self.scenario.vehicle.acceleration_limit, recipe=to_mapping(config.recipe), seed=config.seed,
            decisions=self.learner.world.decisions, code_version=version('wcpg_ros')), tensors)


def _learner(config: BaselineConfig, scenario: Scenario) -> Any:
    """The library's run; only the one that is needed is imported."""
    terms = (scenario, config.recipe, config.seed, config.decisions)
    try:
        if config.algorithm == 'c51':
            from wcpg_ros.baselines.c51 import C51Run
            return C51Run(*terms)
        from wcpg_ros.baselines.stable import StableRun
        return StableRun(config.algorithm, *terms)
    except ImportError as error:
        raise SettingsError(f"{config.algorithm} needs {error.name}: pip install 'wcpg_ros[baselines]'") from None


def check_terms(config: BaselineConfig) -> None:
    """An error, before anything is made, where a library cannot keep the recipe's terms."""
    _scenario(config)
    recipe = config.recipe
    updates = recipe.learning.updates_per_decision * recipe.world.scenes
    check(updates == round(updates), 'learning.updates_per_decision',
          f'times {recipe.world.scenes} scenes must be a whole number, got {updates:g}')
    check(config.algorithm != 'ddpg' or recipe.critic.learning_rate == recipe.actor.learning_rate,
          'actor.learning_rate', 'Stable-Baselines3\'s DDPG has one learning rate, and critic.learning_rate is '
          f'{recipe.critic.learning_rate:g}')


def _scenario(config: BaselineConfig) -> Scenario:
    return load_scenario(config.scenario, config.recipe.world.row, config.recipe.world.changes)


def main(args: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='baseline', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--algorithm', choices=('ddpg', 'ppo', 'c51'))
    parser.add_argument('--scenario', help='left_turn, merge, or the path of a scene file (default: of the recipe)')
    parser.add_argument('--config', type=Path, help='the WCPG recipe whose terms hold, a YAML file')
    parser.add_argument('--set', nargs='*', default=[], metavar='NAME=VALUE', help='change a setting of the recipe')
    parser.add_argument('--seed', type=int, default=0, help='default: 0')
    parser.add_argument('--decisions', type=int, default=200_000, help='length of the run (default: 200,000)')
    parser.add_argument('--out', type=Path, help='directory to make')
    parser.add_argument('--resume', type=Path, metavar='DIRECTORY', help='continue the run in there')
    given = parser.parse_args(args)
    try:
        if given.resume:
            path = given.resume
        else:
            for name in ('algorithm', 'config', 'out'):
                if getattr(given, name) is None:
                    parser.error(f'--{name} is needed (or --resume)')
            if given.decisions < 1:
                parser.error('--decisions must be at least 1')
            recipe = replaced(load_recipe(given.config), parse_changes(given.set), 'recipe')
            scenario = given.scenario or recipe.world.scenario
            if not scenario:
                parser.error(f'{given.config} names no scenario: --scenario is needed')
            config = BaselineConfig(given.algorithm, scenario, given.seed, given.decisions, recipe)
            check_terms(config)
            path = RunDirectory.create(given.out, config).path
        with RunDirectory(path).locked():
            BaselineTrainer(path).train()
    except (SettingsError, RunError, OSError) as error:
        print(f'baseline: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'{path}: stopped; continue with --resume {path}', file=sys.stderr)
        return INTERRUPTED
    print(f'{path}: done')
    return 0


if __name__ == '__main__':
    sys.exit(main())
