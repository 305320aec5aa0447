"""The words that the installed skrl takes, read from its sources. Does not import skrl.

What names a class in the options of the agent is checked in `refusals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import flatten
from rltrain.specs import Words
from rltrain_adapters.sources import texts_in

__all__ = ["words"]

_COMMON = tuple(f"skrl.utils.model_instantiators.{x}.common" for x in ("torch", "jax"))


def words(options: Mapping[str, Any]) -> dict[str, Words]:
    """Return skrl's words by dotted key; see `LibrarySpec.words`.

    Without this, skrl would leave out an activation that it does not have, and say nothing.
    """
    # "" is none.
    names = frozenset().union(*(texts_in(module, "activations") for module in _COMMON)) - {""}
    activations = Words("activation", names, any_case=True)
    components = texts_in("skrl.utils.runner.torch.runner", "component")
    models = Words("model", {x for x in components if x.endswith("mixin")}, any_case=True)
    found: dict[str, Words] = {}
    for key, value in flatten({"models": options.get("models") or {}}):
        if key.endswith(".class"):
            found[key] = models
        elif key.endswith(".activations"):
            several = isinstance(value, list)
            each = {f"{key}.{n}": x for n, x in enumerate(value)} if several else {key: value}
            found |= {place: activations for place, word in each.items() if word != ""}
    return found
