"""Run a plan: here, or on ranks that a launcher starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.errors import PluginError
from rltrain.plan import Plan, make_plan
from rltrain.plugins import load_object
from rltrain.specs import LauncherSpec
from rltrain.types import Launcher, TrainResult
from rltrain.worker import run_here, work

__all__ = ["run", "start"]


def run(options: Mapping[str, Any]) -> TrainResult:
    """Plan a run and start it; see `rltrain.train`."""
    return start(make_plan(options))


def start(plan: Plan) -> TrainResult:
    """Start a plan and return what rank 0 returned.

    Raises:
        UsageError: a rank refused what only a made environment could tell.
        RankFailed: a rank that was started failed. Without ranks, the error itself is raised.
    """
    config = plan.config
    if plan.world is not None:
        return run_here(config, plan.world)
    spec = plan.registry.get(LauncherSpec, config.launcher or "")
    launcher: Launcher = load_object(spec.factory)()
    if not callable(getattr(launcher, "launch", None)):
        raise PluginError(f"The launcher {spec.name!r} ({spec.factory}) has no method `launch`.")
    return launcher.launch(config, work)
