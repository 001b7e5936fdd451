"""The behaviour-cloning term: what it clones, and what the filter leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wcpg_ros.learner import Learner
from wcpg_ros.settings import Recipe

SIZE, BOUND = 5, 4.0


def learner(twin: bool, **actor: object) -> Learner:
    """Untrained networks and a random minibatch, the same at every call."""
    recipe = Recipe()
    recipe = replace(recipe, actor=replace(recipe.actor, **actor), critic=replace(recipe.critic, twin=twin),
                     learning=replace(recipe.learning, batch=64))
    made = Learner(recipe, SIZE, BOUND, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    for column in made.batch:
        column[:] = rng.uniform(0.05, 1.0, column.shape)
    made.batch.action[:] = rng.uniform(-1.0, 1.0, 64)
    made.head.prepare(made.batch.alpha)
    return made


def actor_gradient(made: Learner) -> np.ndarray:
    made.actor_gradient()
    return made.gradients[:made._actor_size].copy()


def test_cloning_pulls_towards_the_recorded_action() -> None:
    made = learner(False, behaviour_cloning=1e6)     # so much that nothing else counts
    before = made.act(made.batch.state, made.batch.alpha)
    made.values[:made._actor_size] -= 1e-8 * actor_gradient(made)
    after = made.act(made.batch.state, made.batch.alpha)
    recorded = made.batch.action * BOUND
    assert np.abs(after - recorded).mean() < np.abs(before - recorded).mean()


@pytest.mark.parametrize('twin', [False, True])
def test_the_filter_clones_only_what_the_critic_values_above_the_actors_own_action(twin: bool) -> None:
    filtered = learner(twin, behaviour_cloning=1.0, cloning_filter=True)
    batch = filtered.batch
    own = filtered.act(batch.state, batch.alpha) / np.float32(BOUND)
    values = []
    for critic in range(2 if twin else 1):
        single = learner(twin)
        single._critics = single._critics[critic:] + single._critics[:critic]
        values.append([single.risk_value(batch.state, batch.alpha, actions * np.float32(BOUND))
                       for actions in (batch.action, own)])
    worse = 1.0 - batch.alpha / 2.0 if twin else 1.0
    recorded, present = worse * np.min(values, axis=0) + (1.0 - worse) * np.max(values, axis=0)
    better = recorded > present
    assert 5 < better.sum() < 59
    # Cloning the actor's own action pulls nowhere.
    expected = learner(twin, behaviour_cloning=1.0)
    expected.batch.action[:] = np.where(better, batch.action, own)
    np.testing.assert_allclose(actor_gradient(filtered), actor_gradient(expected), rtol=1e-4, atol=1e-8)
