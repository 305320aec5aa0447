"""The files that a run reads and writes, resolved and checked before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config import RunConfig, checks
from rltrain.config.checks import flag
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError, suggest
from rltrain.files.reading import no_file
from rltrain.launch.preflight import preflight
from rltrain.options.run import RunOptions, overlay
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain.storage.checkpoint import INDEX, Checkpoint
from rltrain.storage.resume import iterations_left, over_by
from rltrain.storage.run import CHOICES, Run, find_checkpoint, find_run
from rltrain.storage.run_folder import LONGEST_NAME, check_writable
from rltrain.storage.run_options import read_file, take
from rltrain.terminal import note, one_line
from rltrain.types import World

_SHOWN = 60
"""Characters of what is wrong that a message repeats."""


def with_options_of_run(
    options: Mapping[str, Any], tell: Callable[[str], None] = note
) -> tuple[dict[str, Any], Checkpoint | None]:
    """Return the options of a run that resumes another one, and its checkpoint.

    They are those of that run, and the user's, which win. Without `resume` these are returned.
    `tell` is given lines for the user.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "resume" not in given:
        return dict(options), None
    for name in scoped(RunOptions, Scope.ORIGIN):
        if name != "resume" and given.get(name):
            raise UsageError(
                f"--resume and {flag(name)} contradict each other: both say where to start. Give "
                "one of the two."
            )
    named = str(given["resume"])
    instead = "To start from a file alone, give --checkpoint FILE and the run's options."
    run, checkpoint = find_run(named, given, option="--resume", instead=instead)
    if checkpoint is None:
        checkpoint = run.checkpoint(named=f"--resume {named}")
    merged = overlay(_options_of(run, given, tell), given)
    return {**merged, "resume": str(run.path), "checkpoint": str(checkpoint)}, checkpoint


def _options_of(run: Run, given: Mapping[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the options of a run that are taken, plugins' by dotted key."""
    trusted = bool(given.get("trust"))
    saved = read_file(run.path, run.path / "config.yaml", "--resume", trusted)
    for name in (*scoped(RunOptions, Scope.ORIGIN), "cluster"):  # Another one may start it now.
        saved.pop(name, None)
    registry = discover(checks.names("", given.get("no_plugins", ())))
    found = take(run.path, saved, given, registry, tell)
    if root := found.get("log_root"):  # Relative to the folder in which the run was started.
        found["log_root"] = str(Path(run.manifest.get("folder", ""), Path(root).expanduser()))
    # The run folder may have been moved.
    return {**found, "agent_config": str(run.path / "agent.yaml")}


def check_resume(requested: RunOptions, registry: Registry) -> None:
    """Refuse to resume a run where its files cannot be read."""
    name = requested.launcher if requested.resume is not None else None
    if name is not None and registry.get(LauncherSpec, name).starts_nodes:
        raise UsageError(
            f"--resume: the launcher {name} starts the ranks on other machines, whose files are "
            "not read here. Type the run's command again with --checkpoint latest."
        )


def check_run_name(name: str | None) -> None:
    """Check that a name can be part of a folder's name, and of a line that names the folder."""
    if not name:
        return
    given = f"--run-name {one_line(name[:_SHOWN])}: is part of a folder's name"
    if "/" in name or name in (".", "..") or one_line(name) != name:
        raise UsageError(f"{given}; give one without '/' and control characters, not '.' or '..'.")
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
            "--auto-resume: add --run-name NAME. Runs with the same name resume each other."
        )
    # Only rank 0 looks for it, and sends it to the others, which could find a later one.
    root = world.is_root if world is not None else config.node_rank == 0
    found = (found or find_checkpoint(config, note)) if root else None
    if found is None:
        return config, None
    check_checkpoint(found, config, registry, world)
    # With --auto-resume, the ranks find that the run is over, all of them: that is no mistake.
    limit = "" if config.auto_resume else over_by(found, config, iterations)
    if limit.startswith("--max-iterations"):
        iterations_left(int(iterations or 0), (found.state or {})["iteration"])
    if limit:
        raise UsageError(
            f"--checkpoint {found.path}: its run is over: it has reached {limit}. To continue, "
            "give another value, or an earlier checkpoint."
        )
    return dataclasses.replace(config, checkpoint=str(found)), found


def check_checkpoint(
    checkpoint: Checkpoint, config: RunConfig, registry: Registry, world: World | None
) -> None:
    """Check that a file is a checkpoint of a run's library and framework."""
    path = str(checkpoint.path)
    if not os.path.isfile(path):  # Path.is_file raises if the name is too long.
        in_it = f" Name a file in it, or resume a run: --resume {path}."
        instead = in_it if os.path.isdir(path) else suggest(path, CHOICES)
        if os.path.isfile(os.path.normpath(f"{path}/../../{INDEX}")):
            instead = " A run with --keep removes older ones: type the command again, or name one."
        raise UsageError(f"--checkpoint {path}: {no_file(path)}.{instead}")
    state = checkpoint.state  # Refuses a damaged file before its library reads it.
    # The launcher imports no framework, and a rank that joins may have to join first.
    joins_first = registry.get(BackendSpec, config.backend).joins_first
    in_child = config.distributed and (world is None or joins_first)
    library = registry.get(LibrarySpec, config.library)
    if library.checkpoint is not None:
        keys = preflight(library.checkpoint.read, path, config.trust, in_child=in_child)
        if isinstance(keys, str):
            raise UsageError(f"--checkpoint {path}: {keys}")
        if missing := sorted(library.checkpoint.keys - set(keys)):
            others = " or ".join(
                spec.name
                for spec in registry.all(LibrarySpec)
                if spec != library and recognizes(spec, path, config.trust, in_child)
            )
            hint = f" It looks like one of {others}: try --library {others}." if others else ""
            raise UsageError(
                f"--checkpoint {path}: this is not a checkpoint of {library.name}: it lacks "
                f"{', '.join(missing)}.{hint}"
            )
    before = state["circumstances"].get("framework") if state else None
    if before not in (None, config.framework):
        shown = one_line(str(before))[:_SHOWN]
        raise UsageError(
            f"--checkpoint {path}: was saved with {shown}, but this run uses {config.framework}, "
            f"whose models and optimizers differ. Give --framework {shown}."
        )


def recognizes(library: LibrarySpec, path: str, trusted: bool, in_child: bool) -> bool:
    """Return whether a library declares how its checkpoints look, and a file looks so."""
    if library.checkpoint is None:
        return False
    found = preflight(library.checkpoint.read, path, trusted, in_child=in_child)
    return not isinstance(found, str) and library.checkpoint.keys <= set(found)
