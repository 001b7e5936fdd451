"""Learning from recorded drives: bags into replay, then the same updates as ever, without driving.

What keeps it from dreaming of actions that nobody took is in the recipe (config/offline.yaml): two critics of which
the smaller value counts, and a behaviour-cloning term. Risk levels are drawn anew for every minibatch, since a bag was
driven at one level or at none.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sim_node.scenario import load_scenario
from sim_node.state import OUTCOMES
from wcpg_ros.bag_reader import BagReader, ReadOptions
from wcpg_ros.bag_rules import BagError, Rules
from wcpg_ros.bag_transitions import Transitions
from wcpg_ros.interrupts import interrupts
from wcpg_ros.replay import Replay
from wcpg_ros.run_directory import RunConfig
from wcpg_ros.trainer import Trainer
from wcpg_ros.training_log import TrainingLog


def scenario_of(bags: Iterable[Path], rules: Rules) -> str:
    """The scene that bags were driven in, as they themselves say."""
    reader = BagReader(bags, ReadOptions(rules=rules))
    for episode in reader.episodes():
        return episode.scenario
    problems = [*reader.summary.problems, 'no bag says which scenario it was driven in: give --scenario']
    raise BagError('; '.join(problems))


def learn(trainer: Trainer, position: int = 0) -> bool:
    """The offline part of a run, from its beginning or its checkpoint; whether it reached its end."""
    offline, updates = trainer.config.recipe.offline, trainer.learner.updates
    if updates >= offline.updates:
        return True
    stop: list[bool] = []
    if not trainer.replay.size:
        with interrupts(lambda: stop.append(True)):
            fill(trainer.replay, trainer.config, position == 0 and sys.stderr.isatty(), lambda: bool(stop))
        if stop:
            return False     # without a checkpoint: resumed, it reads again
        trainer.normaliser.update(trainer.replay.rows[:trainer.replay.size, :trainer.replay.observation_size])
    log = TrainingLog(trainer.run_directory, trainer.log_rows)
    bar = tqdm(total=offline.updates, initial=updates, position=position, unit='update', disable=None,
               desc=f'{trainer.config.scenario} seed {trainer.config.seed}, offline')
    with interrupts(lambda: stop.append(True)), bar, contextlib.closing(log):
        while trainer.learner.updates < offline.updates and not stop:
            started = time.perf_counter()
            trainer.update(trainer.learner.updates / offline.updates)
            trainer.seconds['total'] += time.perf_counter() - started
            bar.update()
            if trainer.learner.updates % offline.interval == 0 or trainer.learner.updates == offline.updates:
                trainer.validate(log)
                trainer.save()
                bar.set_postfix_str(trainer.summary())
    if stop:
        trainer.save()
    return not stop


def fill(replay: Replay, config: RunConfig, progress: bool = False,
         asked_to_stop: Callable[[], bool] = lambda: False) -> None:
    """Read a run's bags into replay; what is wrong with them is said on stderr."""
    world, learning = config.recipe.world, config.recipe.learning
    bound = load_scenario(config.scenario, world.row, world.changes).vehicle.acceleration_limit
    reader = BagReader(map(Path, config.bags), ReadOptions(config.scenario, world.row, world.changes, config.rules))
    for episode in reader.episodes(progress):
        add(replay, episode.transitions, episode.outcome, learning.gamma, learning.n_step, bound)
        if config.recipe.alpha.relabel < 1.0 and np.isnan(episode.transitions.alpha).any():
            raise BagError('the bags do not say at which alpha they were driven: set alpha.relabel to 1')
        if asked_to_stop():
            return
    summary = reader.summary
    for problem in summary.problems:
        print(f'train: {problem}', file=sys.stderr)
    for what, count in summary.oddities().items():
        print(f'train: {what}: {count}', file=sys.stderr)
    if replay.size < 1:
        raise BagError(f'{", ".join(config.bags)}: no transition in there; look with `bag inspect`')
    if summary.transitions > replay.capacity:
        print(f'train: {summary.transitions} transitions, of which learning.replay keeps the last {replay.capacity}',
              file=sys.stderr)


def add(replay: Replay, transitions: Transitions, outcome: str, gamma: float, n_step: int, bound: float) -> None:
    """Append an episode's transitions, their rewards summed over up to `n_step` decisions without a gap.

    Actions beyond the bound are what the car itself makes of them.
    """
    count = len(transitions)
    if not count:
        return
    last, alive = np.arange(count), np.ones(count, np.bool_)
    reward = np.zeros(count, np.float64)
    discount = np.ones(count, np.float64)
    steps = np.float64(gamma) ** transitions.steps
    for k in range(n_step):
        reached = np.minimum(np.arange(count) + k, count - 1)
        last[alive] = reached[alive]
        reward[alive] += discount[alive] * transitions.reward[reached[alive]]
        discount[alive] *= steps[reached[alive]]
        alive &= ~(transitions.done | transitions.truncated)[reached]
    replay.add(transitions.observation, transitions.next_observation[last],
               action=transitions.action.clip(-bound, bound), reward=reward, discount=discount,
               done=transitions.done[last], alpha=np.nan_to_num(transitions.alpha, nan=1.0),
               outcome=OUTCOMES.index(outcome) if outcome in OUTCOMES else 0)
