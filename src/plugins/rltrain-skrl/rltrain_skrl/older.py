"""Networks that were written for skrl 1, in the words of skrl 2.

skrl's Runner itself translates what skrl 1 says of an agent. Of networks it does not: what they
take, the observations, is called STATES in skrl 1, which are another thing in skrl 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["in_words_of_skrl_2"]

_STATES = re.compile(r"\bSTATES\b")
_OBSERVATIONS = re.compile(r"\bOBSERVATIONS\b")

_OLD_WORDS = ("lambda", "clip_predicted_values")
"""Of an agent; skrl 2 has other words, or none."""


def in_words_of_skrl_2(options: dict[str, Any], has_states: bool) -> None:
    """Let networks take OBSERVATIONS where a file of skrl 1 has STATES.

    Such a file is one in which no network takes OBSERVATIONS, and that either speaks of the agent
    in the words of skrl 1, or is for a task without states.

    Args:
        options: of skrl's Runner, changed in place.
        has_states: whether the task has observations for the critic alone.
    """
    networks = list(_networks(options.get("models") or {}))
    inputs = [str(network.get("input")) for network in networks]
    old = any(word in options["agent"] for word in _OLD_WORDS) or not has_states
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
