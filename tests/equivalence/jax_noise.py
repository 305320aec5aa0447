"""Several ranks' random numbers, drawn in one process, for jax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from skrl.models.jax import GaussianMixin
from skrl.resources.noises.jax import Noise


def by_rows(models: Mapping[str, Any]) -> None:
    """Let Gaussian policies draw noise that depends on a row's content, not on its position."""
    for model in models.values():
        if isinstance(model, GaussianMixin):
            model.act = _drawing_by_rows(model.act)


def _drawing_by_rows(stock: Any) -> Any:
    def act(inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        actions, outputs = stock(inputs, role=role, params=params)
        if inputs.get("taken_actions") is None:
            mean, spread = outputs["mean_actions"], outputs["stddev"]
            # Rounded, so that all ways to compute the row give the same noise.
            row = jnp.round(inputs["observations"].sum(axis=-1, keepdims=True), 1)
            noise = jnp.sin(37.0 * row + jnp.arange(mean.shape[-1]))
            actions = mean + spread * noise
            density = -jnp.square(noise) / 2 - jnp.log(spread) - 0.5 * jnp.log(2 * jnp.pi)
            outputs["log_prob"] = density.sum(axis=-1, keepdims=True)
        return actions, outputs

    return act


class _OfRanks(Noise):  # type: ignore[misc]
    """The noise of several ranks: each has its rows of a batch, one rank after the other."""

    def __init__(self, stock: Any, keys: Sequence[jax.Array]) -> None:
        super().__init__()
        self.stock, self.keys = stock, keys

    def sample(self, size: Sequence[int]) -> jax.Array:
        self.stock._i += 1
        rows = (size[0] // len(self.keys), *size[1:])
        drawn = [
            jax.random.normal(jax.random.fold_in(key, self.stock._i), rows) for key in self.keys
        ]
        return jnp.concatenate(drawn) * self.stock.std + self.stock.mean


def of_ranks(agent: Any, seeds: Sequence[int]) -> None:
    """Let an agent's noises be those of ranks with these seeds."""
    for name, part in list(vars(agent).items()):
        if isinstance(part, Noise):
            keys = [jax.random.PRNGKey(seed) for seed in seeds]
            setattr(agent, name, _OfRanks(part, keys))
