"""What was trained: found by RUN, as play, evaluate, export and report take it, and planned."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.config import checks
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, leaves, overlaid
from rltrain.files.reading import real
from rltrain.options.run import RunOptions
from rltrain.plan.draft import Plan
from rltrain.plan.files import check_checkpoint
from rltrain.plan.resolve import make_plan, tell
from rltrain.plugins.registry import discover
from rltrain.specs import SuiteSpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.run import Run, find_run
from rltrain.storage.run_options import read_file, shortened, take
from rltrain.terminal import note

_OPTIONS_OF_OTHERS = ("params/agent.yaml", "../params/agent.yaml")
"""Where Isaac Lab and mjlab put a library's options, seen from the folder of its checkpoints."""

_INSTEAD = (
    "Of a library's own script, name the checkpoint itself, with --library, --task and "
    "--agent-config."
)


@dataclass(frozen=True)
class Trained:
    """A checkpoint, and the options of the run that wrote it."""

    checkpoint: Checkpoint
    options: Mapping[str, Any]
    """Fields of `RunOptions`."""
    run: Path | None
    """The run folder; None for a file that a library's own script wrote."""

    def all_checkpoints(self) -> list[Checkpoint]:
        """Return its run's checkpoints that are still there, in the order of saving."""
        if self.run is None:
            return [self.checkpoint]
        return Run(self.run, trusted=self.checkpoint.trusted).checkpoints()


def find_trained(named: str, choice: str | None, given: Mapping[str, Any]) -> Trained:
    """Return the checkpoint that RUN and --checkpoint mean, and its run's options.

    Args:
        named: RUN: a run folder, a checkpoint, or "latest".
        choice: "latest", "best", an iteration, or a path; None for the latest.
        given: the user's options, which override the run's.
    """
    path, trusted = real(named), bool(given.get("trust"))
    if named != "latest" and os.path.isfile(path):
        if choice is not None:
            raise UsageError(
                f"--checkpoint {choice}: RUN is a checkpoint already, {named}. Give one of the two."
            )
        config = path.parent.parent / "config.yaml"
        if path.parent.name != "checkpoints" or not config.is_file():
            return Trained(Checkpoint(path, trusted), _options_of_others(path, given), None)
    run, checkpoint = find_run(named, given, instead=_INSTEAD)
    if choice is not None and (os.sep in choice or os.path.isfile(choice)):
        checkpoint = Checkpoint(real(choice), trusted)
    elif checkpoint is None:
        checkpoint = run.checkpoint(choice or "latest")
    return Trained(checkpoint, options_of_run(run.path, given), run.path)


def options_of_run(run: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a run's policy has, with the user's own."""
    own = {name: value for name, value in given.items() if value is not None}
    saved = read_file(run, run / "config.yaml", "RUN", bool(own.get("trust")))
    for name in ("library", "framework"):
        if own.get(name, saved.get(name)) != saved.get(name):
            raise UsageError(
                f"--{name} {own[name]}: the run {run} has trained {saved.get(name)!a}. Leave it "
                "out."
            )
    if own.get("task", saved.get("task")) != saved.get("task"):
        # Such as a variant for playing. Whether the policy fits it, its library says.
        trained = shortened(saved.get("task"))
        note(f"{own['task']}, with the policy and the env. options of {run}, trained on {trained}")
    # Options of other plugins, such as writers, belong to training.
    plugins = [str(saved.get(kind)) for kind in ("library", "suite")]
    of_run = scoped(RunOptions, Scope.KEPT)
    of_policy = {
        name: value
        for name, value in saved.items()
        if name in of_run or (name in plugins and isinstance(value, Mapping))
    }
    registry = discover(checks.names("", own.get("no_plugins", ())))
    kept = take(run, of_policy, own, registry)
    kept.pop("log_root", None)
    kept["agent_config"] = str(run / "agent.yaml")  # The run folder may have been moved.
    env = dict(flatten(kept.pop("env", {})))
    # How it is played does not follow from how it was trained.
    if (suite := saved.get("suite")) in registry.names(SuiteSpec):
        for key, _ in flatten(registry.get(SuiteSpec, str(suite)).play_overrides):
            env.pop(key, None)
    env |= dict(flatten(own.pop("env", None) or {}))
    return {**kept, **own, "env": env}


def _options_of_others(checkpoint: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's options for a checkpoint of a library's own script.

    Without the library's, they may be those that its task is registered with; the plan knows.
    """
    own = {name: value for name, value in given.items() if value is not None}
    if lacking := [f"--{name}" for name in ("library", "task") if name not in own]:
        raise UsageError(
            f"{checkpoint}: is not in a run folder of rltrain, so its options are not known. "
            f"Give {', '.join(lacking)}."
        )
    for path in (checkpoint.parent / name for name in _OPTIONS_OF_OTHERS):
        if path.is_file():
            own.setdefault("agent_config", str(path))
    return own


def plan_environments(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve a run for its environments as they are played, whatever acts in them."""
    plan = make_plan({**options, "writers": (), "random_lengths": False}, environ, trains=False)
    if plan.starts_nodes:
        raise UsageError(
            f"--launcher {plan.config.launcher}: starts runs on other machines, and only trains. "
            "Type the command in a job of its own."
        )
    suite, env = plan.registry.get(SuiteSpec, plan.config.suite), plan.config.env
    given = dict(leaves(env))
    added = [
        f"env.{key}={json.dumps(x)}" for key, x in leaves(suite.play_overrides) if key not in given
    ]
    why = suite.cannot_play(plan.task) if added and suite.cannot_play is not None else None
    if why is not None:
        tell([why], plan.world)
        return plan
    if added:
        tell([f"{plan.config.task} as it is played: {' '.join(added)}"], plan.world)
    config = dataclasses.replace(plan.config, env=overlaid(suite.play_overrides, env))
    return dataclasses.replace(plan, config=config)


def plan_policy(trained: Trained, environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve the run of a checkpoint, to load its policy."""
    plan, checkpoint = plan_environments(trained.options, environ), trained.checkpoint
    config = dataclasses.replace(plan.config, checkpoint=str(checkpoint))
    if plan.world is None or plan.world.is_root:
        check_checkpoint(checkpoint, config, plan.registry, plan.world)
    if trained.run is None and "agent_config" not in trained.options:
        tuned = plan.registry.get(SuiteSpec, config.suite).tuned
        if tuned is None or tuned(plan.task, config.library, config.algorithm) is None:
            raise UsageError(
                f"{checkpoint}: is not in a run folder of rltrain, so its options are not known. "
                "Give --agent-config."
            )
        tell([f"{checkpoint}: options of {config.library} are {plan.options_from}"], plan.world)
    return dataclasses.replace(plan, config=config)


def with_drawing(plan: Plan) -> Plan:
    """Return the plan with environments that can be rendered."""
    suite = plan.registry.get(SuiteSpec, plan.config.suite)
    if not suite.renders:
        raise UsageError(
            f"--video: the suite {suite.name} does not render its environments. Leave it out."
        )
    return dataclasses.replace(plan, config=dataclasses.replace(plan.config, renders=True))
