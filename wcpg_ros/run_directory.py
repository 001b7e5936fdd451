"""A training run on disk.

    runs/x/config.yaml             scenario, seed, length and the whole recipe
           log.csv, tensorboard/   one row, one point, per validation
           checkpoint.npz          everything that the future of the run depends on
           model.safetensors       the last policy
           best.safetensors        the best one on the validation seeds
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray

from sim_node.settings import SettingsError, from_mapping
from wcpg_ros.bag_rules import Rules
from wcpg_ros.model_file import write_atomically
from wcpg_ros.places import make_writable
from wcpg_ros.seeds import run_seed
from wcpg_ros.settings import Recipe, to_mapping

Config = TypeVar('Config')


class RunError(RuntimeError):
    """A run directory that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class RunConfig:
    """What makes a run: the same config gives the same weights."""

    scenario: str
    seed: int
    episodes: int                  # driven in the simulator …
    recipe: Recipe
    bags: tuple[str, ...] = ()     # learnt from before …
    rules: Rules = field(default_factory=Rules)     # … and how they are read
    decisions: int = 0             # … or so many decisions, if not 0

    def __post_init__(self) -> None:
        run_seed(self.seed)


class RunDirectory:
    """Names and formats of a run's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / 'config.yaml'
        self.log = path / 'log.csv'
        self.tensorboard = path / 'tensorboard'
        self.checkpoint = path / 'checkpoint.npz'
        self.model = path / 'model.safetensors'
        self.best = path / 'best.safetensors'

    @classmethod
    def create(cls, path: Path, config: Any) -> RunDirectory:
        """A new run; an existing one is never overwritten."""
        run = cls(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f'{path}: exists already; continue it with --resume {path}, or choose another --out')
        make_writable(path)
        write_atomically(run.config_file, yaml.safe_dump(to_mapping(config), sort_keys=False).encode())
        return run

    @classmethod
    def open(cls, path: Path, kind: type[Config]) -> tuple[RunDirectory, Config]:
        """An existing run and its config, of the kind that its trainer made."""
        run = cls(path)
        run._check()
        try:
            config = from_mapping(kind, yaml.safe_load(run.config_file.read_text()), 'run')
        except (SettingsError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise RunError(f'{run.config_file}: {error}') from None
        return run, config

    def _check(self) -> None:
        if not self.config_file.is_file():
            raise RunError(f'{self.path}: not a run directory, it has no config.yaml; give one that `train` or '
                           '`baseline` made')

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time trains in here."""
        self._check()
        with open(self.config_file, 'rb') as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f'{self.path}: another process is training in there; wait for it, or stop it') from None
            yield

    def discard(self) -> None:
        """Remove a run that has come to nothing yet; one with a checkpoint stays."""
        if not self.checkpoint.exists():
            self.config_file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):     # something else is in there
                self.path.rmdir()

    def save(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Write the checkpoint, atomically: whoever is interrupted keeps the one before."""
        buffer = io.BytesIO()
        np.savez(buffer, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)   # type: ignore[arg-type]
        write_atomically(self.checkpoint, buffer.getvalue())

    def load(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Read the checkpoint."""
        try:
            with np.load(self.checkpoint, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return arrays, json.loads(arrays.pop('facts').tobytes())
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise RunError(f'{self.checkpoint}: cut short or damaged ({error}); remove '
                           f'{self.path} and start again, or be content with {self.best.name}') from None


def nested(arrays: dict[str, NDArray], prefix: str) -> dict[str, NDArray]:
    """The arrays of one part: those named `prefix/…`."""
    return {name[len(prefix) + 1:]: values for name, values in arrays.items() if name.startswith(f'{prefix}/')}


def flattened(parts: dict[str, dict[str, NDArray]]) -> dict[str, NDArray]:
    """All parts in one dictionary, for `save`."""
    return {f'{prefix}/{name}': values for prefix, part in parts.items() for name, values in part.items()}
