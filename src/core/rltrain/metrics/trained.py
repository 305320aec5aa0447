"""Whether what is trained belongs to models that all ranks begin alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import PluginError

__all__ = ["Trained", "leaves"]


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

    def check(self, world_size: int, watches: bool) -> None:
        """Check once that the ranks train what they began alike.

        A single parameter, such as a temperature, may do without a model.

        Raises:
            PluginError: they do not.
        """
        if self._checked:
            return
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

    def _unknown(self, parameters: Sequence[Any]) -> int:
        """Return how many of an optimizer's parameters belong to no model."""
        if not all(hasattr(model, "named_parameters") for model in self._models):
            return 0  # Arrays that never change are not told by what they are.
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
