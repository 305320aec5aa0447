"""Checks that ranks begin alike what they train, and have not diverged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import DivergenceError, PluginError
from rltrain.types import Fingerprints, ProcessGroup


def check_divergence(
    group: ProcessGroup, watched: Mapping[str, Fingerprints], iteration: int
) -> None:
    """Check that the watched tensors are equal on all ranks. Collective.

    Normally only two numbers are reduced: the minimum and maximum checksum of all fingerprints.
    The fingerprints themselves are gathered only if these differ.
    """
    if group.world_size == 1:
        return
    import numpy as np

    # Compared as text, so that NaN equals NaN: ranks that all blew up alike have not diverged.
    local = {
        f"{role}.{name}": repr(fingerprint)
        for role, fingerprints in watched.items()
        for name, fingerprint in fingerprints().items()
    }
    checksum = float(zlib.crc32(repr(local).encode()))
    least, negated = group.all_reduce(np.array([checksum, -checksum]), "min")
    if least == -negated:
        return
    ranks = group.gather_objects(local)
    for name in dict.fromkeys(name for values in ranks for name in values):
        odd = [rank for rank, values in enumerate(ranks) if values.get(name) != ranks[0].get(name)]
        if odd:
            values = "; ".join(f"rank {rank}: {ranks[rank].get(name)}" for rank in [0, *odd[:3]])
            raise DivergenceError(
                f"Ranks have diverged at iteration {iteration}: {name} differs from rank 0's on "
                f"rank(s) {', '.join(map(str, odd))} ({values}). In a network of your "
                "own, let the library's optimizer alone learn, and use no BatchNorm. In a plugin, "
                "call session.wrap_model for every model and session.gradient_sync in every step."
            )
    raise DivergenceError(
        f"Ranks have diverged at iteration {iteration}: they watch the same tensors in a "
        "different order. Call session.wrap_model and session.watch in the same order on all ranks."
    )


class Trained:
    """Compares the parameters of gradient syncs with those of wrapped models."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._models: list[Any] = []
        self._syncs: list[list[Any]] = []
        self._checked = False

    def add_model(self, model: Any) -> None:
        """Remember a model that all ranks begin alike."""
        self._models.append(model)

    def add_sync(self, parameters: Any, extras: int) -> None:
        """Remember what an optimizer trains; its last `extras` are no parameters."""
        given = list(leaves(parameters).values())
        self._syncs.append(given[: len(given) - extras])

    def check(self, world_size: int, watches: bool) -> bool:
        """Check once that the ranks train what they began alike; return whether it was now.

        A single parameter, such as a temperature, may do without a model.
        """
        if self._checked:
            return False
        self._checked = True
        if world_size > 1 and not (self._models or self._syncs or watches):
            raise PluginError(
                f"The library {self._library!r} trains nothing together on {world_size} ranks: it "
                "has called neither session.wrap_model nor session.gradient_sync, and each rank "
                'learns alone. Call both. If it learns nothing: session.watch("nothing", dict).'
            )
        lone = 1 if self._models else 0
        apart = [number for each in self._syncs if (number := self._unknown(each)) > lone]
        if world_size > 1 and apart:
            raise PluginError(
                f"The library {self._library!r} trains {sum(apart)} parameters on {world_size} "
                "ranks that belong to no wrapped model: each rank begins with its own values, and "
                "they stay apart. Call session.wrap_model for every model that is trained, before "
                "the first rollout."
            )
        return True

    def _unknown(self, parameters: Sequence[Any]) -> int:
        """Return how many of an optimizer's parameters belong to no model."""
        if not all(hasattr(model, "named_parameters") for model in self._models):
            return 0  # Arrays that never change are not recognized by identity.
        known = {id(x) for model in self._models for x in leaves(model).values()}
        return sum(id(x) not in known for x in parameters)


def leaves(tree: Any, name: str = "") -> dict[str, Any]:
    """Return the arrays of a tree by name: a torch module's parameters, a pytree's leaves."""
    if hasattr(tree, "named_parameters"):
        return dict(tree.named_parameters(prefix=name))
    if isinstance(tree, Mapping):
        items: Sequence[tuple[Any, Any]] = list(tree.items())
    elif isinstance(tree, (list, tuple)):
        items = list(enumerate(tree))
    else:
        return {name: tree}
    branches = [leaves(branch, f"{name}.{key}".removeprefix(".")) for key, branch in items]
    return {key: leaf for branch in branches for key, leaf in branch.items()}
