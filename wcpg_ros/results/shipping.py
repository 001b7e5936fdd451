"""Which training seed's model the package ships: the median of all of them on the validation seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sim_node.settings import SettingsError
from wcpg_ros.results.manifest import MOVE_AWAY, Run


def score(run: Run) -> float:
    """Of its best checkpoint, on the validation seeds."""
    return float(run.read_log()[-1]['best_score'])


def median_run(runs: Sequence[Run]) -> Run:
    """The run whose score is the median; of an even number, the lower of the two in the middle."""
    return sorted(runs, key=score)[(len(runs) - 1) // 2]


def check_place(runs: Sequence[Run]) -> None:
    """An error where the shipped model is of none of the runs: another one would be put in its place."""
    for run in runs:
        shipped = run.shipped_file
        if shipped and shipped.is_file() and all(each.file != shipped for each in runs):
            raise SettingsError(f'{shipped}: of a seed that the manifest does not have; {MOVE_AWAY}')


def ship(runs: Sequence[Run]) -> Run:
    """Put the median run's files where the shipped ones are, and what was there where its seed's belong."""
    chosen = median_run(runs)
    shipped = chosen.shipped_file
    assert shipped is not None
    for run in runs:
        if run is not chosen and run.file == shipped:
            _move(shipped, run.seed_file)
    if chosen.file != shipped:
        _move(chosen.file, shipped)
    return chosen


def _move(model: Path, to: Path) -> None:
    """A model, its log and its card."""
    to.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ('.csv', '.md', '.safetensors'):
        if model.with_suffix(suffix).is_file():
            model.with_suffix(suffix).replace(to.with_suffix(suffix))
