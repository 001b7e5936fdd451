"""The end of a run: the critic of the policy that was chosen, told to say what this policy brings.

While the actor learns, its critic is always a little behind, and of two critics the worse one counts, which makes the
actor careful and is not meant to be true. Once the policy is chosen and stays as it is, some more updates of the
critics alone, both towards the mean of the two, evaluate it. They use the plain quantile loss: Huber's round bottom
draws together quantiles that differ by less than its width, once more at every decision back from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from wcpg_ros.learner import Learner
from wcpg_ros.model_file import ModelFile
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.replay import Replay
from wcpg_ros.settings import Recipe

FIRST_RATE, LAST_RATE = 0.3, 0.03     # of the critic's learning rate


def settled(chosen: ModelFile, recipe: Recipe, replay: Replay, rng: np.random.Generator, stopped: Callable[[], bool],
            progress: bool = True) -> ModelFile:
    """The model with its critics settled on what its actor does; cut short, and of no use, once `stopped`."""
    info, tensors = chosen.info, chosen.tensors
    plain = replace(recipe, critic=replace(recipe.critic, kappa=0.0))
    learner = Learner(plain, info.observation_size, info.action_bound, rng)
    learner.begin_from(tensors)
    normaliser = Normaliser.fixed(tensors['normaliser.mean'], tensors['normaliser.std'])
    rates = np.linspace(FIRST_RATE, LAST_RATE, recipe.dial.critic_updates)
    for rate in tqdm(rates, disable=not progress, unit='update', desc='settling the critic', leave=False):
        if stopped():
            break
        learner.evaluate_policy(replay, normaliser, rng, float(rate))
    return replace(chosen, tensors={**tensors, **learner.parameters()})
