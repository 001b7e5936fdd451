"""The end of a run: the critic of the policy that was chosen, told to say what this policy brings.

While the actor learns, its critic is always a little behind, and of two critics the worse one counts, which makes the
actor careful and is not meant to be true. Once the policy is chosen and stays as it is, some more updates of the
critics alone, both towards the mean of the two, evaluate it. They use the plain quantile loss: Huber's round bottom
draws together quantiles that differ by less than its width, once more at every decision back from the end.

They learn from new drives of that policy, each at its own level, nearly all without exploration. Replay would mislead
them: an observation does not tell tempers, and those who are met by exploring, or by the policies that came before, are
not those whom this policy meets in what looks like the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from wcpg_ros.exploration import Exploration
from wcpg_ros.learner import Learner, draw_alphas
from wcpg_ros.model_file import ModelFile
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.policy import Policy
from wcpg_ros.replay import Replay
from wcpg_ros.settings import Recipe
from wcpg_ros.validation import World

FIRST_RATE, LAST_RATE = 0.3, 0.03     # of the critic's learning rate
DECISIONS_PER_UPDATE = 20             # driven anew
SCENES = 512                          # side by side
EXPLORING = 16                        # one scene in so many explores: what other actions bring is not forgotten


def drives_of(chosen: ModelFile, recipe: Recipe, world: World, repeat: int, first_seed: int,
              rng: np.random.Generator, stopped: Callable[[], bool]) -> Replay:
    """What the policy meets, at levels drawn as in training; cut short once `stopped`."""
    policy, scenes = Policy(chosen), world.n
    explorers = -(-scenes // EXPLORING)
    exploration = Exploration(recipe.exploration, explorers, world.action_bound, rng)
    rounds = -(-DECISIONS_PER_UPDATE * recipe.dial.critic_updates // scenes)
    drives = Replay(rounds * scenes, world.observation_size)
    observation = world.reset(np.arange(first_seed, first_seed + scenes)).copy()
    alpha, steps = draw_alphas(recipe.alpha, rng, scenes), np.zeros(scenes, np.int64)
    for _ in range(rounds):
        if stopped():
            break
        action = policy.act(observation, alpha)
        action[:explorers] = exploration.perturb(action[:explorers])
        result = world.step(action, repeat)
        taken, done = result.steps - steps, result.done
        drives.add(observation, result.final_observation, action=action, reward=result.reward,
                   discount=np.float32(recipe.learning.gamma) ** taken.astype(np.float32), done=done, alpha=alpha,
                   outcome=result.outcome)
        observation, steps = result.observation.copy(), np.where(done, 0, result.steps)
        alpha[done] = draw_alphas(recipe.alpha, rng, int(done.sum()))
        exploration.end(done[:explorers])
    return drives


def settled(chosen: ModelFile, recipe: Recipe, drives: Replay, rng: np.random.Generator, stopped: Callable[[], bool],
            progress: bool = True) -> ModelFile:
    """The model with its critics settled on what its actor does; cut short, and of no use, once `stopped`."""
    info, tensors = chosen.info, chosen.tensors
    plain = replace(recipe, critic=replace(recipe.critic, kappa=0.0), alpha=replace(recipe.alpha, relabel=0.0))
    learner = Learner(plain, info.observation_size, info.action_bound, rng)
    learner.begin_from(tensors)
    normaliser = Normaliser.fixed(tensors['normaliser.mean'], tensors['normaliser.std'])
    rates = np.linspace(FIRST_RATE, LAST_RATE, recipe.dial.critic_updates)
    for rate in tqdm(rates, disable=not progress, unit='update', desc='settling the critic', leave=False):
        if stopped():
            break
        learner.evaluate_policy(drives, normaliser, rng, float(rate))
    return replace(chosen, tensors={**tensors, **learner.parameters()})
