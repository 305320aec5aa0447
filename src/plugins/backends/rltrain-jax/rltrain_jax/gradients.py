"""Gradient sync `tree`: one compiled all-reduce of all gradients per step."""

from __future__ import annotations

from typing import Any

import jax

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync, ProcessGroup
from rltrain_jax.trees import form, pack, unpack


class TreeGradientSync:
    """The plugin: makes one `TreeSync` per optimizer."""

    @hookimpl
    def rltrain_gradient_sync(self, session: Session, parameters: Any) -> GradientSync:
        """Make the sync; the parameters are a pytree, whose leaves may have several dtypes."""
        return TreeSync(session.group, parameters)


class TreeSync:
    """Averages a pytree of gradients with one all-reduce for each dtype.

    One compiled function packs the leaves into vectors, and another one unpacks the averages:
    nothing is traced after the first call.
    """

    def __init__(self, group: ProcessGroup, parameters: Any) -> None:
        self._group = group
        leaves, structure = jax.tree.flatten(parameters)
        self._structure: Any = structure
        self._form = form(leaves)

    def __call__(self, gradients: Any) -> Any:
        """Return the averages; on one rank the gradients themselves."""
        leaves, structure = jax.tree.flatten(gradients)
        if structure != self._structure:
            raise ValueError(
                f"The gradients are {structure}, but the sync was made for {self._structure}."
            )
        if self._group.world_size == 1 or not leaves:
            return gradients
        averages = [self._group.all_reduce(vector, "mean") for vector in pack(leaves)]
        return jax.tree.unflatten(structure, unpack(averages, self._form))
