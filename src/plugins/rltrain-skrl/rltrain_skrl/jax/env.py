"""The session's environments behind skrl's wrapper for jax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from skrl.envs.wrappers.jax import Wrapper
from skrl.utils.spaces.jax import flatten_tensorized_space, tensorize_space

from rltrain_skrl.env import FINAL, SessionEnv, replace_next_observations

__all__ = ["SkrlEnv", "with_final_observations"]


class SkrlEnv(SessionEnv, Wrapper):
    """Gives skrl float32 arrays.

    One compiled call converts all that a step returns, and another one the actions.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], device: jax.Device, log_key: str) -> None:
        """Wrap the environments; see `SessionEnv`."""
        super().__init__(env, device, log_key)
        self._columns = jax.jit(self._as_columns)
        self._native = jax.jit(self._as_native)
        self._flatten = jax.jit(self._flat)

    def step(
        self, actions: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Step with actions of shape (N, A)."""
        *stepped, info = self._env.step(self._native(actions))
        final = (info["final_obs"], info["_final_obs"]) if "final_obs" in info else None
        flat, columns, final = self._columns(*stepped, final)
        self._observations, self._states = flat
        result: dict[str, Any] = {} if final is None else {FINAL: final}
        if "log" in info:
            result[self._log_key] = {
                name: value for name, value in info["log"].items() if np.size(value) == 1
            }
        return (self._observations, *columns, result)

    def _as_columns(
        self, observations: Any, rewards: Any, terminated: Any, truncated: Any, final: Any
    ) -> tuple[Any, Any, Any]:
        columns = (
            rewards.reshape(-1, 1).astype(jnp.float32),
            terminated.reshape(-1, 1).astype(jnp.int8),
            truncated.reshape(-1, 1).astype(jnp.int8),
        )
        final = None if final is None else (*self._flat(final[0]), final[1].reshape(-1, 1))
        return self._flat(observations), columns, final

    def _flat_group(self, name: str, group: Any) -> jax.Array:
        flat: jax.Array = flatten_tensorized_space(tensorize_space(self._spaces[name], group))
        return flat.astype(jnp.float32)

    def _as_native(self, actions: jax.Array) -> jax.Array:
        """Give the actions the shape and dtype of the task's space, and clip them to it.

        skrl's policies are Gaussians without bounds; they learn from the actions as sampled.
        """
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return actions.reshape(-1).astype(jnp.int32) + int(space.start)
        actions = actions.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.MultiDiscrete):
            return actions.astype(jnp.int32)
        return (
            jnp.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions
        )


_READ = ("observations", "states", "next_observations", "next_states", "terminated", "truncated")


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transition with the final observations of episodes that a time limit ended.

    Args:
        transition: the arguments of `record_transition` of skrl's agents, for N environments.
    """
    read = {name: transition[name] for name in _READ}
    return {**transition, **_with_final(read, transition["infos"].get(FINAL))}


@jax.jit
def _with_final(transition: dict[str, Any], final: Any) -> dict[str, Any]:
    # An episode that terminates in its last step has no value after it.
    truncated = transition["truncated"] * (1 - transition["terminated"])
    following = replace_next_observations(transition, final, truncated > 0, jnp.where)
    return {"truncated": truncated, **following}
