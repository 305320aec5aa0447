"""skrl's checkpoints: recognized before any rank starts, and those of jax read as data."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from rltrain.data import UnsafePickle, would_run_code
from rltrain.errors import UsageError, in_a_line
from rltrain_adapters.unpickling import load_data

AGENT = "an agent of skrl"
"""Added to the parts of every checkpoint that an agent of skrl wrote."""

PROGRESS = "rltrain"
"""Name of our part of a checkpoint. Stock skrl skips it with a warning, like any unknown name."""

_PICKLE = b"\x80\x04"
"""The first bytes of a checkpoint of skrl's jax agents: pickle, protocol 4. torch writes archives,
and old versions wrote protocol 2."""


def parts(path: str, trusted: bool = False) -> list[str] | str:
    """Return the parts of a checkpoint, with `AGENT` if skrl wrote it, or why it cannot be read.

    Agents name their parts differently, but all have a network that acts, and an optimizer.
    """
    if _is_pickled(Path(path)):
        try:
            names = list(_unpickled(Path(path), trusted))
        except ValueError as error:
            return str(error)
    else:
        from rltrain_torch.checkpoints import top_level_keys

        found = top_level_keys(path, trusted)
        if isinstance(found, str):
            return found
        names = found
    acts = not {"policy", "q_network"}.isdisjoint(names)
    return [*names, AGENT] if acts and any(n.endswith("optimizer") for n in names) else names


def check_framework(path: Path, framework: str) -> None:
    """Check that a checkpoint is one of a framework."""
    found = "jax" if _is_pickled(path) else "torch"
    if found != framework:
        raise UsageError(
            f"--checkpoint {path}: was written by skrl's agents for {found}, or is no checkpoint, "
            f"but this run's framework is {framework}. Add --framework {found}."
        )


def _is_pickled(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(_PICKLE)) == _PICKLE
    return False  # Whoever reads it says why it cannot be read.


def read_pickled(path: Path, trusted: bool) -> dict[str, Any]:
    """Return the parts of a checkpoint of jax, by name; only if it is trusted may it run code."""
    try:
        return _unpickled(path, trusted)
    except ValueError as error:
        raise UsageError(f"--checkpoint {path}: {error}") from error


def _unpickled(path: Path, trusted: bool) -> dict[str, Any]:
    try:
        loaded = load_data(path.read_bytes(), trusted)
    except UnsafePickle as error:
        raise ValueError(would_run_code(error)) from error
    except Exception as error:
        raise ValueError(f"it cannot be read as a checkpoint ({in_a_line(error)}).") from error
    return {str(name): part for name, part in loaded.items()} if isinstance(loaded, dict) else {}


def rename_parts(
    saved: Mapping[str, Any], known: Set[str]
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the parts of a checkpoint, those of skrl 1 under the names of skrl 2.

    Also return the names of the parts that the agent has and skrl 1 had not. skrl 1 had one
    preprocessor, of what is called the observations now.
    """
    old, new = "state_preprocessor", "observation_preprocessor"
    if new not in known or new in saved or old not in saved:
        return saved, frozenset()
    return {new if name == old else name: part for name, part in saved.items()}, frozenset({old})


def check_parts(
    saved: Set[str], own: Set[str], algorithm: str, *, only_acting: bool = False
) -> None:
    """Check that a checkpoint has the parts of an agent, or those with which it acts."""
    ignored = {PROGRESS}
    if only_acting:
        ignored |= {"value_preprocessor"} | {x for x in saved | own if x.endswith("optimizer")}
    unknown, lacking = (", ".join(sorted(x - ignored)) for x in (saved - own, own - saved))
    if unknown or lacking:
        found = [f"has {unknown}"] * bool(unknown) + [f"lacks {lacking}"] * bool(lacking)
        raise UsageError(
            f"does not fit {algorithm} with these options: it {' and '.join(found)}. Give the "
            "--algorithm or --agent-config that it was trained with."
        )
