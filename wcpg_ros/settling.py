"""The end of a run: the critic of the policy that was chosen, told to say what this policy brings.

While the actor learns, its critic is always a little behind, and of two critics the worse one counts, which makes the
actor careful and is not meant to be true. Once the policy is chosen and stays as it is, some more updates of the
critics alone, both towards the mean of the two, evaluate it. They use the plain quantile loss: Huber's round bottom
draws together quantiles that differ by less than its width, once more at every decision back from the end. No return is
capped any more.

They learn from new drives of that policy, at the levels that its dial gives to alphas spread evenly over log alpha:
nobody will ask about others. Replay made them fear more than came, we think because an observation does not tell
tempers: those who are met by exploring, or by the policies that came before, are not those whom this policy meets in
what looks like the same state. What other actions would bring is learnt from single ones, after which an episode is
driven on but not learnt from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from wcpg_ros.dial import levels_of
from wcpg_ros.learner import Learner
from wcpg_ros.model_file import ModelFile
from wcpg_ros.normaliser import Normaliser
from wcpg_ros.policy import Policy
from wcpg_ros.replay import Replay
from wcpg_ros.settings import Recipe
from wcpg_ros.validation import World

FIRST_RATE, LAST_RATE = 0.3, 0.03     # of the critic's learning rate
DECISIONS_PER_UPDATE = 20             # driven anew
SCENES = 512                          # side by side
TRYING = 4                            # one scene in so many tries another action, once in an episode …
TRIED = 0.1                           # … at a decision with this probability


def drives_of(chosen: ModelFile, recipe: Recipe, world: World, repeat: int, first_seed: int,
              rng: np.random.Generator, stopped: Callable[[], bool]) -> Replay:
    """What the policy meets, on all of its dial; cut short once `stopped`."""
    policy, scenes, dial = Policy(chosen), world.n, chosen.info.dial
    drives = Replay(DECISIONS_PER_UPDATE * recipe.dial.critic_updates, world.observation_size)
    observation = world.reset(np.arange(first_seed, first_seed + scenes)).copy()
    alpha, steps = _spread_alphas(chosen, rng, scenes), np.zeros(scenes, np.int64)
    trying, its_own = np.arange(scenes) % TRYING == 0, np.ones(scenes, np.bool_)     # still the policy's own doing
    while drives.size < drives.capacity and not stopped():
        tries = trying & its_own & (rng.random(scenes) < TRIED)
        other = rng.uniform(-world.action_bound, world.action_bound, scenes)
        action = np.where(tries, other, policy.act(observation, alpha)).astype(np.float32)
        result = world.step(action, repeat)
        taken, done, kept = result.steps - steps, result.done, np.flatnonzero(its_own)[:drives.capacity - drives.size]
        columns = {'action': action, 'reward': result.reward, 'done': done, 'alpha': levels_of(dial, alpha),
                   'outcome': result.outcome,
                   'discount': np.float32(recipe.learning.gamma) ** taken.astype(np.float32)}
        drives.add(observation[kept], result.final_observation[kept],
                   **{name: values[kept] for name, values in columns.items()})
        observation, steps = result.observation.copy(), np.where(done, 0, result.steps)
        alpha[done] = _spread_alphas(chosen, rng, int(done.sum()))
        its_own = (its_own & ~tries) | done
    return drives


def _spread_alphas(chosen: ModelFile, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    low, high = chosen.info.alpha_min, chosen.info.alpha_max
    return (low * (high / low) ** rng.random(count)).astype(np.float32)


def settled(chosen: ModelFile, recipe: Recipe, drives: Replay, rng: np.random.Generator, stopped: Callable[[], bool],
            progress: bool = True) -> ModelFile:
    """The model with its critics settled on what its actor does; cut short, and of no use, once `stopped`."""
    info, tensors = chosen.info, chosen.tensors
    plain = replace(recipe, critic=replace(recipe.critic, kappa=0.0), alpha=replace(recipe.alpha, relabel=0.0))
    learner = Learner(plain, info.observation_size, info.action_bound, rng)
    learner.begin_from(tensors)
    normaliser = Normaliser.fixed(tensors['normaliser.mean'], tensors['normaliser.std'])
    rates = np.linspace(FIRST_RATE, LAST_RATE, recipe.dial.critic_updates)
    for rate in tqdm(rates, disable=not progress or None, unit='update', desc='settling the critic', leave=False):
        if stopped():
            break
        learner.evaluate_policy(drives, normaliser, rng, float(rate))
    return replace(chosen, tensors={**tensors, **learner.parameters()})
