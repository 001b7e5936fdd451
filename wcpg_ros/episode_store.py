"""Driven episodes, kept on disk and never driven twice.

A `Drive` names episodes: who drives, where, which seed. It is split into chunks of 1,000 episodes, the jobs of
`run_jobs`; each finished chunk is a Parquet file named after everything its rows depend on: the model file's bytes,
alpha, the scene's settings on that row, the seed, and the code of the world. What has not changed is read, what has
changed is driven, and whoever is killed loses the chunks under way.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import io
import json
import sys
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from sim_node.scenario import Scenario
from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError
from wcpg_ros.controllers import Controller, Model, model_path, prepare
from wcpg_ros.critic_watch import CriticWatch
from wcpg_ros.episodes import drive
from wcpg_ros.jobs import cores, run_jobs
from wcpg_ros.model_file import write_atomically
from wcpg_ros.parquet import is_whole, read_parquet, write_parquet
from wcpg_ros.places import make_writable

CHUNK = 1000     # episodes
# What an episode's course is computed by. Comments and formatting do not count.
CODE = ('sim_node.batch', 'sim_node.births', 'sim_node.drivers', 'sim_node.geometry', 'sim_node.observation',
        'sim_node.observation_batch', 'sim_node.random_streams', 'sim_node.rewards', 'sim_node.roads', 'sim_node.rules',
        'sim_node.rules_batch', 'sim_node.scenario', 'sim_node.seeds', 'sim_node.state', 'sim_node.stepper',
        'sim_node.traffic', 'sim_node.vehicles', 'wcpg_ros.baselines.baseline_file', 'wcpg_ros.controllers',
        'wcpg_ros.critic_watch', 'wcpg_ros.dial', 'wcpg_ros.episodes', 'wcpg_ros.model_file', 'wcpg_ros.policy',
        'wcpg_ros.risk')
COSMETIC = ('title', 'window', 'pavement', 'centre_lines', 'rows')     # settings of a scene that no episode depends on


@dataclass(frozen=True)
class Drive:
    """Episodes of a seed on a row, by one controller; `watch` also keeps what the critic thought (a model's only)."""

    scenario: str
    controller: str
    alpha: float | None = None
    row: str = 'train'
    seed: int = 0
    episodes: int = 1000
    first: int = 0
    watch: bool = False
    changes: tuple[tuple[str, Any], ...] = ()     # to the scene

    def __post_init__(self) -> None:
        object.__setattr__(self, 'changes', _hashable(self.changes))

    def chunks(self, size: int = CHUNK) -> list[Drive]:
        """The jobs it is made of."""
        starts = range(self.first, self.first + self.episodes, size)
        return [dataclasses.replace(self, first=start, episodes=min(size, self.first + self.episodes - start))
                for start in starts]

    def check(self) -> Scenario:
        """The scene, if all of this can be driven; else an error that says why not."""
        if self.episodes < 1:
            raise SettingsError(f'episodes: expected at least 1, got {self.episodes}')
        for episode in (self.first, self.first + self.episodes - 1):
            episode_seed(self.seed, episode)
        return self._prepare()[0]

    def facts(self) -> dict[str, Any]:
        """Everything that the rows depend on. Refuses what cannot be driven."""
        scenario, controller = self._prepare()
        scene = {name: value for name, value in dataclasses.asdict(scenario).items() if name not in COSMETIC}
        file = model_path(self.controller)
        who = type(controller).__name__ if file else self.controller
        model = hashlib.sha256(file.read_bytes()).hexdigest() if file else None
        return {'controller': who, 'model': model, 'alpha': getattr(controller, 'alpha', None), 'scene': scene,
                'seed': self.seed, 'first': self.first, 'episodes': self.episodes,
                'watch': self.watch, 'code': code_digest()}

    def run(self) -> np.ndarray:
        """The rows."""
        scenario, controller = self._prepare()
        if not self.watch:
            return drive(scenario, controller, self.episodes, self.seed, self.first)
        assert isinstance(controller, Model)
        draws = np.random.default_rng([self.seed, self.first])
        watch = CriticWatch(controller.policy, controller.alpha, self.episodes, draws)
        return watch.columns(drive(scenario, controller, self.episodes, self.seed, self.first, watch))

    def _prepare(self) -> tuple[Scenario, Controller]:
        file = model_path(self.controller)
        version = file.stat() if file and file.is_file() else None
        scenario, controller = _prepared(self.scenario, self.row, self.controller, self.alpha, self.changes,
                                         version and (version.st_ino, version.st_mtime_ns, version.st_size))
        if self.watch and not isinstance(controller, Model):
            raise SettingsError(f'{self.controller}: has no critic to watch')
        return scenario, controller


@lru_cache(maxsize=8)
def _prepared(scenario: str, row: str, controller: str, alpha: float | None, changes: tuple[tuple[str, Any], ...],
              version: Hashable) -> tuple[Scenario, Controller]:
    """Once for all chunks of a drive; `version` is that of the controller's file."""
    return prepare(scenario, row, controller, alpha, dict(changes))


def _hashable(value: Any) -> Any:
    """Lists, as YAML gives them, as tuples: a drive is a key."""
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def run_chunk(chunk: Drive) -> np.ndarray:
    """A job of `run_jobs`."""
    return chunk.run()


def collect(drive: Drive, backend: str = 'serial', directory: Path | None = None) -> np.ndarray:
    """All rows of a drive; with a directory, finished chunks are kept there and not driven again."""
    progress = sys.stderr.isatty()
    if directory:
        store = EpisodeStore(directory)
        store.fill([drive], backend, progress)
        return store.rows(drive)
    # Threads are there at once, so that even one chunk's worth is divided among them.
    chunks = drive.chunks(min(CHUNK, -(-drive.episodes // cores())) if backend == 'threads' else CHUNK)
    parts: dict[Drive, np.ndarray] = {}
    with tqdm(total=drive.episodes, unit='episode', disable=not progress, leave=False) as bar:
        for chunk, rows in run_jobs(run_chunk, chunks, backend):
            parts[chunk] = rows
            bar.update(chunk.episodes)
    return np.concatenate([parts[chunk] for chunk in chunks])


class EpisodeStore:
    """A directory of finished chunks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._paths: dict[Drive, Path] = {}     # a store's life is a run's: files do not change under it
        make_writable(directory)

    def fill(self, drives: Iterable[Drive], backend: str = 'processes', progress: bool = True) -> int:
        """Drive what is missing; how many chunks that were."""
        chunks = {self._path(chunk): chunk for drive in drives for chunk in drive.chunks()}
        missing = [chunk for path, chunk in chunks.items() if not is_whole(path, chunk.episodes, _kept_as(path))]
        with tqdm(total=sum(chunk.episodes for chunk in missing), unit='episode', disable=not progress,
                  leave=False) as bar:
            for chunk, rows in run_jobs(run_chunk, missing, backend):
                buffer = io.BytesIO()
                write_parquet(rows, buffer, {'drive': json.dumps(dataclasses.asdict(chunk)),
                                             **_kept_as(self._path(chunk))})
                write_atomically(self._path(chunk), buffer.getvalue())
                bar.update(chunk.episodes)
        return len(missing)

    def rows(self, drive: Drive) -> np.ndarray:
        """The episodes of a drive that is there."""
        return np.concatenate([read_parquet(self._path(chunk)) for chunk in drive.chunks()])

    def _path(self, chunk: Drive) -> Path:
        if chunk not in self._paths:
            facts = chunk.facts()
            digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
            self._paths[chunk] = self.directory / f'{facts["scene"]["name"]}-{digest[:24]}.parquet'
        return self._paths[chunk]


def _kept_as(path: Path) -> dict[str, str]:
    """A note of the name, which says what the rows are of: a file copied over another's is not taken for it."""
    return {'kept_as': path.name}


@cache
def code_digest() -> str:
    """Of the code that an episode's course depends on, comments and formatting apart."""
    digest = hashlib.sha256()
    for name in CODE:
        digest.update(_without_words(inspect.getsource(importlib.import_module(name))).encode())
    return digest.hexdigest()[:16]


def _without_words(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
