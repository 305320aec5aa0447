"""The words that the installed rl_games takes, read from its sources. Does not import rl_games."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from rltrain.options import flatten, get_dotted
from rltrain.specs import Choices
from rltrain_adapters.sources import compared_with, first_arguments, mentions
from rltrain_rl_games.declare.options import CENTRAL, GROUPS_NETWORK

_BUILDER = "rl_games.algos_torch.model_builder"
_LAYERS = "rl_games.algos_torch.network_builder"

_ENTRY_POINTS = ("isaaclab.tasks", "mjlab.tasks", "rltrain")
"""Groups of the projects whose modules ranks may import."""

_CONSTANT = ("None", "none", "identity", "constant", "fixed")
"""What files call a learning rate that stays: any word that rl_games does not check for."""


def choices(options: Mapping[str, Any]) -> dict[str, Choices]:
    """Return rl_games' words by dotted key; see `OptionSchema.choices`."""
    found: dict[str, Choices] = {}
    schedules = compared_with("rl_games.common.a2c_common", "lr_schedule")
    for key in ("params.config.lr_schedule", f"{CENTRAL}.lr_schedule") if schedules else ():
        found[key] = Choices("schedule", schedules.union(_CONSTANT))
    models = _names_of("model")
    if _is_misspelled(get_dotted(options, "params.model.name", None), models):
        found["params.model.name"] = Choices("model", models)
    for where in ("params.network", f"{CENTRAL}.network"):
        network = get_dotted(options, where, None)
        if isinstance(network, Mapping):
            found |= {f"{where}.{key}": each for key, each in _of_network(network)}
    return found


def _of_network(network: Mapping[str, Any]) -> Iterator[tuple[str, Choices]]:
    """Yield the words of one of rl_games' networks; a network of the user's may take others."""
    name, known = str(network.get("name")), _names_of("network") | {GROUPS_NETWORK}
    if _is_misspelled(name, known):
        yield "name", Choices("network", known)
    if name not in known:
        return
    activations = Choices(
        "activation", first_arguments(_LAYERS, "activations_factory.register_builder")
    )
    initializers = Choices("initializer", first_arguments(_LAYERS, "init_factory.register_builder"))
    for key, _ in flatten(network):
        if key.endswith("activation"):
            yield key, activations
        elif key.endswith(("initializer.name", "_init.name")):
            yield key, initializers
    yield "rnn.name", Choices("recurrent layer", compared_with(_LAYERS, "name"))


def is_own_network(name: Any) -> bool:
    """Return whether a network is one of rl_games', or of this plugin, and not the user's."""
    return name == GROUPS_NETWORK or str(name) in _names_of("network")


def is_registered(kind: str, name: Any, task: str) -> bool:
    """Return whether rl_games, or a module that ranks import, registers a name.

    Imports neither rl_games nor such a module.

    Args:
        kind: "network" or "model".
        name: in the options.
        task: the run's, which may name its module.
    """
    known = _names_of(kind)
    if name is None or name in known or not known:
        return True
    # What the task's module or the user's script has registered in this process.
    here = getattr(sys.modules.get(_BUILDER), f"{kind.upper()}_REGISTRY", ())
    installed = (each.module for group in _ENTRY_POINTS for each in entry_points(group=group))
    modules = {task.rpartition(":")[0], *installed}
    packages = {module.partition(".")[0] for module in modules} - {""}
    return name in here or any(mentions(each, f'"{name}"', f"'{name}'") for each in packages)


def _names_of(kind: str) -> frozenset[str]:
    """Return the names of networks or models that rl_games itself registers."""
    return first_arguments(_BUILDER, f"{kind}_factory.register_builder")


def _is_misspelled(name: Any, known: frozenset[str]) -> bool:
    """Return whether a name is nearly one of rl_games'.

    The user's own code, which cannot be seen from here, may register other models and networks.
    They often have the name of rl_games' in theirs.
    """
    near = difflib.get_close_matches(name, known, 1, 0.9) if isinstance(name, str) else []
    return any(name != each and each not in name for each in near)
