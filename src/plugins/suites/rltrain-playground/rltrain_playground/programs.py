"""The programs of a batch of environments, as pure functions for jax to compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

GROUPS: Mapping[str, str] = {"state": "policy", "privileged_state": "critic"}
"""rltrain's names of observation groups, by Playground's names; other groups keep theirs."""


class Batch(NamedTuple):
    """Everything that the next steps depend on."""

    key: Any
    """The random key for future episodes."""
    lengths: Any
    """Steps since each environment's last reset, int32 of shape (num_envs,)."""
    state: Any
    """Playground's own state, whose arrays have shape (num_envs, ...)."""


@dataclass(frozen=True)
class Programs:
    """The functions to compile."""

    env: Any
    """One environment of Playground's."""
    num_envs: int
    max_episode_length: int
    """In steps."""
    action_repeat: int
    """How many times a step of the batch steps the environment."""

    def begin(self, key: Any) -> tuple[Batch, Any]:
        """Start an episode in every environment; return the batch and its observations."""
        key, state = self._fresh(key)
        batch = Batch(key, jnp.zeros(self.num_envs, jnp.int32), state)
        return batch, observations(state.obs)

    def step(self, batch: Batch, actions: Any) -> tuple[Batch, Any]:
        """Step every environment, and reset those that have finished.

        Args:
            batch: the current state.
            actions: shape (num_envs, components), clipped to [-1, 1].

        Returns:
            The batch, and what `gymnasium.vector.VectorEnv.step` returns.
        """
        state, rewards, metrics = self._physics(batch.state, actions)
        lengths = batch.lengths + 1
        terminations = state.done > 0.5
        truncations = (lengths >= self.max_episode_length) & ~terminations
        done = terminations | truncations
        # A diverged simulation terminates its episode with NaN or infinite values: use zeros.
        final, rewards = jax.tree.map(
            lambda x: jnp.where(_rows(terminations, x) & ~jnp.isfinite(x), 0.0, x),
            (observations(state.obs), rewards),
        )
        key, state = self._reset_where(done, batch.key, state)
        info = {"final_obs": final, "_final_obs": done, "log": metrics}
        result = observations(state.obs), rewards, terminations, truncations, info
        return Batch(key, lengths * ~done, state), result

    def one(self, state: Any, index: Any) -> Any:
        """Return one environment's part of a state."""
        rows = (self.num_envs,)
        return jax.tree.map(lambda x: x[index] if x.shape[:1] == rows else x, state)

    def _fresh(self, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, self.num_envs + 1)
        return keys[0], _strong(jax.vmap(self.env.reset)(keys[1:]))

    def _physics(self, state: Any, actions: Any) -> tuple[Any, Any, Any]:
        """Return the next state, the rewards, and the means of Playground's metrics."""
        clipped = jnp.clip(actions.reshape(self.num_envs, -1), -1.0, 1.0).astype(jnp.float32)

        def once(before: Any, _: None) -> tuple[Any, tuple[Any, Any]]:
            after = jax.vmap(self.env.step)(before, clipped)
            after = jax.tree.map(lambda x, old: jnp.asarray(x).astype(old.dtype), after, before)
            return after, (after.reward, after.metrics)

        if self.action_repeat == 1:
            state, (rewards, metrics) = once(state, None)
        else:
            state, repeats = jax.lax.scan(once, state, None, self.action_repeat)
            rewards, metrics = jax.tree.map(lambda x: x.sum(0), repeats)
        return state, rewards.astype(jnp.float32), jax.tree.map(jnp.mean, metrics)

    def _reset_where(self, done: Any, key: Any, state: Any) -> tuple[Any, Any]:
        """Return the state with new episodes where `done`; skips the work if none is done."""

        def reset(key: Any) -> tuple[Any, Any]:
            key, fresh = self._fresh(key)
            return key, jax.tree.map(lambda new, old: _pick(done, new, old), fresh, state)

        result: tuple[Any, Any] = jax.lax.cond(done.any(), reset, lambda key: (key, state), key)
        return result


def observations(given: Any) -> Any:
    """Convert Playground's observations: float32, with rltrain's names of groups."""
    if isinstance(given, Mapping):
        return {GROUPS.get(name, name): jnp.float32(part) for name, part in given.items()}
    return jnp.float32(given)


def _rows(flags: Any, like: Any) -> Any:
    return flags.reshape(-1, *(1,) * (like.ndim - 1))


def _pick(done: Any, new: Any, old: Any) -> Any:
    """Choose per environment; arrays that all environments share keep their old value."""
    if old.shape[:1] != done.shape:
        return old
    return jnp.where(_rows(done, old), new, old)


def _strong(tree: Any) -> Any:
    """Make dtypes strong: arrays made from Python numbers have weak types, which can change."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), tree)
