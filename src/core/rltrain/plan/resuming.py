"""Going on with a run, by its own options, from one of its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.options import checks
from rltrain.options.aliases import give_way
from rltrain.options.checks import NodeRange, flag
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import LauncherSpec
from rltrain.storage.finding import newest_of_run, newest_run
from rltrain.storage.manifest import read_manifest
from rltrain.trust import take
from rltrain_files.dotted import flatten
from rltrain_files.reading import no_file, real
from rltrain_files.run_files import read_file
from rltrain_files.terminal import note

__all__ = ["check_resume", "with_options_of_run"]

_OF_THE_START = ("checkpoint", "auto_resume", "cluster")
"""Options that a run does not inherit: where the one before began, and what had started it."""

_EITHER = {"num_envs": "total_envs", "total_envs": "num_envs", "num_gpus": "nproc_per_node"}
"""Options that replace another one of the run."""


def with_options_of_run(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that goes on with another one: those of that run, and these.

    Args:
        options: those that the user gave, which win. Without `resume` they are returned.

    Raises:
        UsageError: there is no such run, it has no checkpoint, or an option contradicts it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "resume" not in given:
        return dict(options)
    for name in ("checkpoint", "auto_resume"):
        if given.get(name):
            raise UsageError(
                f"--resume and {flag(name)} contradict each other: both say where to start. Give "
                "one of the two."
            )
    named = str(given["resume"])
    run, checkpoint = _find(named, given)
    before = _options_of(run, given)
    for name, other in _EITHER.items():
        if name in given:
            before.pop(other, None)
    nested = {
        name: {**dict(flatten(before.pop(name, {}))), **dict(flatten(given.pop(name, {})))}
        for name in ("env", "agent")
    }
    plugins = dict(flatten(given.pop("plugins", {})))
    merged = {**give_way(before, {**given, **plugins}), **given, **plugins, **nested}
    if given.get("trust_run"):
        merged["trust_checkpoint"] = True
    return {**merged, "resume": str(run), "checkpoint": str(checkpoint)}


def check_resume(requested: RunOptions, registry: Registry) -> None:
    """Refuse to go on with a run where that cannot work.

    Raises:
        UsageError: it cannot.
    """
    if requested.resume is None:
        return
    if isinstance(requested.nnodes, NodeRange):
        raise UsageError(
            f"--resume and --nnodes {requested.nnodes}: nodes that come and go find their newest "
            "checkpoint by --rdzv-id. Leave --resume out, and type the run's command again."
        )
    name = requested.launcher
    if name is not None and registry.get(LauncherSpec, name).starts_nodes:
        raise UsageError(
            f"--resume: the launcher {name} starts the ranks on other machines, whose files are "
            "not looked at here. Type the run's command again with --checkpoint latest."
        )


def _find(named: str, given: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the run folder and the checkpoint that are meant."""
    path = real(named)
    checkpoint = None
    if named == "latest":
        run = newest_run("--resume latest", given)
    elif os.path.isfile(path):  # Path.is_file raises if the name is too long.
        run, checkpoint = path.parent.parent, path
    elif os.path.isdir(path):
        run = path
    else:
        what = no_file(path, "is not there")
        raise UsageError(
            f"--resume {named}: {what}. Name a run folder, a checkpoint in one, or latest."
        )
    missing = [name for name in ("config.yaml", "agent.yaml") if not (run / name).is_file()]
    if missing or (checkpoint is not None and checkpoint.parent.name != "checkpoints"):
        why = f"is not of a run folder: {run / missing[0]} is missing" if missing else ""
        raise UsageError(
            f"--resume {named}: {why or 'is not a checkpoint'}. To start from a file alone, give "
            "--checkpoint FILE and the run's options."
        )
    if checkpoint is None:
        found = newest_of_run(run, note, bool(given.get("trust_run")))
        if found is None:
            raise UsageError(
                f"--resume {named}: this run has saved no checkpoint. To repeat it: --config "
                f"{run / 'config.yaml'}."
            )
        checkpoint = found[0]
    return run, checkpoint


def _options_of(run: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that are taken, plugins' by dotted key."""
    trusted = bool(given.get("trust_run"))
    saved = read_file(run, run / "config.yaml", "--resume", trusted)
    manifest = read_manifest(run) or {"config": {}}
    if manifest["config"].get("min_nodes") is not None:
        raise UsageError(
            f"--resume {run}: the nodes of this run come and go, and find its newest checkpoint by "
            "--rdzv-id. Type its command again."
        )
    for name in _OF_THE_START:
        saved.pop(name, None)
    found = take(run, saved, given, discover(checks.names("", given.get("no_plugins", ()))))
    for name in ("log_root", "rank_log_dir"):
        if found.get(name):
            # Relative to the folder in which the run was started.
            found[name] = str(Path(manifest.get("folder", ""), Path(found[name]).expanduser()))
    # The run folder may have been moved.
    return {**found, "agent_config": str(run / "agent.yaml")}
