"""Algorithm 1 on many scenes at once: drive, remember, learn, validate, and be able to stop at any moment.

Everything random comes from streams of its own, for driving, learning and settling, and everything that the future
depends on is in the checkpoint. So a run that was stopped and resumed ends with the very bytes it would have
had otherwise.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sim_node.scenario import STEP_SECONDS
from sim_node.state import COLLISION, SUCCESS
from wcpg_ros.categorical import CategoricalHead
from wcpg_ros.dial import calibrate, spread_levels
from wcpg_ros.exploration import Exploration
from wcpg_ros.interrupts import interrupts
from wcpg_ros.learner import Learner, NotFiniteError, draw_alphas
from wcpg_ros.model_file import ModelError, ModelFile, ModelInfo
from wcpg_ros.n_step import NStep
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.policy import Policy
from wcpg_ros.replay import Replay
from wcpg_ros.run_directory import RunConfig, RunDirectory, RunError, flattened, nested
from wcpg_ros.seeds import settling_start, training_start
from wcpg_ros.settings import to_mapping
from wcpg_ros.settling import SCENES, drives_of, settled
from wcpg_ros.training_log import TrainingLog, level_columns
from wcpg_ros.validation import LevelReport, World, drive, validate

# Sums since the last row of the log.
TALLIES = ('updates', 'critic_loss', 'actor_value', 'episodes', 'collisions', 'successes')


class Trainer:
    """One training run. `make_world(n)` gives n scenes."""

    def __init__(self, run: RunDirectory, config: RunConfig, make_world: Callable[[int], World], repeat: int) -> None:
        recipe = config.recipe
        self.run_directory = run
        self.config = config
        self.repeat = repeat
        self.world = make_world(recipe.world.scenes)
        self._make_world = make_world
        levels = recipe.validation.levels or recipe.validation.alphas
        self._validation_world = make_world(recipe.validation.episodes * len(levels))
        streams = np.random.SeedSequence(config.seed).spawn(4)
        initial, self._drive_rng, self._learn_rng, self._settle_rng = (np.random.default_rng(s) for s in streams)
        size = self.world.observation_size
        self.learner = Learner(recipe, size, self.world.action_bound, initial)
        self.normaliser = Normaliser(size)
        self.replay = Replay(recipe.learning.replay, size)
        self._n_step = NStep(self.replay, recipe.learning.n_step, self.world.n)
        self._exploration = Exploration(recipe.exploration, self.world.n, self.world.action_bound, self._drive_rng)
        self.episodes = self.decisions = self.environment_steps = 0
        self.best_score, self.best_episodes = -np.inf, 0
        self.reports: list[LevelReport] = []
        self._credit = 0.0          # updates owed
        self._next_validation = recipe.validation.interval
        self._tally = dict.fromkeys(TALLIES, 0.0)
        self.seconds = {'total': 0.0, 'updating': 0.0}
        self._stop = False
        first = training_start(config.seed)
        self._observation = self.world.reset(np.arange(first, first + self.world.n)).copy()
        self._alpha = draw_alphas(recipe.alpha, self._drive_rng, self.world.n)
        self._steps = np.zeros(self.world.n, np.int64)   # of each scene's episode so far
        self.log_rows = 0

    @classmethod
    def resume(cls, run: RunDirectory, config: RunConfig, make_world: Callable[[int], World], repeat: int) -> Trainer:
        """The run as its checkpoint left it."""
        trainer = cls(run, config, make_world, repeat)
        arrays, facts = run.load()
        for name, value in _lasting(config).items():
            if facts.get('config', {}).get(name) != value:
                raise RunError(f'{run.config_file}: {name} is not what this run was begun with; only its length may '
                               'change: change it back, or begin another run')
        try:
            trainer._restore(arrays, facts)
        except (KeyError, ValueError) as error:
            raise RunError(f'{run.checkpoint}: does not fit {run.config_file} ({error}); start the run again') from None
        try:
            ModelFile.load(run.best)
        except ModelError:     # it was removed or damaged: the best from now on
            trainer.best_score, trainer.best_episodes = -np.inf, 0
        return trainer

    def run(self, progress: bool = True, position: int = 0) -> bool:
        """Train to the end, or until Ctrl-C; whether the end was reached. Either way everything is saved."""
        log = TrainingLog(self.run_directory, self.log_rows)
        bar = tqdm(total=self._length, initial=self._gone, position=position, disable=not progress or None,
                   unit='decision' if self.config.decisions else 'episode',
                   desc=f'{self.config.scenario} seed {self.config.seed}')
        with interrupts(self._ask_to_stop), bar:
            try:
                while self._gone < self._length and not self._stop:
                    started = time.perf_counter()
                    before = self._gone
                    self._drive()
                    self._learn()
                    self.seconds['total'] += time.perf_counter() - started
                    bar.update(self._gone - before)
                    if self.episodes >= self._next_validation or self._gone >= self._length:
                        self.validate(log)
                        self.save()
                        bar.set_postfix_str(self.summary())
                if self.best_score == -np.inf and not self._stop:     # a run resumed without its best policy
                    self.validate(log)
            except NotFiniteError as error:
                raise NotFiniteError(f'{error}, at episode {self.episodes}, decision {self.decisions}; '
                                     f'{self._last_good()}') from None
            finally:
                log.close()
        if self._stop:
            self.save()
            return False
        if not self.learner.updates:
            print(f'{self.run_directory.path}: nothing was learnt, the run is no longer than '
                  'exploration.random_decisions; its policy gets no dial', file=sys.stderr)
            return True
        return self.calibrate(progress)

    @property
    def _length(self) -> int:
        return self.config.decisions or self.config.episodes

    @property
    def _gone(self) -> int:
        """How far the run is, in the unit of its length."""
        return self.decisions if self.config.decisions else self.episodes

    def _ask_to_stop(self) -> None:
        self._stop = True

    def _last_good(self) -> str:
        kept = self.run_directory.checkpoint
        return f'the last good checkpoint is kept in {kept}' if kept.exists() else 'there was no checkpoint yet'

    def _drive(self) -> None:
        """One decision in every scene."""
        recipe = self.config.recipe
        observation = self._observation
        self.normaliser.update(observation)
        if self.decisions < recipe.exploration.random_decisions:
            action = self._exploration.random()
        else:
            states = self.normaliser.columns(observation, recipe.learning.observation_clip)
            action = self._exploration.perturb(self.learner.act(states, self._alpha))
        result = self.world.step(action, self.repeat)
        for term in ('observation', 'final_observation', 'reward'):
            if not np.isfinite(getattr(result, term)).all():
                raise NotFiniteError(f'the world gave a {term} that is not finite')
        taken = result.steps - self._steps
        self._n_step.add(observation, result.final_observation, action=action, reward=result.reward,
                         discount=np.float32(recipe.learning.gamma) ** taken.astype(np.float32),
                         done=result.done, alpha=self._alpha, outcome=result.outcome)
        self.decisions += self.world.n
        self.environment_steps += int(taken.sum())
        self._observation = result.observation.copy()
        self._steps = np.where(result.done, 0, result.steps)
        ended = int(result.done.sum())
        if ended:
            self.episodes += ended
            self._tally['episodes'] += ended
            self._tally['collisions'] += int((result.outcome[result.done] == COLLISION).sum())
            self._tally['successes'] += int((result.outcome[result.done] == SUCCESS).sum())
            self._alpha[result.done] = draw_alphas(recipe.alpha, self._drive_rng, ended)
            self._exploration.end(result.done)

    def _learn(self) -> None:
        """The updates this decision has earned."""
        learning = self.config.recipe.learning
        if self.decisions < self.config.recipe.exploration.random_decisions or self.replay.size < learning.batch:
            return
        self._credit += self.world.n * learning.updates_per_decision
        while self._credit >= 1.0:
            self.update(self._gone / self._length)
            self._credit -= 1.0

    def update(self, progress: float) -> None:
        """One update, at the learning rate of this share of the way."""
        started = time.perf_counter()
        rate = 1.0 - (1.0 - self.config.recipe.learning.final_rate) * min(progress, 1.0)
        losses = self.learner.update(self.replay, self.normaliser, self._learn_rng, rate)
        self._tally['updates'] += 1
        self._tally['critic_loss'] += losses.critic_loss
        self._tally['actor_value'] += losses.actor_value
        self.seconds['updating'] += time.perf_counter() - started

    def validate(self, log: TrainingLog) -> None:
        """Drive the validation episodes, log, and keep the policy if it is the best so far."""
        recipe = self.config.recipe
        self.reports, now = validate(self.learner, self.normaliser, self._validation_world, self.repeat)
        self._next_validation = self.episodes + recipe.validation.interval
        if now > self.best_score:
            self.best_score, self.best_episodes = now, self.episodes
            self.model().save(self.run_directory.best)
        t, updates = self._tally, max(self._tally['updates'], 1.0)
        finished = max(t['episodes'], 1.0)
        log.write({
            'episodes': self.episodes, 'decisions': self.decisions, 'environment_steps': self.environment_steps,
            'updates': self.learner.updates,
            'seconds': self.seconds['total'], 'updating_share': self.seconds['updating'] / self.seconds['total'],
            'critic_loss': t['critic_loss'] / updates,
            'actor_value': t['actor_value'] / updates * recipe.critic.return_scale,
            'train_collision': t['collisions'] / finished, 'train_success': t['successes'] / finished,
            'score': now, 'best_score': self.best_score, **level_columns(self.reports)})
        self.log_rows = log.rows
        self._tally = dict.fromkeys(TALLIES, 0.0)

    def calibrate(self, progress: bool = True) -> bool:
        """Give the best policy the dial that suits it and settle its critic, if asked for; False after a Ctrl-C."""
        recipe = self.config.recipe
        if not recipe.dial.episodes or (best := ModelFile.load(self.run_directory.best)).info.dial:
            return True
        policy, world = Policy(best), self._make_world(recipe.dial.episodes)
        levels = spread_levels(recipe.alpha.minimum, recipe.alpha.maximum, recipe.dial.levels)
        returns = []
        with interrupts(self._ask_to_stop):
            for level in tqdm(levels, disable=not progress or None, unit='level', desc='calibrating the dial',
                              leave=False):
                if self._stop:
                    return False
                returns.append(drive(partial(policy.act, alpha=level), world, 1, self.repeat).returns)
            pairs = calibrate(levels, np.concatenate(returns))
            best = replace(best, info=replace(best.info, dial=pairs, alpha_min=pairs[0][0], alpha_max=pairs[-1][0]))
            if recipe.dial.critic_updates:
                drives = drives_of(best, recipe, self._make_world(SCENES), self.repeat,
                                   settling_start(self.config.seed), self._settle_rng, lambda: self._stop)
                best = settled(best, recipe, drives, self._settle_rng, lambda: self._stop, progress)
            if self._stop:
                return False
        best.save(self.run_directory.best)
        return True

    def summary(self) -> str:
        """Collision and success per level, and the rate of updates, for the progress bar."""
        levels = ' '.join(f'{r.alpha:g}:{100 * r.collision:.1f}/{100 * r.success:.1f}%' for r in self.reports)
        rate = self.learner.updates / max(self.seconds['updating'], 1e-9)
        return f'{rate:.0f} updates/s, collision/success at alpha {levels}'

    def model(self) -> ModelFile:
        """The present policy."""
        recipe, layout = self.config.recipe, self.world.layout
        info = ModelInfo(
            scenario=self.config.scenario, layout_version=layout.version, vehicles=layout.vehicles,
            time_feature=layout.time, observation_size=self.world.observation_size,
            normaliser_clip=recipe.learning.observation_clip, action_bound=float(self.world.action_bound),
            alpha_min=recipe.alpha.minimum, alpha_max=recipe.alpha.maximum, dial=[], risk_measure=recipe.actor.risk,
            critic=recipe.critic.kind, twin=recipe.critic.twin, return_scale=recipe.critic.return_scale,
            gamma=recipe.learning.gamma ** self.repeat, decision_interval=STEP_SECONDS * self.repeat,
            action_repeat=self.repeat, recipe=to_mapping(recipe), seed=self.config.seed, episodes=self.episodes,
            code_version=version('wcpg_ros'))
        tensors = {name: view.copy() for name, view in self.learner.parameters().items()}
        normaliser = {'normaliser.mean': self.normaliser.mean, 'normaliser.std': self.normaliser.std}
        atoms = {'atoms': self.learner.head.atoms} if isinstance(self.learner.head, CategoricalHead) else {}
        return ModelFile(info, {**tensors, **normaliser, **atoms})

    def save(self) -> None:
        """Write the checkpoint and the last policy."""
        self.model().save(self.run_directory.model)
        self.run_directory.save(flattened(self._parts()), {
            'config': _lasting(self.config),
            'rng': [self._drive_rng.bit_generator.state, self._learn_rng.bit_generator.state],
            'episodes': self.episodes, 'decisions': self.decisions, 'environment_steps': self.environment_steps,
            'credit': self._credit,
            'next_validation': self._next_validation, 'best_score': self.best_score,
            'best_episodes': self.best_episodes, 'tally': self._tally, 'seconds': self.seconds,
            'log_rows': self.log_rows})

    def _parts(self) -> dict[str, dict[str, NDArray]]:
        scenes = {'observation': self._observation, 'alpha': self._alpha, 'steps': self._steps}
        return {'learner': self.learner.state(), 'normaliser': self.normaliser.state(), 'replay': self.replay.state(),
                'n_step': self._n_step.state(), 'exploration': self._exploration.state(), 'world': self.world.state(),
                'scenes': scenes}

    def _restore(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        for part, name in ((self.learner, 'learner'), (self.normaliser, 'normaliser'), (self.replay, 'replay'),
                           (self._n_step, 'n_step'), (self._exploration, 'exploration'), (self.world, 'world')):
            part.restore(nested(arrays, name))
        for name in ('observation', 'alpha', 'steps'):
            getattr(self, f'_{name}')[:] = arrays[f'scenes/{name}']
        self._drive_rng.bit_generator.state, self._learn_rng.bit_generator.state = facts['rng']
        for name in ('episodes', 'decisions', 'environment_steps', 'best_score', 'best_episodes', 'seconds',
                     'log_rows'):
            setattr(self, name, facts[name])
        for name in ('credit', 'next_validation', 'tally'):
            setattr(self, f'_{name}', facts[name])


def _lasting(config: RunConfig) -> dict[str, Any]:
    """What must not change about a run when it is resumed, by dotted names."""
    mapping = to_mapping(config)
    groups = {f'recipe.{group}.{name}': value for group, settings in mapping.pop('recipe').items()
              for name, value in settings.items()}
    lasting = {name: value for name, value in mapping.items() if name not in ('episodes', 'decisions')}
    return json.loads(json.dumps({**lasting, **groups}))     # as the checkpoint gives it back
