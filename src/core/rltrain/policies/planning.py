"""The plan of using a policy: the run that trained it, resolved for this machine."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.plan.files import check_checkpoint, in_a_child
from rltrain.plan.notes import tell
from rltrain.plan.resolve import Plan, make_plan
from rltrain.policies.finding import Trained
from rltrain.specs import LibrarySpec, SuiteSpec
from rltrain_files.dotted import leaves, overlaid

__all__ = ["plan_environments", "plan_policy", "with_drawing"]


def plan_environments(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve a run for its environments as they are played, whatever acts in them.

    Args:
        options: fields of `RunOptions`.
        environ: the environment variables.

    Raises:
        UsageError: something is not installed, not there, or does not fit.
    """
    plan = make_plan({**options, "writers": (), "random_lengths": False}, environ, trains=False)
    if plan.starts_nodes:
        raise UsageError(
            f"--launcher {plan.config.launcher}: starts runs on other machines, and only trains. "
            "Type the command in a job of its own."
        )
    return _played(plan)


def plan_policy(trained: Trained, environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve the run of a checkpoint, to load its policy.

    Args:
        trained: the checkpoint.
        environ: the environment variables.

    Raises:
        UsageError: something is not installed, not there, or does not fit.
    """
    plan = plan_environments(trained.options, environ)
    if trained.run is None and "agent_config" not in trained.options:
        _check_registered(trained.checkpoint, plan)
    config = dataclasses.replace(plan.config, checkpoint=str(trained.checkpoint))
    if plan.world is None or plan.world.is_root:
        library = plan.registry.get(LibrarySpec, config.library)
        in_child = in_a_child(config, plan.world, plan.registry)
        check_checkpoint(
            str(trained.checkpoint), config, library, plan.task, plan.registry, in_child
        )
    return dataclasses.replace(plan, config=config)


def _check_registered(checkpoint: Path, plan: Plan) -> None:
    """Tell that a file's options are those that its task is registered with.

    Raises:
        UsageError: it is registered with none.
    """
    config = plan.config
    tuned = plan.registry.get(SuiteSpec, config.suite).tuned
    if tuned is None or tuned(plan.task, config.library, config.algorithm) is None:
        raise UsageError(
            f"{checkpoint}: is not in a run folder of rltrain, so its options are not known. "
            "Give --agent-config."
        )
    tell([f"{checkpoint}: options of {config.library} are {plan.options_from}"], plan.world)


def _played(plan: Plan) -> Plan:
    """Return the plan with the suite's options for playing, and tell of those that are added."""
    playing, env = plan.registry.get(SuiteSpec, plan.config.suite).playing, plan.config.env
    added = [
        f"env.{key}={json.dumps(x)}" for key, x in leaves(playing) if key not in dict(leaves(env))
    ]
    if added:
        tell([f"{plan.config.task} as it is played: {' '.join(added)}"], plan.world)
    config = dataclasses.replace(plan.config, env=overlaid(playing, env))
    return dataclasses.replace(plan, config=config)


def with_drawing(plan: Plan) -> Plan:
    """Return the plan with environments that can be drawn.

    Raises:
        UsageError: the suite does not draw.
    """
    suite = plan.registry.get(SuiteSpec, plan.config.suite)
    if not suite.renders:
        raise UsageError(
            f"--video: the suite {suite.name} does not draw its environments. Leave it out."
        )
    return dataclasses.replace(plan, config=dataclasses.replace(plan.config, renders=True))
