"""config/results.yaml: what is measured, and which trained files that takes."""

from __future__ import annotations

import csv
import dataclasses
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim_node.scenario import load_scenario
from sim_node.settings import SettingsError, check, from_mapping, read_yaml, replaced
from wcpg_ros.model_file import ModelError, ModelFile, unpack
from wcpg_ros.seeds import run_seed
from wcpg_ros.settings import Group, Recipe, ValidationSettings, bounded, load_recipe

MANIFEST = Path('config/results.yaml')
TRAIN = 'python -m wcpg_ros.results.training'
MOVE_AWAY = f'move it away, and train with `{TRAIN}`'


@dataclass(frozen=True)
class EvaluationSettings(Group):
    """How much is driven."""

    seed: int = bounded(0, '[0, 999]')
    episodes: int = bounded(1000, '[1, inf)')
    matrix_episodes: int = bounded(10_000, '[1, inf)')
    curve_episodes: int = bounded(3000, '[1, inf)')
    alphas: tuple[float, ...] = bounded((0.02, 0.1, 0.3, 0.6, 1.0), '(0, 1]')
    curve_alphas: tuple[float, ...] = bounded((0.02, 0.1, 0.3, 0.6, 1.0), '(0, 1]')
    gaps: tuple[float, ...] = bounded((3.0,), '[0, inf)')
    table_gap: float = bounded(4.0, '[0, inf)')
    margins: tuple[float, ...] = (0.0,)
    table_margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(len(self.alphas) > 2, 'alphas', 'give at least three, or nobody is two settings away')
        for name in ('alphas', 'curve_alphas', 'gaps', 'margins'):
            values = getattr(self, name)
            check(bool(values) and sorted(set(values)) == list(values), name, f'expected rising ones, got {values}')


@dataclass(frozen=True)
class RunSettings(Group):
    """One kind of run: the same recipe in every scenario and for every seed."""

    config: str
    file: str
    algorithm: Literal['wcpg', 'ddpg', 'ppo', 'c51'] = 'wcpg'
    changes: dict[str, Any] = field(default_factory=dict)     # to the recipe …
    scene: dict[str, Any] = field(default_factory=dict)       # … and to the scene that it trains in
    episodes: int = bounded(0, '[0, inf)')                    # its length, in one of the two …
    decisions: dict[str, int] = field(default_factory=dict)   # … by scenario, or, with neither, the recipe's own
    shipped: str = ''                                         # the file that stands for the seed it says it has
    seeds: tuple[int, ...] = ()                               # fewer of them, if not empty
    begins_as: str = ''                                       # goes on where this shorter run ended, if it is there

    def __post_init__(self) -> None:
        super().__post_init__()
        check(not (self.episodes and self.decisions), 'runs', f'{self.file}: give episodes or decisions, not both')
        check(self.algorithm == 'wcpg' or bool(self.decisions), 'runs',
              f'{self.file}: {self.algorithm} takes decisions')
        check(not self.begins_as or self.algorithm == 'ppo', 'runs', f'{self.file}: only ppo begins as a shorter run, '
              'as the others\' learning rates fall with the length of the run')
        _check_place(self.file, '{scenario}', '{seed}')
        if self.shipped:
            _check_place(self.shipped, '{scenario}')


def _check_place(place: str, *names: str) -> None:
    try:
        filled = {f'{{{name}}}' for _, name, *_ in string.Formatter().parse(place) if name is not None}
    except ValueError as error:
        raise SettingsError(f'runs: {place}: {error}') from None
    check(filled == set(names), 'runs', f'{place}: expected a path with {" and ".join(names)}, which keep runs apart')


@dataclass(frozen=True)
class Run:
    """One run, and the file that it leaves."""

    name: str
    scenario: str
    seed: int
    settings: RunSettings

    @property
    def file(self) -> Path:
        """Of its model; that of the shipped one is not repeated."""
        shipped = self.shipped_file
        if shipped and shipped.is_file() and ModelFile.load(shipped).info.seed == self.seed:
            return shipped
        return self.seed_file

    @property
    def seed_file(self) -> Path:
        """Of its model, unless it is the shipped one."""
        return Path(self._filled(self.settings.file))

    @property
    def shipped_file(self) -> Path | None:
        """Of the model that is shipped of all its seeds, if one is."""
        return Path(self._filled(self.settings.shipped)) if self.settings.shipped else None

    @property
    def log(self) -> Path:
        """Its learning curve, beside the model."""
        return self.file.with_suffix('.csv')

    @property
    def decisions(self) -> int:
        """Its length, or 0 if that is counted in episodes."""
        return self.settings.decisions.get(self.scenario, 0)

    @property
    def episodes(self) -> int:
        """Its length, or 0 if that is counted in decisions."""
        return 0 if self.decisions else self.settings.episodes or self.recipe().world.episodes

    def recipe(self) -> Recipe:
        """What it is trained by."""
        config = Path(self._filled(self.settings.config))
        recipe = replaced(load_recipe(config), self.settings.changes, f'runs.{self.name}.changes')
        changes = {**recipe.world.changes, **self.settings.scene}
        if self.settings.scene:
            try:
                load_scenario(self.scenario, recipe.world.row, changes)
            except SettingsError as error:
                raise SettingsError(f'runs.{self.name}.scene: {error}') from None
        return replaced(recipe, {'world.changes': changes}, f'runs.{self.name}.scene')

    @property
    def trained(self) -> bool:
        """Whether its files are there: a model and its learning curve."""
        return self.file.is_file() and self.log.is_file()

    def objection(self) -> str:
        """Why its files are not those of this run; nothing if they are."""
        try:
            info = unpack(self.file)[0]
        except ModelError as error:
            return str(error)
        found = info.get('algorithm', 'wcpg'), info.get('scenario'), info.get('seed')
        if found != (self.settings.algorithm, self.scenario, self.seed):
            return '{}: made by {} for {} with seed {}'.format(self.file, *found)
        if not self._by_this_recipe(info):
            return f'{self.file}: trained by another recipe than that of the manifest'
        unit, length = ('decisions', self.decisions) if self.decisions else ('episodes', self.episodes)
        try:
            log = [{name: float(value) for name, value in row.items()} for row in self.read_log()]
            done = log[-1][unit]
        except (LookupError, TypeError, ValueError):
            return f'{self.log}: no learning curve, cut short or damaged'
        return '' if done >= length else f'{self.log}: ends at {done:,.0f} of {length:,} {unit}'

    def _by_this_recipe(self, info: dict[str, Any]) -> bool:
        """A baseline has no place for all of a recipe.

        What a file does not say was not there yet when it was trained, and is as by default.
        """
        try:
            trained_by = from_mapping(Recipe, info['recipe'], str(self.file))
        except SettingsError:     # it says what no recipe has any more
            return False
        wanted = self.recipe()
        if self.settings.algorithm == 'wcpg':
            return trained_by == wanted
        return _read_by_baselines(trained_by) == _read_by_baselines(wanted)

    def read_log(self) -> list[dict[str, str]]:
        """Its learning curve, a row per validation; nothing if there is none."""
        if not self.log.is_file():
            return []
        with self.log.open(newline='') as file:
            return list(csv.DictReader(file))

    def _filled(self, text: str) -> str:
        return text.format(scenario=self.scenario, seed=self.seed)


@dataclass(frozen=True)
class Manifest:
    """Everything docs/results.md is made from."""

    scenarios: tuple[str, ...]
    seeds: tuple[int, ...]
    evaluation: EvaluationSettings
    runs: dict[str, RunSettings]
    one_each: bool = False     # one run of each kind: the shipped one, or else the first

    def __post_init__(self) -> None:
        for names in ('scenarios', 'seeds'):
            values = getattr(self, names)
            check(bool(values) and len(set(values)) == len(values), names, f'expected some, each once, got {values}')
        for seed in self.seeds:
            run_seed(seed)
        for name, run in self.runs.items():
            check(not run.seeds or bool(set(run.seeds) & set(self.seeds)), f'runs.{name}.seeds',
                  f'none of {run.seeds} is in {self.seeds}')
            check(not run.begins_as or run.begins_as in self.runs, f'runs.{name}.begins_as',
                  f'{run.begins_as!r} is not a run')
            for scenario in self.scenarios if run.decisions else ():
                check(run.decisions.get(scenario, 0) > 0, f'runs.{name}.decisions', f'give a number for {scenario}')

    def runs_of(self, name: str, scenario: str) -> list[Run]:
        """The runs of one kind, a seed each."""
        settings = self.runs[name]
        runs = [Run(name, scenario, seed, settings) for seed in self.seeds
                if not settings.seeds or seed in settings.seeds]
        return sorted(runs, key=lambda run: run.file != run.shipped_file)[:1] if self.one_each else runs

    def all_runs(self) -> list[Run]:
        """Every run there should be."""
        return [run for scenario in self.scenarios for name in self.runs for run in self.runs_of(name, scenario)]

    def quick(self) -> Manifest:
        """A small version, for a look."""
        few = dataclasses.replace(self.evaluation, episodes=200, matrix_episodes=1000, curve_episodes=400,
                                  curve_alphas=self.evaluation.alphas, gaps=self.evaluation.gaps[::2],
                                  margins=self.evaluation.margins[::3])
        return dataclasses.replace(self, one_each=True, evaluation=few)


def load_manifest(path: Path = MANIFEST) -> Manifest:
    """Read the file; a SettingsError names what is wrong in it."""
    try:
        return from_mapping(Manifest, read_yaml(path.read_text(), str(path)), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f'{path}: cannot be read: {error}; give the command in the project\'s folder, or another '
                            '--manifest') from None


def check_files(runs: Iterable[Run]) -> None:
    """An error that names the files that are not there, and those that are not of these runs, and how to make them."""
    runs = list(runs)
    lost = {shipped: run for run in runs if (shipped := run.shipped_file)}
    problems = [f'{shipped}: the model that is shipped is not there, or is of another run; fetch it again (`git '
                f'checkout {shipped}`), or choose one with `{TRAIN} --only {run.name}`' for shipped, run in lost.items()
                if all(each.file != shipped for each in runs if each.scenario == run.scenario)]
    missing, objections = sorted_out(runs)
    if missing:
        names = ' '.join(dict.fromkeys(run.name for run in missing))
        problems.append(f'{_and_more([str(run.file) for run in missing])}: not trained yet; train with '
                        f'`{TRAIN} --only {names}`')
    if objections:
        problems.append(f'{_and_more(objections)}; {MOVE_AWAY}')
    if problems:
        raise SettingsError('\n'.join(problems))


def sorted_out(runs: Iterable[Run]) -> tuple[list[Run], list[str]]:
    """The runs whose files are not there, and what is wrong with those that are."""
    runs = list(runs)
    return [run for run in runs if not run.trained], [text for run in runs if run.trained and (text := run.objection())]


def _read_by_baselines(recipe: Recipe) -> Recipe:
    """A recipe without what is about levels."""
    return Recipe(recipe.networks, recipe.critic, recipe.actor, exploration=recipe.exploration,
                  learning=recipe.learning, world=recipe.world,
                  validation=ValidationSettings(episodes=recipe.validation.episodes))


def _and_more(texts: list[str]) -> str:
    return f'{texts[0]}{f" and {len(texts) - 1} more" if len(texts) > 1 else ""}'
