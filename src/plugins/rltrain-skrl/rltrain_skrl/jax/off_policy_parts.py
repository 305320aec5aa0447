"""What the agents with a replay buffer need besides skrl's own: saved state, random actions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from skrl.resources.noises.jax import Noise

from rltrain_skrl.jax.keys import Drawer

__all__ = ["RandomActions", "get_noise", "noises", "set_noise"]


def noises(agent: Any) -> dict[str, Any]:
    """Return an agent's noises by the names of its attributes."""
    return {name: part for name, part in vars(agent).items() if isinstance(part, Noise)}


def get_noise(agent: Any) -> dict[str, Any]:
    """Return what an agent's noises remember, on the host: Ornstein-Uhlenbeck's last values."""
    states = {name: getattr(noise, "state", None) for name, noise in noises(agent).items()}
    return {name: np.asarray(x) for name, x in states.items() if isinstance(x, jax.Array)}


def set_noise(agent: Any, states: Mapping[str, Any]) -> None:
    """Let an agent's noises go on from what `get_noise` returned."""
    for name, noise in noises(agent).items():
        if name in states:
            noise.state = jax.device_put(states[name], noise.device)


class RandomActions(Drawer):
    """Actions by chance, from this rank's key.

    skrl draws them from a copy of the action space: without a seed, and in every step alike.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        """Draw actions of a space: of one environment's action.

        Of a box they are uniform where it is bounded, and standard normal, kept inside, where it
        is not.
        """
        super().__init__()
        self._draw = jax.jit(functools.partial(_draw, space), static_argnums=2)

    def __call__(
        self, inputs: dict[str, Any], *, role: str = "", params: Any = None
    ) -> tuple[jax.Array, dict[str, Any]]:
        """Return actions of shape (N, A), in the place of a model's `random_act`."""
        actions: jax.Array = self._draw(*self.next(), len(inputs["observations"]))
        return actions, {}


def _draw(space: spaces.Space[Any], key: jax.Array, count: int, rows: int) -> jax.Array:
    key = jax.random.fold_in(key, count)
    if isinstance(space, spaces.Discrete):
        return jax.random.randint(key, (rows, 1), 0, int(space.n))
    assert isinstance(space, spaces.Box)
    low, high = (jnp.asarray(bound.ravel(), jnp.float32) for bound in (space.low, space.high))
    if space.is_bounded():
        return jax.random.uniform(key, (rows, low.size), minval=low, maxval=high)
    return jnp.clip(jax.random.normal(key, (rows, low.size)), low, high)
