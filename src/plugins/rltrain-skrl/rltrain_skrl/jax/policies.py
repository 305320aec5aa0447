"""What skrl's policies lack: an entropy of choices, noise that is drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from skrl.models.jax import CategoricalMixin, Model, MultiCategoricalMixin

from rltrain_skrl.jax.keys import draws_anew, keyed

__all__ = ["mended"]


def mended(model: Model) -> Model:
    """Return the same model, if it is a policy that draws with what skrl's lacks.

    skrl asks a policy for its entropy by the standard deviation that it returned, which is NaN for
    choices: an entropy bonus has no effect. Here that place holds the entropy itself.
    """
    if not keyed([model]):
        return model
    model.act = draws_anew(model)
    if isinstance(model, CategoricalMixin):
        model.act = _with_entropy(model.act, model._c_unnormalized_log_prob, None)
    elif isinstance(model, MultiCategoricalMixin):
        assert isinstance(model.action_space, spaces.MultiDiscrete)
        cuts = [int(n) for n in model.action_space.nvec.cumsum()[:-1]]
        model.act = _with_entropy(model.act, model._mc_unnormalized_log_prob, cuts)
    else:
        return model
    model.get_entropy = _given
    return model


def _given(entropy: jax.Array, *, role: str = "") -> jax.Array:
    return entropy


def _with_entropy(
    stock: Callable[..., Any], unnormalized: bool, cuts: list[int] | None
) -> Callable[..., Any]:
    def act(inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        actions, outputs = stock(inputs, role=role, params=params)
        if params is not None:
            output = outputs["net_output"]
            parts = [output] if cuts is None else jnp.split(output, cuts, axis=-1)
            outputs["stddev"] = sum(_entropy(part, unnormalized) for part in parts)
        return actions, outputs

    return act


def _entropy(output: jax.Array, unnormalized: bool) -> jax.Array:
    """Return the entropies of choices by a network's output, shapes (N, C) to (N, 1)."""
    if unnormalized:
        log = jax.nn.log_softmax(output)
    else:
        probabilities = output / output.sum(-1, keepdims=True)
        eps = float(np.finfo(output.dtype).eps)
        log = jnp.log(probabilities.clip(min=eps, max=1 - eps))
    return -(jnp.exp(log) * log).sum(-1, keepdims=True)
