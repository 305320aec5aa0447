"""The session's environments as skrl takes them, for jax."""

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

from rltrain_skrl.run.env import FINAL, SessionEnv, replace_next_observations
from rltrain_skrl.run.spaces import Conversion


class JaxConversion(Conversion):
    """Gives skrl float32. Its methods can be compiled."""

    def flat_group(self, name: str, group: Any) -> jax.Array:
        """Return skrl's observations or states; see `Conversion`."""
        arrays = tensorize_space(self.spaces[name], group, device=self.device)
        flat: jax.Array = flatten_tensorized_space(arrays)
        return flat.astype(jnp.float32)

    def integers(self, x: jax.Array) -> jax.Array:
        """Return an array of int32."""
        return x.astype(jnp.int32)

    def clip(self, actions: jax.Array) -> jax.Array:
        """Return continuous actions within the bounds of their space."""
        assert isinstance(self.action_space, spaces.Box)
        return jnp.clip(actions, self.action_space.low, self.action_space.high)


class SkrlEnv(SessionEnv, Wrapper):
    """Gives skrl float32 arrays.

    One compiled call converts all that a step returns, and another one the actions.
    """

    conversion_class = JaxConversion

    def __init__(self, env: VectorEnv[Any, Any, Any], device: jax.Device, log_key: str) -> None:
        """Wrap the environments; see `SessionEnv`."""
        super().__init__(env, device, log_key)
        self._columns = jax.jit(self._as_columns)
        self._native = jax.jit(self._conversion.native)
        self._flatten = jax.jit(self._conversion.flat)

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
        final = (
            None if final is None else (*self._conversion.flat(final[0]), final[1].reshape(-1, 1))
        )
        return self._conversion.flat(observations), columns, final


_READ = ("observations", "states", "next_observations", "next_states", "terminated", "truncated")


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `record_transition` with the final observations of episodes."""
    read = {name: transition[name] for name in _READ}
    return {**transition, **_with_final(read, transition["infos"].get(FINAL))}


@jax.jit
def _with_final(transition: dict[str, Any], final: Any) -> dict[str, Any]:
    # An episode that terminates in its last step has no value after it.
    truncated = transition["truncated"] * (1 - transition["terminated"])
    following = replace_next_observations(transition, final, truncated > 0, jnp.where)
    return {"truncated": truncated, **following}
