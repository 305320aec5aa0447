"""The words that the installed rl_games takes, read from its sources. Does not import rl_games."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from rltrain.options import flatten, get_dotted
from rltrain.specs import Words
from rltrain_adapters.sources import compared_with, first_arguments
from rltrain_rl_games.refusals import GROUPS_NETWORK
from rltrain_rl_games.registered import names_of

_LAYERS = "rl_games.algos_torch.network_builder"
_CENTRAL = "params.config.central_value_config"

_CONSTANT = ("None", "none", "identity", "constant", "fixed")
"""What files call a learning rate that stays: any word that rl_games does not look for."""


def words(options: Mapping[str, Any]) -> dict[str, Words]:
    """Return rl_games' words by dotted key; see `LibrarySpec.words`."""
    found: dict[str, Words] = {}
    schedules = compared_with("rl_games.common.a2c_common", "lr_schedule")
    for key in ("params.config.lr_schedule", f"{_CENTRAL}.lr_schedule") if schedules else ():
        found[key] = Words("schedule", schedules.union(_CONSTANT))
    models = names_of("model")
    if _is_misspelled(get_dotted(options, "params.model.name", None), models):
        found["params.model.name"] = Words("model", models)
    for where in ("params.network", f"{_CENTRAL}.network"):
        network = get_dotted(options, where, None)
        if isinstance(network, Mapping):
            found |= {f"{where}.{key}": each for key, each in _of_network(network)}
    return found


def _of_network(network: Mapping[str, Any]) -> Iterator[tuple[str, Words]]:
    """Yield the words of a network of rl_games'; one of the user's own may take others."""
    name = str(network.get("name"))
    if _is_misspelled(name, _networks()):
        yield "name", Words("network", _networks())
    if not is_own_network(name):
        return
    activations = Words(
        "activation", first_arguments(_LAYERS, "activations_factory.register_builder")
    )
    initializers = Words("initializer", first_arguments(_LAYERS, "init_factory.register_builder"))
    for key, _ in flatten(network):
        if key.endswith("activation"):
            yield key, activations
        elif key.endswith(("initializer.name", "_init.name")):
            yield key, initializers
    yield "rnn.name", Words("recurrent layer", compared_with(_LAYERS, "name"))


def is_own_network(name: Any) -> bool:
    """Return whether a network is one of rl_games', or of this plugin, and not the user's."""
    return str(name) in _networks()


def _networks() -> frozenset[str]:
    return names_of("network") | {GROUPS_NETWORK}


def _is_misspelled(name: Any, known: frozenset[str]) -> bool:
    """Return whether a name is nearly one of rl_games'.

    Code of the user's own may register other models and networks, which cannot be seen from here.
    They often have the name of rl_games' in theirs.
    """
    near = difflib.get_close_matches(name, known, 1, 0.9) if isinstance(name, str) else []
    return any(name != each and each not in name for each in near)
