"""Finding what was trained: RUN, as play, evaluate, export and report take it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.options import checks
from rltrain.plugins.registry import discover
from rltrain.specs import SuiteSpec
from rltrain.storage.checkpoints import read_state
from rltrain.storage.finding import all_checkpoints, checkpoint_of_run, newest_run
from rltrain.trust import take
from rltrain_files.dotted import flatten
from rltrain_files.reading import no_file, real
from rltrain_files.run_files import read_file
from rltrain_files.terminal import note

__all__ = ["Trained", "find_run", "find_trained", "iteration_of", "options_of_run"]

_OF_THE_POLICY = (
    *("library", "algorithm", "task", "suite", "framework", "agent_config"),
    *("env", "headless", "enable_cameras"),
)
"""The options of a run that its policy still has. Where it runs and what it writes are chosen anew.
"""

_OPTIONS_OF_OTHERS = ("params/agent.yaml", "../params/agent.yaml")
"""Where Isaac Lab and mjlab put a library's options, seen from the folder of its checkpoints."""


@dataclass(frozen=True)
class Trained:
    """A checkpoint, and the options of the run that wrote it."""

    checkpoint: Path
    options: Mapping[str, Any]
    """Fields of `RunOptions`."""
    run: Path | None
    """The run folder; None for a file that a library's own script wrote."""

    def all_checkpoints(self) -> list[Path]:
        """Return its run's checkpoints that are still there, in the order of saving."""
        if self.run is None:
            return [self.checkpoint]
        return all_checkpoints(self.run, note, bool(self.options.get("trust_run")))


def find_run(named: str, given: Mapping[str, Any]) -> Path:
    """Return the run folder that RUN names: the folder, or "latest".

    Args:
        named: RUN.
        given: the user's options; `log_root`, `library` and `task` say which runs "latest" means.

    Raises:
        UsageError: there is no such run.
    """
    if named == "latest":
        return newest_run(named, given)
    path = real(named)
    if not os.path.isdir(path):  # Path.is_dir raises if the name is too long.
        what = no_file(path, "is not there")
        raise UsageError(f"{named}: {what}. Name a run folder, a checkpoint, or latest.")
    missing = [name for name in ("config.yaml", "agent.yaml") if not (path / name).is_file()]
    if missing:
        raise UsageError(
            f"{named}: is not a run folder of rltrain: {missing[0]} is missing. Of a library's own "
            "script, name the checkpoint itself, with --library, --task and --agent-config."
        )
    return path


def find_trained(named: str, choice: str | None, given: Mapping[str, Any]) -> Trained:
    """Return the checkpoint that RUN and --checkpoint mean, and its run's options.

    Args:
        named: RUN: a run folder, a checkpoint, or "latest".
        choice: "latest", "best", an iteration, or a path; None for the latest.
        given: the user's options, which override the run's.

    Raises:
        UsageError: there is no such run or checkpoint, or its options are not known.
    """
    path = real(named)
    if named != "latest" and os.path.isfile(path):
        if choice is not None:
            raise UsageError(
                f"--checkpoint {choice}: RUN is a checkpoint already, {named}. Give one of the two."
            )
        run = path.parent.parent
        if path.parent.name == "checkpoints" and (run / "config.yaml").is_file():
            return Trained(path, _trusting(path, run, options_of_run(run, given)), run)
        return Trained(path, _options_of_others(path, given), None)
    run = find_run(named, given)
    if choice is not None and (os.sep in choice or os.path.isfile(choice)):
        if not os.path.isfile(choice):
            raise UsageError(f"--checkpoint {choice}: {no_file(choice)}.")
        checkpoint = real(choice)
    else:
        trusted = bool(given.get("trust_run"))
        checkpoint = checkpoint_of_run(run, choice or "latest", note, trusted)
    return Trained(checkpoint, _trusting(checkpoint, run, options_of_run(run, given)), run)


def iteration_of(checkpoint: Path, trusted: bool) -> int | None:
    """Return after which iteration a checkpoint was saved, if that is known.

    Args:
        checkpoint: the file.
        trusted: see `rltrain.storage.checkpoints.read_state`.
    """
    state: Mapping[str, Any] = read_state(checkpoint, trusted) or {}
    return state.get("iteration")


def options_of_run(run: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a run's policy has, with the user's own.

    Args:
        run: the run folder.
        given: the user's.

    Raises:
        UsageError: they contradict the run's.
    """
    own = {name: value for name, value in given.items() if value is not None}
    trusted = bool(own.get("trust_run"))
    saved = read_file(run, run / "config.yaml", "RUN", trusted)
    for name in ("library", "task", "framework"):
        if own.get(name, saved.get(name)) != saved.get(name):
            raise UsageError(
                f"--{name} {own[name]}: the run {run} has trained {saved.get(name)!a}. Leave it "
                "out."
            )
    # Options of other plugins, such as writers, belong to training.
    plugins = [str(saved.get(kind)) for kind in ("library", "suite")]
    of_policy = {
        name: value
        for name, value in saved.items()
        if name in _OF_THE_POLICY or (name in plugins and isinstance(value, Mapping))
    }
    registry = discover(checks.names("", own.get("no_plugins", ())))
    kept = take(run, of_policy, own, registry)
    kept.pop("log_root", None)
    kept["agent_config"] = str(run / "agent.yaml")  # The run folder may have been moved.
    env = dict(flatten(kept.pop("env", {})))
    # How it is played does not follow from how it was trained.
    if (suite := saved.get("suite")) in registry.names(SuiteSpec):
        for key, _ in flatten(registry.get(SuiteSpec, str(suite)).playing):
            env.pop(key, None)
    env |= dict(flatten(own.pop("env", None) or {}))
    return {**kept, **own, "env": env}


def _trusting(checkpoint: Path, run: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a policy: who trusts the run folder trusts its checkpoints."""
    if options.get("trust_run") and checkpoint.parent == run / "checkpoints":
        return {**options, "trust_checkpoint": True}
    return options


def _options_of_others(checkpoint: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's options for a checkpoint of a library's own script.

    Without the library's, they may be those that its task is registered with; the plan knows.
    """
    own = {name: value for name, value in given.items() if value is not None}
    lacking = [f"--{name}" for name in ("library", "task") if name not in own]
    if "agent_config" not in own:
        beside = [checkpoint.parent / name for name in _OPTIONS_OF_OTHERS]
        found = next((path for path in beside if path.is_file()), None)
        if found is not None:
            own["agent_config"] = str(found)
    if lacking:
        raise UsageError(
            f"{checkpoint}: is not in a run folder of rltrain, so its options are not known. "
            f"Give {', '.join(lacking)}."
        )
    return own
