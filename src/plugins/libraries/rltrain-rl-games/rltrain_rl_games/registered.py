"""Who registers a network or a model with rl_games. Imports neither rl_games nor who may do it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from rltrain_adapters.sources import first_arguments, mentions

BUILDER = "rl_games.algos_torch.model_builder"
_GROUPS = ("isaaclab.tasks", "mjlab.tasks", "rltrain")
"""Entry points of projects whose modules ranks may import."""


def names_of(kind: str) -> frozenset[str]:
    """Return the names that rl_games itself registers.

    Args:
        kind: "network" or "model".
    """
    return first_arguments(BUILDER, f"{kind}_factory.register_builder")


def is_registered(kind: str, name: Any, task: str) -> bool:
    """Return whether rl_games has a name, or somebody whose modules ranks import registers it.

    Args:
        kind: "network" or "model".
        name: in the options.
        task: the run's, which may name its module.
    """
    known = names_of(kind)
    if name is None or name in known or not known:
        return True
    # What the task's module or the user's script has registered in this process.
    here = getattr(sys.modules.get(BUILDER), f"{kind.upper()}_REGISTRY", ())
    return name in here or any(
        mentions(module, f'"{name}"', f"'{name}'") for module in _modules(task)
    )


def _modules(task: str) -> Iterator[str]:
    """Yield the packages that the user named, or installed for rltrain or the task's suite."""
    named = task.rpartition(":")[0].partition(".")[0]
    if named:
        yield named
    for group in _GROUPS:
        yield from {each.module.partition(".")[0] for each in entry_points(group=group)}
