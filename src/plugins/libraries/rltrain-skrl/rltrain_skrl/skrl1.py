"""Networks and checkpoints of skrl 1, in the terms of skrl 2.

skrl's Runner translates the agent's options of skrl 1 itself, but not the networks: their input,
the observations, is called STATES in skrl 1, which is something else in skrl 2. So is their
preprocessor in a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

_STATES = re.compile(r"\bSTATES\b")
_OBSERVATIONS = re.compile(r"\bOBSERVATIONS\b")

_SKRL_1_OPTIONS = ("lambda", "clip_predicted_values")
"""Of an agent; skrl 2 has other names for them, or dropped them."""


def rename_states(options: dict[str, Any], has_states: bool) -> None:
    """Replace STATES by OBSERVATIONS in the networks of a file for skrl 1.

    Such a file has no network with the input OBSERVATIONS, and it either has agent options of
    skrl 1 or is for a task without states.

    Args:
        options: of skrl's Runner, changed in place.
        has_states: whether the task has observations for the critic alone.
    """
    networks = list(_networks(options.get("models") or {}))
    inputs = [str(network.get("input")) for network in networks]
    old = any(name in options["agent"] for name in _SKRL_1_OPTIONS) or not has_states
    if not old or any(_OBSERVATIONS.search(text) for text in inputs):
        return
    for network, text in zip(networks, inputs, strict=True):
        if _STATES.search(text):
            network["input"] = _STATES.sub("OBSERVATIONS", text)


def _networks(models: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for model in models.values():
        for network in (model.get("network") or []) if isinstance(model, Mapping) else []:
            if isinstance(network, dict):
                yield network


def rename_parts(
    saved: Mapping[str, Any], known: Set[str]
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the parts of a checkpoint, those of skrl 1 under the names of skrl 2.

    Returns:
        The parts, and the names of those that the agent has and skrl 1 had not.
    """
    old, new = "state_preprocessor", "observation_preprocessor"
    if new not in known or new in saved or old not in saved:
        return saved, frozenset()
    return {new if name == old else name: part for name, part in saved.items()}, frozenset({old})
