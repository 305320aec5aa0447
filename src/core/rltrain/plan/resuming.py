"""Going on with a run, by its own options, from one of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config import checks
from rltrain.config.checks import flag
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions, overlay
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import LauncherSpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.finding import find_run
from rltrain.storage.run import Run
from rltrain.storage.run_options import read_file, take
from rltrain.terminal import note

_INSTEAD = "To start from a file alone, give --checkpoint FILE and the run's options."


def with_options_of_run(
    options: Mapping[str, Any], tell: Callable[[str], None] = note
) -> tuple[dict[str, Any], Checkpoint | None]:
    """Return the options of a run that goes on with another one, and its checkpoint.

    They are those of that run, and the user's, which win. Without `resume` these are returned.
    `tell` is given what the user is told.
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
    run, checkpoint = find_run(named, given, option="--resume", instead=_INSTEAD)
    if checkpoint is None:
        checkpoint = run.checkpoint(named=f"--resume {named}")
    before = _options_of(run, given, tell)
    merged = overlay(before, given)
    return {**merged, "resume": str(run.path), "checkpoint": str(checkpoint)}, checkpoint


def check_resume(requested: RunOptions, registry: Registry) -> None:
    """Refuse to go on with a run where that cannot work."""
    if requested.resume is None:
        return
    name = requested.launcher
    if name is not None and registry.get(LauncherSpec, name).starts_nodes:
        raise UsageError(
            f"--resume: the launcher {name} starts the ranks on other machines, whose files are "
            "not looked at here. Type the run's command again with --checkpoint latest."
        )


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
