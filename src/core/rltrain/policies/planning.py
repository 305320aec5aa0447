"""The plan of using a policy: the run that trained it, resolved for this machine."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain.files.dotted import leaves, overlaid
from rltrain.plan.draft import Plan
from rltrain.plan.files import check_checkpoint
from rltrain.plan.resolve import make_plan, tell
from rltrain.policies.finding import Trained
from rltrain.specs import SuiteSpec
from rltrain.storage.checkpoint import Checkpoint


def plan_environments(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve a run for its environments as they are played, whatever acts in them.

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

    Raises:
        UsageError: something is not installed, not there, or does not fit.
    """
    plan = plan_environments(trained.options, environ)
    config = dataclasses.replace(plan.config, checkpoint=str(trained.checkpoint))
    if plan.world is None or plan.world.is_root:
        check_checkpoint(trained.checkpoint, config, plan.registry, plan.world)
    if trained.run is None and "agent_config" not in trained.options:
        _check_registered(trained.checkpoint, plan)
    return dataclasses.replace(plan, config=config)


def _check_registered(checkpoint: Checkpoint, plan: Plan) -> None:
    """Tell that a file's options are those that its task is registered with."""
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
    suite, env = plan.registry.get(SuiteSpec, plan.config.suite), plan.config.env
    playing = suite.playing
    added = [
        f"env.{key}={json.dumps(x)}" for key, x in leaves(playing) if key not in dict(leaves(env))
    ]
    why = suite.cannot_play(plan.task) if added and suite.cannot_play is not None else None
    if why is not None:
        tell([why], plan.world)
        return plan
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
