"""The files that a run reads and writes, settled and checked before any rank starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.launch.preflight import preflight
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec
from rltrain.storage.checkpoints import CHOICES, find_checkpoint, read_state
from rltrain.storage.resume import iterations_left
from rltrain.storage.run_folder import check_log_root
from rltrain.types import World

__all__ = ["settle_files"]


def settle_files(
    config: RunConfig,
    library: LibrarySpec,
    registry: Registry,
    world: World | None,
    iterations: int | None,
) -> RunConfig:
    """Check what is read and written; find the checkpoint that `latest` or `best` means.

    Raises:
        UsageError: something cannot be read or written, or is not what it should be.
    """
    check_log_root(config.log_root)
    if config.run_name and ("/" in config.run_name or config.run_name in (".", "..")):
        raise UsageError(
            f"--run-name {config.run_name}: is part of a folder's name; leave out '/'."
        )
    # Others are told by rank 0: by the time that they look, there may be a later one.
    root = world.is_root if world is not None else config.node_rank == 0
    if config.checkpoint is None or not root:
        return config
    path = config.checkpoint
    if path in CHOICES:
        path = str(find_checkpoint(path, config.log_root, config.library, config.task))
    # Ranks that were started already start none. jax must not be touched before they are joined.
    in_child = config.distributed and (world is None or config.framework == "jax")
    _check_checkpoint(path, library, registry, in_child)
    state = read_state(Path(path))
    before = state["circumstances"].get("framework") if state else None
    if before not in (None, config.framework):
        raise UsageError(
            f"--checkpoint {path}: a run of {before} wrote it, and this one is of "
            f"{config.framework}, whose models and optimizers differ. Give --framework {before}."
        )
    # Another algorithm's is where this one begins, such as a teacher's.
    if state and iterations and state["circumstances"]["algorithm"] == config.algorithm:
        iterations_left(iterations, state["iteration"])
    return dataclasses.replace(config, checkpoint=path)


def _check_checkpoint(path: str, library: LibrarySpec, registry: Registry, in_child: bool) -> None:
    """Tell a checkpoint of this library from another's."""
    if not Path(path).is_file():
        raise UsageError(f"--checkpoint {path}: there is no such file.")
    if library.read_checkpoint is None:
        return
    found = preflight(library.read_checkpoint, path, in_child=in_child)
    if isinstance(found, str):
        raise UsageError(f"--checkpoint {path}: {found}")
    missing = sorted(library.checkpoint_keys - set(found))
    if missing:
        fitting = _whose(path, library, registry, in_child)
        hint = f" It looks like one of {fitting}: try --library {fitting}." if fitting else ""
        raise UsageError(
            f"--checkpoint {path}: this is not a checkpoint of {library.name}: it lacks "
            f"{', '.join(missing)}.{hint}"
        )


def _whose(path: str, library: LibrarySpec, registry: Registry, in_child: bool) -> str | None:
    """Return the other library that recognizes a checkpoint."""
    for spec in registry.all(LibrarySpec):
        if spec.name == library.name or spec.read_checkpoint is None or not spec.checkpoint_keys:
            continue
        found = preflight(spec.read_checkpoint, path, in_child=in_child)
        if not isinstance(found, str) and spec.checkpoint_keys <= set(found):
            return spec.name
    return None
