"""The words that the installed skrl takes, read from its sources. Does not import skrl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import flatten
from rltrain.specs import Words
from rltrain_adapters.sources import texts_in

_SCALER = Words("preprocessor", ("RunningStandardScaler", "None"))
_NOISE = Words("noise", ("GaussianNoise", "OrnsteinUhlenbeckNoise", "None"))
_CLASSES = {
    "learning_rate_scheduler": Words("scheduler", ("KLAdaptiveLR", "None")),
    **dict.fromkeys((f"{x}_preprocessor" for x in ("observation", "state", "value")), _SCALER),
    **dict.fromkeys(("exploration_noise", "smooth_regularization_noise"), _NOISE),
}
"""Of an agent, by option, the classes that skrl's Runner imports."""

_NONE = ("", "None")
"""Words for no activation: skrl has any that it does not know for one."""

_COMMON = tuple(f"skrl.utils.model_instantiators.{x}.common" for x in ("torch", "jax"))


def words(options: Mapping[str, Any]) -> dict[str, Words]:
    """Return skrl's words by dotted key; see `LibrarySpec.words`.

    Without this, skrl would leave out an activation that it does not have, and say nothing.
    """
    agent = options.get("agent")
    agent = agent if isinstance(agent, Mapping) else {}
    names = frozenset().union(*(texts_in(module, "activations") for module in _COMMON)) - {""}
    activations = Words("activation", names, any_case=True)
    components = texts_in("skrl.utils.runner.torch.runner", "component")
    models = Words("model", {x for x in components if x.endswith("mixin")}, any_case=True)
    # A value with a call is an expression, which the Runner evaluates.
    found = {f"agent.{x}": each for x, each in _CLASSES.items() if "(" not in str(agent.get(x))}
    for key, value in flatten({"models": options.get("models") or {}}):
        if key.endswith(".class"):
            found[key] = models
        elif key.endswith(".activations"):
            several = isinstance(value, list)
            each = {f"{key}.{n}": x for n, x in enumerate(value)} if several else {key: value}
            found |= {place: activations for place, word in each.items() if word not in _NONE}
    return found
