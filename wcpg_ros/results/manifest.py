"""config/results.yaml: what is measured, and which trained files that takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sim_node.settings import SettingsError, check, from_mapping, read_yaml, replaced
from wcpg_ros.model_file import ModelFile, unpack
from wcpg_ros.settings import Group, Recipe, ValidationSettings, bounded, load_recipe

MANIFEST = Path('config/results.yaml')
TRAIN = 'python -m wcpg_ros.results.training'


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

    def recipe(self) -> Recipe:
        """What it is trained by."""
        config = Path(self._filled(self.settings.config))
        recipe = replaced(load_recipe(config), self.settings.changes, str(config))
        scene = {'world.changes': {**recipe.world.changes, **self.settings.scene}}
        return replaced(recipe, scene, str(config))

    def fits(self) -> bool:
        """Whether its file was trained by this recipe; a baseline has no place for all of it.

        What a file does not say was not there yet when it was trained, and is as by default.
        """
        try:
            trained_by = from_mapping(Recipe, unpack(self.file)[0]['recipe'], str(self.file))
        except SettingsError:     # it says what no recipe has any more
            return False
        wanted = self.recipe()
        if self.settings.algorithm == 'wcpg':
            return trained_by == wanted
        return _read_by_baselines(trained_by) == _read_by_baselines(wanted)

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
        for name, run in self.runs.items():
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
        raise SettingsError(f'{path}: cannot be read: {error}') from None


def check_files(runs: Iterable[Run]) -> None:
    """An error that names the files that are not there, or not by the recipe as it is, and how to make them."""
    runs = list(runs)
    missing = [run for run in runs if not run.file.is_file() or not run.log.is_file()]
    if missing:
        names = ' '.join(dict.fromkeys(run.name for run in missing))
        raise SettingsError(f'{_and_more(missing)}: not trained yet; train with `{TRAIN} --only {names}`')
    stale = [run for run in runs if not run.fits()]
    if stale:
        raise SettingsError(f'{_and_more(stale)}: trained by another recipe than that of the manifest; move it away '
                            f'and train with `{TRAIN}`')


def _read_by_baselines(recipe: Recipe) -> Recipe:
    """A recipe without what is about levels."""
    return Recipe(recipe.networks, recipe.critic, recipe.actor, exploration=recipe.exploration,
                  learning=recipe.learning, world=recipe.world,
                  validation=ValidationSettings(episodes=recipe.validation.episodes))


def _and_more(runs: list[Run]) -> str:
    return f'{runs[0].file}{f" and {len(runs) - 1} more" if len(runs) > 1 else ""}'
