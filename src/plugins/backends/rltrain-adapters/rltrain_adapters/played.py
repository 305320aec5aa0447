"""A task's options where the task is played: playing may leave parts of it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltrain.terminal import note


def still_there(
    options: Mapping[str, Any],
    training: Any,
    played: Any,
    parts: Callable[[Any], Mapping[str, Any]],
    prefix: str = "env.",
) -> dict[str, Any]:
    """Return options without those for parts that a task has only in training, and name these.

    Such are the options of pushes, with which a run was trained.

    Args:
        options: nested like the configurations.
        training: the task's configuration for training.
        played: the one for playing.
        parts: returns the parts of a configuration by name; empty for plain values.
        prefix: of the names in messages.
    """
    before, now = parts(training), parts(played)
    kept: dict[str, Any] = {}
    for name, value in options.items():
        if name in now and isinstance(value, Mapping) and parts(before.get(name)):
            kept[name] = still_there(value, before[name], now[name], parts, f"{prefix}{name}.")
        elif name in now or name not in before:
            kept[name] = value
        elif value is not None:
            note(f"{prefix}{name}: is left out: the task has no such part as it is played")
    return kept
