"""Recognizes skrl's checkpoints before any rank starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rltrain.errors import UsageError, in_a_line
from rltrain.unpickling import UnsafePickle, would_run_code
from rltrain_adapters.unpickling import load_data

AGENT = "an agent of skrl"
"""Added to the parts of every checkpoint that an agent of skrl wrote."""

_ACTS = {"policy", "q_network"}

_PICKLE = b"\x80\x04"
"""The first bytes of a checkpoint of skrl's jax agents: pickle, protocol 4. torch writes archives,
and old versions wrote protocol 2."""


def parts(path: str, trusted: bool = False) -> list[str] | str:
    """Return the parts of a checkpoint, with `AGENT` if skrl wrote it, or why it cannot be read.

    Agents name their parts differently, but all have a network that acts, and an optimizer.
    """
    names = _top_level_keys(path, trusted)
    if isinstance(names, str):
        return names
    acts = not _ACTS.isdisjoint(names)
    return [*names, AGENT] if acts and any(n.endswith("optimizer") for n in names) else names


def check_framework(path: Path, framework: str) -> None:
    """Check that a checkpoint is one of a framework."""
    try:
        found = "jax" if _is_pickled(path) else "torch"
    except OSError as error:
        raise UsageError(f"--checkpoint {path}: it cannot be read: {error}.") from error
    if found != framework:
        raise UsageError(
            f"--checkpoint {path}: was written by skrl's agents for {found}, or is no checkpoint, "
            f"but this run's framework is {framework}. Add --framework {found}."
        )


def _is_pickled(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_PICKLE)) == _PICKLE


def _top_level_keys(path: str, trusted: bool) -> list[str] | str:
    try:
        pickled = _is_pickled(Path(path))
    except OSError as error:
        return f"it cannot be read: {error}."
    if not pickled:
        from rltrain_torch.checkpoints import top_level_keys

        return top_level_keys(path, trusted)
    try:
        return list(map(str, _unpickled(Path(path), trusted)))
    except ValueError as error:
        return str(error)


def read_pickled(path: Path, trusted: bool) -> dict[str, Any]:
    """Return the parts of a checkpoint of skrl's agents for jax, by name.

    Args:
        path: the checkpoint.
        trusted: whether to build whatever the file names, which may run any code.
    """
    try:
        return _unpickled(path, trusted)
    except ValueError as error:
        raise UsageError(f"--checkpoint {path}: {error}") from error


def _unpickled(path: Path, trusted: bool) -> dict[str, Any]:
    """Return the parts of a checkpoint."""
    try:
        loaded = load_data(path.read_bytes(), trusted)
    except UnsafePickle as error:
        raise ValueError(would_run_code(error)) from error
    except Exception as error:
        raise ValueError(f"it cannot be read as a checkpoint ({in_a_line(error)}).") from error
    return {str(name): part for name, part in loaded.items()} if isinstance(loaded, dict) else {}
