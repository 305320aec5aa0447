"""A task's arrays of jax as skrl takes and gives them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces
from skrl.utils.spaces.jax import flatten_tensorized_space, tensorize_space

from rltrain_skrl.conversion import Conversion


class JaxConversion(Conversion):
    """Gives skrl float32. Its methods can be compiled."""

    def flat_group(self, name: str, group: Any) -> jax.Array:
        """Return skrl's observations or states; see `Conversion`."""
        arrays = tensorize_space(self.spaces[name], group, device=self.device)
        flat: jax.Array = flatten_tensorized_space(arrays)
        return flat.astype(jnp.float32)

    def native(self, actions: jax.Array) -> jax.Array:
        """Return actions as the task's environments take them; see `Conversion`."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return actions.reshape(-1).astype(jnp.int32) + int(space.start)
        actions = actions.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.MultiDiscrete):
            return actions.astype(jnp.int32)
        return (
            jnp.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions
        )
