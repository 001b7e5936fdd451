"""What every section of docs/results.md works with: the manifest, the driven episodes, where pictures go."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from sim_node.settings import SettingsError
from sim_node.state import COLLISION, SUCCESS, TIMEOUT
from wcpg_ros.episode_store import Drive, EpisodeStore
from wcpg_ros.results.intervals import Interval, bootstrap_mean, wilson
from wcpg_ros.results.manifest import MANIFEST, TRAIN, EvaluationSettings, Manifest, Run

PICTURES = 'pictures'     # the folder beside the page
DEVIATIONS = Path('docs/deviations.md')


@dataclass(frozen=True)
class Cell:
    """The outcomes of one drive."""

    n: int
    collisions: int
    successes: int
    timeouts: int
    collision_rate: Interval     # Wilson
    steps: Interval              # of successes, of 0.1 s; bootstrap
    mean_return: Interval        # bootstrap


class Context:
    """Drives are named, then filled all at once, then read."""

    def __init__(self, manifest: Manifest, store: EpisodeStore, page: Path, quick: bool = False,
                 source: Path = MANIFEST) -> None:
        self.manifest, self.store, self.page, self.quick, self.source = manifest, store, page, quick, source
        self._making = page.with_name(f'.{page.stem}.making')
        self._cells: dict[Drive, Cell] = {}

    @property
    def evaluation(self) -> EvaluationSettings:
        """How much is driven."""
        return self.manifest.evaluation

    def runs(self, name: str, scenario: str) -> list[Run]:
        """The runs of a name, a seed each."""
        return self.manifest.runs_of(name, scenario)

    def shipped_run(self, scenario: str) -> Run:
        """The run whose model the package ships."""
        runs = self.runs('ours', scenario)
        shipped = [run for run in runs if run.file == run.shipped_file]
        if not shipped:
            raise SettingsError(f'{runs[0].shipped_file}: not there, or of a seed that the manifest does not have; '
                                f'`{TRAIN} --only ours` chooses one')
        return shipped[0]

    def shipped(self, scenario: str) -> str:
        """The model file that the package ships."""
        return str(self.shipped_run(scenario).file)

    def drive(self, scenario: str, controller: str | Path, alpha: float | None = None, row: str = 'train',
              episodes: int | None = None, watch: bool = False) -> Drive:
        """A drive on the seeds for reporting."""
        return Drive(scenario, str(controller), alpha, row, self.evaluation.seed,
                     episodes or self.evaluation.episodes, watch=watch)

    def rows(self, drive: Drive) -> np.ndarray:
        """Its episodes."""
        return self.store.rows(drive)

    def cell(self, drive: Drive) -> Cell:
        """Its outcomes."""
        if drive not in self._cells:
            rows = self.rows(drive)
            outcome = rows['outcome']
            collisions, successes, timeouts = (int(np.sum(outcome == kind)) for kind in (COLLISION, SUCCESS, TIMEOUT))
            self._cells[drive] = Cell(len(rows), collisions, successes, timeouts, wilson(collisions, len(rows)),
                                      bootstrap_mean(rows['steps'][outcome == SUCCESS]),
                                      bootstrap_mean(rows['return']))
        return self._cells[drive]

    def made(self, name: str) -> Path:
        """Where the page and what belongs to it are made, by their places beside it, until `publish`."""
        path = self._making / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def publish(self) -> None:
        """All that was made takes its place, so that an old page never has new pictures."""
        for path in sorted(path for path in self._making.rglob('*') if path.is_file()):
            place = self.page.parent / path.relative_to(self._making)
            place.parent.mkdir(exist_ok=True)
            path.replace(place)

    def discard(self) -> None:
        """Forget what was made and not published, also by one who was killed."""
        shutil.rmtree(self._making, ignore_errors=True)

    def picture(self, name: str) -> Path:
        """Where a picture is made."""
        return self.made(f'{PICTURES}/{name}')

    @property
    def deviations(self) -> str:
        """Where we differ from the paper, from the page."""
        return os.path.relpath(DEVIATIONS, self.page.parent)

    def link(self, name: str, text: str) -> str:
        """A picture in the page."""
        return f'![{text}]({PICTURES}/{name})'


class Section(Protocol):
    """A part of the page: a module with these two functions."""

    def drives(self, context: Context) -> Iterable[Drive]:
        """The episodes it needs."""

    def lines(self, context: Context) -> list[str]:
        """Its Markdown."""


@cache
def paper_tables() -> dict[str, Any]:
    """The paper's numbers, from paper.yaml."""
    return yaml.safe_load(resources.files('wcpg_ros.results').joinpath('paper.yaml').read_text())


def table_rows(scenario: str) -> list[str]:
    """The rows of the paper's extrapolation table."""
    return list(paper_tables()[scenario])


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table; the first column is words, the others are numbers."""
    return [f'| {" | ".join(header)} |', f'|---|{"---:|" * (len(header) - 1)}',
            *(f'| {" | ".join(str(cell) for cell in row)} |' for row in rows), '']


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage, without the sign."""
    return f'{100 * value:.{digits}f}'


def percent_interval(interval: Interval, digits: int = 1) -> str:
    """A share with its interval."""
    return f'{percent(interval.value, digits)} [{percent(interval.low, digits)}, {percent(interval.high, digits)}]'


def number_interval(interval: Interval, digits: int = 1) -> str:
    """A number with its interval, or a dash."""
    if np.isnan(interval.value):
        return '–'
    return f'{interval.value:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]'


def mean_of(values: np.ndarray) -> float:
    """The mean, NaN of nothing."""
    return float(values.mean(dtype=float)) if len(values) else float('nan')


def with_row(drive: Drive, row: str) -> Drive:
    """The same on another row."""
    return dataclasses.replace(drive, row=row)
