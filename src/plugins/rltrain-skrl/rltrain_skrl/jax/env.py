"""The session's environments as skrl's wrapper wants them."""

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

from rltrain_skrl.spaces import as_floats, observation_groups

__all__ = ["FINAL", "SkrlEnv", "with_final_observations"]

FINAL = "final"
"""Key of `info` with (observations, states, mask): what ended episodes ended in, where known."""


class SkrlEnv(Wrapper):
    """Gives skrl flat arrays: observations (N, D), and columns (N, 1) for the rest.

    The group `policy` of a `Dict` observation space are skrl's observations, the group `critic` its
    states. What is done to a step is one compiled call, and what is done to actions another.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], device: jax.Device, log_key: str) -> None:
        """Wrap the environments.

        Args:
            env: with jax arrays on `device`, and SAME_STEP autoreset.
            device: this rank's device.
            log_key: the key of `info` for figures to record.

        Raises:
            UsageError: the observations are groups, and none is `policy`.
        """
        super().__init__(env)
        self._device = device
        self._log_key = log_key
        groups, self._grouped, self._joined = observation_groups(env.single_observation_space)
        self._spaces = {name: as_floats(group) for name, group in groups.items()}
        self._columns = jax.jit(self._as_columns)
        self._native = jax.jit(self._as_native)
        self._observations: jax.Array | None = None
        self._states: jax.Array | None = None

    @property
    def num_envs(self) -> int:
        """Environments of this rank: N."""
        return int(self._env.num_envs)

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of one environment's observation."""
        return self._spaces["policy"]

    @property
    def state_space(self) -> spaces.Space[Any] | None:
        """Space of one environment's state, or None."""
        return self._spaces.get("critic")

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of one environment's action."""
        space: spaces.Space[Any] = self._env.single_action_space
        return space

    def reset(self) -> tuple[jax.Array, dict[str, Any]]:
        """Return the current observations; only the first call resets.

        skrl's trainer resets a single environment when its episode ends, but that has already been
        done within the step: a second reset would throw an episode away.
        """
        if self._observations is None:
            observations, _ = self._env.reset()
            self._observations, self._states = jax.jit(self._flat)(observations)
        return self._observations, {}

    def step(
        self, actions: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Step with actions of shape (N, A)."""
        *stepped, info = self._env.step(self._native(actions))
        known = (info["final_obs"], info["_final_obs"]) if "final_obs" in info else None
        flat, columns, final = self._columns(*stepped, known)
        self._observations, self._states = flat
        result: dict[str, Any] = {} if final is None else {FINAL: final}
        if "log" in info:
            result[self._log_key] = {
                name: value for name, value in info["log"].items() if np.size(value) == 1
            }
        return (self._observations, *columns, result)

    def state(self) -> jax.Array | None:
        """Return the states that belong to the last observations, (N, S), or None."""
        return self._states

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Draw, where a window is open; skrl calls it in every step of a run with a window."""
        return self._env.render() if self._env.render_mode == "human" else None

    def close(self) -> None:
        """Do nothing: the session closes the environments."""

    def _as_columns(
        self, observations: Any, rewards: Any, terminated: Any, truncated: Any, known: Any
    ) -> tuple[Any, Any, Any]:
        columns = (
            rewards.reshape(-1, 1).astype(jnp.float32),
            terminated.reshape(-1, 1).astype(jnp.int8),
            truncated.reshape(-1, 1).astype(jnp.int8),
        )
        final = None if known is None else (*self._flat(known[0]), known[1].reshape(-1, 1))
        return self._flat(observations), columns, final

    def _flat(self, observations: Any) -> tuple[jax.Array, jax.Array | None]:
        if not self._grouped:
            return self._flat_group("policy", observations), None
        seen = observations if self._joined else observations["policy"]
        policy = self._flat_group("policy", seen)
        if "critic" not in self._spaces:
            return policy, None
        return policy, self._flat_group("critic", observations["critic"])

    def _flat_group(self, name: str, group: Any) -> jax.Array:
        flat: jax.Array = flatten_tensorized_space(tensorize_space(self._spaces[name], group))
        return flat.astype(jnp.float32)

    def _as_native(self, actions: jax.Array) -> jax.Array:
        """Give the actions the shape and type of the task's space, and keep them inside it.

        skrl's policies are Gaussians without bounds; what they learn from is what they drew.
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


def with_final_observations(transition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a transition as skrl means it, where episodes were cut off at their time limit.

    skrl then takes the value of the next observations, but with SAME_STEP autoreset those belong to
    the next episode. The final ones take their place; where the task does not give them, those of
    the step before, which are next to them.

    Args:
        transition: the arguments of `record_transition` of skrl's agents, for N environments.
    """
    names = (
        "observations",
        "states",
        "next_observations",
        "next_states",
        "terminated",
        "truncated",
    )
    own = {name: transition[name] for name in names}
    return {**transition, **_ended_properly(own, transition["infos"].get(FINAL))}


@jax.jit
def _ended_properly(transition: dict[str, Any], known: Any) -> dict[str, Any]:
    # An episode that ends by itself at its time limit has no value after it.
    truncated = transition["truncated"] * (1 - transition["terminated"])
    changed = {"truncated": truncated}
    for index, name in enumerate(("observations", "states")):
        last = transition[name]
        if last is None:
            continue
        if known is not None:
            last = jnp.where(known[2], known[index], last)
        following = f"next_{name}"
        changed[following] = jnp.where(truncated > 0, last, transition[following])
    return changed
