"""Many seeded episodes of one controller, the same traffic for every controller: driven, summed up, written down."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.batch import Batch
from sim_node.scenario import Scenario
from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError
from sim_node.state import COLLISION, OUTCOMES, SUCCESS, TIMEOUT
from wcpg_ros.controllers import Controller
from wcpg_ros.parquet import arrow, write_parquet
from wcpg_ros.places import make_writable
from wcpg_ros.risk import empirical_cvar

SCENES_AT_ONCE = 1000     # the more, the less of the time is Python's

EPISODE = np.dtype([('episode', np.int64), ('seed', np.int64), ('outcome', np.int8), ('steps', np.int32),
                    ('return', np.float32), ('hit', np.int32)])

# Called with every decision: which of the episodes each scene is in, its step, what was seen and what was done.
Watch = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def drive(scenario: Scenario, controller: Controller, episodes: int, seed: int, first_episode: int = 0,
          watch: Watch | None = None) -> np.ndarray:
    """One row per episode, in the order of their seeds: the same rows whatever else is driven beside them."""
    if episodes < 1:
        raise SettingsError(f'episodes: expected at least 1, got {episodes}')
    first, _ = (episode_seed(seed, episode) for episode in (first_episode, first_episode + episodes - 1))
    rows = np.zeros(episodes, EPISODE)
    rows['seed'] = first + np.arange(episodes)
    rows['episode'] = first_episode + np.arange(episodes)
    for start in range(0, episodes, SCENES_AT_ONCE):
        numbers = np.arange(start, min(start + SCENES_AT_ONCE, episodes))
        batch = Batch(scenario, len(numbers), auto_reset=False)
        observation = batch.reset(first + numbers)
        running = np.ones(batch.n, np.bool_)
        while running.any():
            accelerations = controller.act(batch, observation)
            if watch:
                watch(numbers[running], batch.scenes['step'][running], observation[running], accelerations[running])
            result = batch.step(accelerations, scenario.action_repeat)
            observation = result.observation
            ended = running & result.done
            for column, values in (('outcome', result.outcome), ('steps', result.steps), ('return', result.reward),
                                   ('hit', result.hit)):
                rows[column][numbers[ended]] = values[ended]
            running &= ~ended
    return rows


def summary(rows: np.ndarray) -> dict[str, Any]:
    """Counts, the mean steps of successes (of 0.1 s; None without one), the mean return and its worst 2% and 10%."""
    successes = rows['outcome'] == SUCCESS
    return {
        'n': len(rows),
        'collisions': int(np.sum(rows['outcome'] == COLLISION)),
        'successes': int(np.sum(successes)),
        'timeouts': int(np.sum(rows['outcome'] == TIMEOUT)),
        'mean_steps': round(float(rows['steps'][successes].mean()), 3) if successes.any() else None,
        'mean_return': round(float(rows['return'].mean(dtype=np.float64)), 4),
        'cvar_0.02': round(float(empirical_cvar(rows['return'], 0.02)), 4),
        'cvar_0.1': round(float(empirical_cvar(rows['return'], 0.1)), 4),
    }


def check_rows_file(path: Path) -> None:
    """An error unless `write_rows` will be able to write there: known before anything is driven."""
    if path.suffix not in ('.csv', '.parquet'):
        raise SettingsError(f'{path}: rows are written as .csv or .parquet')
    make_writable(path.parent)
    path.open('ab').close()
    if path.suffix == '.parquet':
        arrow()


def write_rows(rows: np.ndarray, path: Path) -> None:
    """The episodes as CSV or Parquet, by the file's ending, outcomes in words."""
    if path.suffix == '.parquet':
        write_parquet(rows, path)
        return
    with path.open('w', newline='') as file:
        writer, names = csv.writer(file), rows.dtype.names or ()
        writer.writerow(names)
        for row in rows:
            writer.writerow([OUTCOMES[row[name]] if name == 'outcome' else row[name] for name in names])
