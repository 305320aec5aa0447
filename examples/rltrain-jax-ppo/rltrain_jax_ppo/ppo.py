"""PPO as functions of pytrees. It knows nothing of ranks.

A batch has the arrays of a rollout by name, each of shape (steps, num_envs, ...).
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["act", "adam_state", "adam_step", "gradients", "init", "mean_actions", "prepare"]

Params = dict[str, Any]
Batch = dict[str, jax.Array]


def init(key: jax.Array, observations: int, actions: int, hidden: int) -> Params:
    """Return the parameters of a policy and a value function."""
    of_policy, of_value = jax.random.split(key)
    return {
        "policy": _network(of_policy, (observations, hidden, hidden, actions)),
        "value": _network(of_value, (observations, hidden, hidden, 1)),
        "log_std": jnp.zeros(actions),
    }


def _network(key: jax.Array, sizes: tuple[int, ...]) -> list[tuple[jax.Array, jax.Array]]:
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        key, own = jax.random.split(key)
        bound = inputs**-0.5
        weights = jax.random.uniform(own, (inputs, outputs), minval=-bound, maxval=bound)
        layers.append((weights, jnp.zeros(outputs)))
    return layers


def _apply(network: Any, x: Any) -> Any:
    *hidden, (weights, bias) = network
    for inner, shift in hidden:
        x = jnp.tanh(x @ inner + shift)
    return x @ weights + bias


@jax.jit
def mean_actions(params: Params, observations: jax.Array) -> Any:
    """Return the most likely actions."""
    return _apply(params["policy"], observations)


@jax.jit
def act(params: Params, observations: jax.Array, key: jax.Array) -> Any:
    """Draw actions."""
    mean = _apply(params["policy"], observations)
    return mean + jnp.exp(params["log_std"]) * jax.random.normal(key, mean.shape)


def _log_probs(params: Params, batch: Batch) -> Any:
    mean = _apply(params["policy"], batch["observations"])
    distances = (batch["actions"] - mean) * jnp.exp(-params["log_std"])
    return -(0.5 * jnp.square(distances) + params["log_std"]).sum(-1)


def _values(params: Params, observations: jax.Array) -> Any:
    return _apply(params["value"], observations)[..., 0]


@jax.jit
def prepare(params: Params, batch: Batch, gamma: float, lam: float) -> Batch:
    """Add log-probabilities, advantages by GAE (not normalized), and returns."""
    values = _values(params, batch["observations"])
    # Bootstrap the value after a truncation, but not after a termination.
    following = _values(params, batch["reached"]) * ~batch["terminations"]
    deltas = batch["rewards"] + gamma * following - values
    carried = gamma * lam * ~batch["ends"]

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        delta, carry = step
        advantage = delta + carry * later
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(deltas[0]), (deltas, carried), reverse=True)
    log_probs = _log_probs(params, batch)
    returns = advantages + values
    return {**batch, "log_probs": log_probs, "advantages": advantages, "returns": returns}


def _loss(params: Params, batch: Batch, clip: float) -> Any:
    ratios = jnp.exp(_log_probs(params, batch) - batch["log_probs"])
    clipped = jnp.clip(ratios, 1 - clip, 1 + clip)
    gains = jnp.minimum(ratios * batch["advantages"], clipped * batch["advantages"])
    errors = jnp.square(_values(params, batch["observations"]) - batch["returns"])
    return -gains.mean() + 0.5 * errors.mean()


gradients = jax.jit(jax.value_and_grad(_loss))
"""Returns the loss, and its gradient by the parameters."""


def adam_state(params: Params) -> dict[str, Any]:
    """Return the state of Adam before its first step."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"count": jnp.zeros((), jnp.int32), "mean": zeros, "square": zeros}


@jax.jit
def adam_step(
    params: Params, state: dict[str, Any], gradient: Params, rate: float, bound: float
) -> tuple[Params, dict[str, Any]]:
    """Clip the gradient's norm, and take a step; return the new parameters and state."""
    leaves = jax.tree.leaves(gradient)
    norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in leaves))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, bound / (norm + 1e-6)), gradient)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradient)

    def step(param: jax.Array, m: jax.Array, s: jax.Array) -> Any:
        return param - rate * m / (1 - 0.9**count) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-8)

    params = jax.tree.map(step, params, mean, square)
    return params, {"count": count, "mean": mean, "square": square}
