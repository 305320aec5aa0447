"""The files that a run reads and writes, resolved and checked before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from rltrain.config import RunConfig
from rltrain.errors import UsageError, suggest
from rltrain.files.reading import no_file
from rltrain.launch.preflight import preflight
from rltrain.plan.upgrades import changed_versions
from rltrain.plugins.registry import Registry
from rltrain.specs import BackendSpec, LibrarySpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.checkpoints import INDEX
from rltrain.storage.finding import CHOICES, find_checkpoint
from rltrain.storage.resume import iterations_left, over_by
from rltrain.storage.run_folder import LONGEST_NAME, check_writable
from rltrain.terminal import note, one_line
from rltrain.types import World

_SHOWN = 60
"""Characters of what is wrong that a message repeats."""


def check_run_name(name: str | None) -> None:
    """Check that a name can be part of a folder's name, and of a line that names the folder."""
    if not name:
        return
    shown = one_line(name) if len(name) <= _SHOWN else f"{one_line(name[:_SHOWN])}..."
    given = f"--run-name {shown}: is part of a folder's name"
    if "/" in name or name in (".", ".."):
        raise UsageError(f"{given}; omit '/'.")
    if one_line(name) != name:
        raise UsageError(f"{given}; omit ends of lines and other control characters.")
    if name.startswith("-"):
        raise UsageError(f"{given}; begin it with a letter or a digit: -x is a flag.")
    if len(name.encode()) > LONGEST_NAME:
        raise UsageError(f"{given}, which has room for {LONGEST_NAME} bytes. Shorten it.")


def resolve_files(
    config: RunConfig,
    registry: Registry,
    world: World | None,
    iterations: int | None,
    found: Checkpoint | None,
) -> tuple[RunConfig, Checkpoint | None]:
    """Check what the run reads and writes; find its checkpoint, if --resume has `found` none."""
    whose = f" (of --resume {config.resume}, unless you have given it)" if config.resume else ""
    check_writable("log_root", config.log_root, whose)
    if config.auto_resume and config.run_name is None:
        raise UsageError(
            "--auto-resume: add --run-name NAME. Runs with the same name go on from each other."
        )
    # Only rank 0 looks for it, and sends it to the others, which could find a later one.
    root = world.is_root if world is not None else config.node_rank == 0
    found = (found or find_checkpoint(config, note)) if root else None
    if found is None:
        return config, None
    check_checkpoint(found, config, registry, world)
    # With --auto-resume, the ranks find that the run is over, all of them: that is no mistake.
    if not config.auto_resume:
        _check_limits(found, config, iterations)
    changed = changed_versions(found.path, config, registry)
    if changed is not None:
        note(changed)
    return dataclasses.replace(config, checkpoint=str(found)), found


def _check_limits(checkpoint: Checkpoint, config: RunConfig, iterations: int | None) -> None:
    """Refuse to go on with a run that is over by its limits."""
    limit = over_by(checkpoint, config, iterations)
    if limit.startswith("--max-iterations"):
        iterations_left(int(iterations or 0), (checkpoint.state or {})["iteration"])
    if limit:
        raise UsageError(
            f"--checkpoint {checkpoint.path}: its run is over: it has reached {limit}. To "
            "continue, give another value, or an earlier checkpoint."
        )


def check_checkpoint(
    checkpoint: Checkpoint, config: RunConfig, registry: Registry, world: World | None
) -> None:
    """Check that a file is a checkpoint of a run's library and framework."""
    # The launcher imports no framework, and a rank that joins may have to join first.
    joins_first = registry.get(BackendSpec, config.backend).joins_first
    in_child = config.distributed and (world is None or joins_first)
    path = str(checkpoint.path)
    if not os.path.isfile(path):  # Path.is_file raises if the name is too long.
        in_it = f" Name a file in it, or go on with a run: --resume {path}."
        instead = in_it if os.path.isdir(path) else suggest(path, CHOICES)
        if os.path.isfile(os.path.normpath(f"{path}/../../{INDEX}")):
            instead = " A run with --keep removes older ones: type the command again, or name one."
        raise UsageError(f"--checkpoint {path}: {no_file(path)}.{instead}")
    state = checkpoint.state
    library = registry.get(LibrarySpec, config.library)
    _check_library(path, library, registry, in_child, config.trust)
    before = state["circumstances"].get("framework") if state else None
    if before not in (None, config.framework):
        shown = one_line(str(before))[:_SHOWN]
        raise UsageError(
            f"--checkpoint {path}: was saved with {shown}, but this run uses {config.framework}, "
            f"whose models and optimizers differ. Give --framework {shown}."
        )


def recognizes(library: LibrarySpec, path: str, trusted: bool, in_child: bool) -> bool:
    """Return whether a library declares how its checkpoints look, and a file looks so."""
    if library.read_checkpoint is None or not library.checkpoint_keys:
        return False
    found = preflight(library.read_checkpoint, path, trusted, in_child=in_child)
    return not isinstance(found, str) and library.checkpoint_keys <= set(found)


def _check_library(
    path: str, library: LibrarySpec, registry: Registry, in_child: bool, trusted: bool
) -> None:
    """Check that a file is a checkpoint of this library."""
    if library.read_checkpoint is None:
        return
    found = preflight(library.read_checkpoint, path, trusted, in_child=in_child)
    if isinstance(found, str):
        raise UsageError(f"--checkpoint {path}: {found}")
    missing = sorted(library.checkpoint_keys - set(found))
    if missing:
        others = " or ".join(_matching_libraries(path, library, registry, in_child, trusted))
        hint = f" It looks like one of {others}: try --library {others}." if others else ""
        raise UsageError(
            f"--checkpoint {path}: this is not a checkpoint of {library.name}: it lacks "
            f"{', '.join(missing)}.{hint}"
        )


def _matching_libraries(
    path: str, library: LibrarySpec, registry: Registry, in_child: bool, trusted: bool
) -> Iterator[str]:
    """Yield the names of the other libraries that recognize a checkpoint."""
    for spec in registry.all(LibrarySpec):
        if spec.name != library.name and recognizes(spec, path, trusted, in_child):
            yield spec.name
