"""The paper's networks (its table "WCPG actor and critic networks"), forward and backward, written out.

    actor   h1 = relu(W1 s)   h2 = relu(W2 alpha)   h3 = relu(W3 [h1, h2])      a = bound * tanh(Wo h3)
    critic  h1 = relu(W1 s)   h2 = relu(W2 alpha)   h3 = relu(W3 [h1, h2, a/bound])   h4 = relu(W4 h3)   z = Wo h4

A minibatch is stored one sample per *column*. Joining [h1, h2, a] is then writing into rows of one array, and
every product is a single BLAS call on contiguous memory. All functions write into the arrays of a `*Work`
tuple, so that an update allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim_node.compiled import kernel

Array = NDArray[np.float32]

ZERO = np.float32(0.0)
ONE = np.float32(1.0)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Machine code. `reassoc` lets sums use vector registers; full fastmath would also assume that there is no NaN.

    Inlined into whatever calls it: else a process that compiles has several copies of a function, optimised apart and
    so summing in other orders, and takes another of them than a process that loads the same code from the cache.
    """
    return kernel(function, fastmath={'reassoc', 'contract', 'nsz', 'arcp'}, forceinline=True, _nrt=True)


class Actor(NamedTuple):
    """The actor's parameters, or anything shaped like them (gradients, moments, the target network)."""

    h1_weight: Array
    h1_bias: Array
    h2_weight: Array
    h2_bias: Array
    h3_weight: Array
    h3_bias: Array
    out_weight: Array
    out_bias: Array


class Critic(NamedTuple):
    """The critic's parameters, or anything shaped like them."""

    h1_weight: Array
    h1_bias: Array
    h2_weight: Array
    h2_bias: Array
    h3_weight: Array
    h3_bias: Array
    h4_weight: Array
    h4_bias: Array
    out_weight: Array
    out_bias: Array


class ActorWork(NamedTuple):
    """Activations and their gradients for one minibatch."""

    joined: Array      # [h1, h2]
    h3: Array
    out: Array         # before tanh
    action: Array      # tanh(out), so in units of the bound
    d_joined: Array
    d_h3: Array
    d_out: Array


class CriticWork(NamedTuple):
    """Activations and their gradients for one minibatch."""

    joined: Array      # [h1, h2, a / bound]
    h3: Array
    h4: Array
    out: Array
    d_joined: Array
    d_h3: Array
    d_h4: Array
    d_out: Array
    d_action: Array


def actor_shapes(observation_size: int, hidden: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
    """Parameter shapes by model file name, without the `actor.` in front."""
    h1, h2, h3 = hidden
    return _with_biases({'h1': (h1, observation_size), 'h2': (h2, 1), 'h3': (h3, h1 + h2), 'out': (1, h3)})


def critic_shapes(observation_size: int, hidden: tuple[int, int, int, int], outputs: int) -> dict[str, tuple[int, ...]]:
    """Parameter shapes by model file name, without the `critic.` in front."""
    h1, h2, h3, h4 = hidden
    return _with_biases({'h1': (h1, observation_size), 'h2': (h2, 1), 'h3': (h3, h1 + h2 + 1), 'h4': (h4, h3),
                         'out': (outputs, h4)})


def _with_biases(weights: dict[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, shape in weights.items():
        shapes[f'{layer}.weight'] = shape
        shapes[f'{layer}.bias'] = shape[:1]
    return shapes


def actor_work(hidden: tuple[int, int, int], size: int) -> ActorWork:
    """Room for a minibatch of `size`."""
    h1, h2, h3 = hidden
    rows = (h1 + h2, h3, 1, 1, h1 + h2, h3, 1)
    return ActorWork(*(np.zeros((n, size), np.float32) for n in rows))


def critic_work(hidden: tuple[int, int, int, int], outputs: int, size: int) -> CriticWork:
    """Room for a minibatch of `size`."""
    h1, h2, h3, h4 = hidden
    joined = h1 + h2 + 1
    rows = (joined, h3, h4, outputs, joined, h3, h4, outputs, 1)
    return CriticWork(*(np.zeros((n, size), np.float32) for n in rows))


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Array:
    """A random matrix with orthonormal rows or columns, whichever are fewer, times gain."""
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))
    q *= np.sign(np.diag(r))   # makes the draw uniform over orthogonal matrices
    return (gain * (q if rows >= columns else q.T)).astype(np.float32)


@compiled
def _dense(weight: Array, bias: Array, x: Array, out: Array) -> None:
    np.dot(weight, x, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += bias[i]


@compiled
def _dense_relu(weight: Array, bias: Array, x: Array, out: Array) -> None:
    np.dot(weight, x, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = out[i, j] + bias[i]
            out[i, j] = ZERO if y < ZERO else y   # this way round a NaN stays a NaN and is noticed


@compiled
def _alpha_relu(weight: Array, bias: Array, alpha: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = weight[i, 0] * alpha[j] + bias[i]
            out[i, j] = ZERO if y < ZERO else y


@compiled
def _relu_backward(active: Array, gradient: Array) -> None:
    for i in range(active.shape[0]):
        for j in range(active.shape[1]):
            gradient[i, j] = gradient[i, j] if active[i, j] > ZERO else ZERO


@compiled
def _parameter_gradient(gradient: Array, x: Array, weight: Array, bias: Array) -> None:
    np.dot(gradient, x.T, weight)
    for i in range(gradient.shape[0]):
        total = ZERO
        for j in range(gradient.shape[1]):
            total += gradient[i, j]
        bias[i] = total


@compiled
def _alpha_gradient(gradient: Array, alpha: Array, weight: Array, bias: Array) -> None:
    for i in range(gradient.shape[0]):
        slope = ZERO
        total = ZERO
        for j in range(gradient.shape[1]):
            slope += gradient[i, j] * alpha[j]
            total += gradient[i, j]
        weight[i, 0] = slope
        bias[i] = total


@compiled
def actor_forward(p: Actor, state: Array, alpha: Array, work: ActorWork) -> None:
    """work.action = tanh(actor(state, alpha)), in units of the action bound."""
    h1 = p.h1_bias.size
    _dense_relu(p.h1_weight, p.h1_bias, state, work.joined[:h1])
    _alpha_relu(p.h2_weight, p.h2_bias, alpha, work.joined[h1:])
    _dense_relu(p.h3_weight, p.h3_bias, work.joined, work.h3)
    _dense(p.out_weight, p.out_bias, work.h3, work.out)
    for j in range(work.out.shape[1]):
        work.action[0, j] = np.tanh(work.out[0, j])


@compiled
def actor_backward(p: Actor, state: Array, alpha: Array, work: ActorWork, gradient: Actor) -> None:
    """From work.d_out, the loss's gradient by the output before tanh, to the gradient of every parameter."""
    h1 = p.h1_bias.size
    _parameter_gradient(work.d_out, work.h3, gradient.out_weight, gradient.out_bias)
    np.dot(p.out_weight.T, work.d_out, work.d_h3)
    _relu_backward(work.h3, work.d_h3)
    _parameter_gradient(work.d_h3, work.joined, gradient.h3_weight, gradient.h3_bias)
    np.dot(p.h3_weight.T, work.d_h3, work.d_joined)
    _relu_backward(work.joined, work.d_joined)
    _parameter_gradient(work.d_joined[:h1], state, gradient.h1_weight, gradient.h1_bias)
    _alpha_gradient(work.d_joined[h1:], alpha, gradient.h2_weight, gradient.h2_bias)


@compiled
def critic_forward(p: Critic, state: Array, alpha: Array, action: Array, work: CriticWork) -> None:
    """work.out = critic(state, alpha, action), action in units of the bound."""
    h1 = p.h1_bias.size
    join = h1 + p.h2_bias.size
    _dense_relu(p.h1_weight, p.h1_bias, state, work.joined[:h1])
    _alpha_relu(p.h2_weight, p.h2_bias, alpha, work.joined[h1:join])
    work.joined[join] = action
    _dense_relu(p.h3_weight, p.h3_bias, work.joined, work.h3)
    _dense_relu(p.h4_weight, p.h4_bias, work.h3, work.h4)
    _dense(p.out_weight, p.out_bias, work.h4, work.out)


@compiled
def critic_backward(p: Critic, state: Array, alpha: Array, work: CriticWork, gradient: Critic) -> None:
    """From work.d_out, the loss's gradient by the outputs, to the gradient of every parameter."""
    h1 = p.h1_bias.size
    join = h1 + p.h2_bias.size
    _parameter_gradient(work.d_out, work.h4, gradient.out_weight, gradient.out_bias)
    _critic_backward_to_h3(p, work)
    _parameter_gradient(work.d_h4, work.h3, gradient.h4_weight, gradient.h4_bias)
    _parameter_gradient(work.d_h3, work.joined, gradient.h3_weight, gradient.h3_bias)
    np.dot(p.h3_weight.T, work.d_h3, work.d_joined)
    _relu_backward(work.joined[:join], work.d_joined[:join])
    _parameter_gradient(work.d_joined[:h1], state, gradient.h1_weight, gradient.h1_bias)
    _alpha_gradient(work.d_joined[h1:join], alpha, gradient.h2_weight, gradient.h2_bias)


@compiled
def critic_action_gradient(p: Critic, work: CriticWork) -> None:
    """From work.d_out to work.d_action, the gradient by the action alone: what the actor asks for (Eq. 12)."""
    _critic_backward_to_h3(p, work)
    last = p.h3_weight.shape[1] - 1
    work.d_action[0] = ZERO
    for i in range(work.d_h3.shape[0]):
        for j in range(work.d_h3.shape[1]):
            work.d_action[0, j] += p.h3_weight[i, last] * work.d_h3[i, j]


@compiled
def _critic_backward_to_h3(p: Critic, work: CriticWork) -> None:
    np.dot(p.out_weight.T, work.d_out, work.d_h4)
    _relu_backward(work.h4, work.d_h4)
    np.dot(p.h4_weight.T, work.d_h4, work.d_h3)
    _relu_backward(work.h3, work.d_h3)


@compiled
def adam(value: Array, gradient: Array, moment1: Array, moment2: Array, target: Array,
         step: int, rate: float, tau: float) -> None:
    """One step of Adam (its authors' betas and epsilon), and the target network's soft update in the same pass."""
    beta1, beta2, epsilon = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
    correction = np.sqrt(1.0 - 0.999 ** step) / (1.0 - 0.9 ** step)
    size = np.float32(rate * correction)
    floor = np.float32(epsilon * np.sqrt(1.0 - 0.999 ** step))
    share = np.float32(tau)
    for i in range(value.size):
        g = gradient[i]
        m = beta1 * moment1[i] + (ONE - beta1) * g
        v = beta2 * moment2[i] + (ONE - beta2) * g * g
        moment1[i] = m
        moment2[i] = v
        value[i] -= size * m / (np.sqrt(v) + floor)
        target[i] += share * (value[i] - target[i])
