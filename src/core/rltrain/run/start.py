"""Run a plan: in this process, or on ranks that a launcher starts."""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.errors import EndedBySignal, UsageError
from rltrain.options.aliases import is_section
from rltrain.options.run import RunOptions
from rltrain.options.user_config import saved_variables, unset, user_config_file
from rltrain.place.telling import telling_others
from rltrain.plan.resolve import Plan, make_plan
from rltrain.plugins.options import make_plugin
from rltrain.plugins.registry import Registry
from rltrain.plugins.uninstalled import check_travel, without_given
from rltrain.run.launched import train
from rltrain.run.restarts import restarts_here, with_restarts
from rltrain.specs import LauncherSpec
from rltrain.types import Launcher, TrainResult, World
from rltrain_files.terminal import note
from rltrain_ranks.devices import make_room
from rltrain_ranks.ending import heard_requests, pass_on
from rltrain_ranks.logs.stream import lasting_output
from rltrain_ranks.machine.network import wait_for_host
from rltrain_ranks.notes import Notes
from rltrain_ranks.started import refuse_in_import

__all__ = ["NodeWork", "apply_saved_variables", "launcher_of", "run", "start"]


def run(options: Mapping[str, Any]) -> TrainResult:
    """Plan a run and start it, for a script; see `rltrain.train`."""
    refuse_in_import(bool(options.get("distributed")))
    with (
        without_given(options) as chosen,
        lasting_output(),
        heard_requests() as heard,
        telling_others(lambda: chosen),
    ):
        try:
            result = start(make_plan(chosen))
        except EndedBySignal as error:
            note(str(error))
            raise SystemExit(error.exit_code) from error
    pass_on(heard, result.exit_code)
    return result


def start(plan: Plan) -> TrainResult:
    """Start a plan and return what rank 0 returned.

    Raises:
        UsageError: a rank refused options that only a made environment can check.
        RankFailed: a rank that the launcher started failed. Without a launcher, the error itself is
            raised.
    """
    config = plan.config
    if config.launcher is not None:
        check_travel()
    if plan.starts_nodes:
        of_node = NodeWork(_of_every_node(plan), tuple(sys.argv), os.getcwd())
        return launcher_of(config, plan.registry).launch(config, of_node)
    apply_saved_variables(config, plan.world)
    if (plan.world.num_nodes if plan.world is not None else config.nnodes) > 1:
        wait_for_host(config.meeting_point[0], config.join_timeout)
    if plan.world is not None:
        from rltrain.run.worker import (
            run_here,
            run_rank,
        )  # Where ranks are started, none is needed.

        return run_here(config, plan.world, run_rank)
    launcher = launcher_of(config, plan.registry)
    make_room()
    if restarts_here(config):
        total = plan.iteration.iterations if plan.iteration else config.max_iterations
        return with_restarts(config, total, functools.partial(_launch, launcher))
    return launcher.launch(config, train)


def _launch(launcher: Launcher, config: RunConfig, notes: Notes) -> TrainResult:
    """Start the ranks of a run that may start them again."""
    once = dataclasses.replace(config, max_restarts=0)
    of_rank = functools.partial(train, notes=(notes,), max_restarts=config.max_restarts)
    # Launchers ask for the work's name, as functions have one.
    return launcher.launch(once, functools.update_wrapper(of_rank, train))


@dataclass(frozen=True)
class NodeWork:
    """Starts one node's part of a run; see `rltrain.types.Launcher.launch`."""

    options: Mapping[str, Any]
    """What the user asked for."""
    command: tuple[str, ...]
    """The user's command line, for the manifest."""
    folder: str
    """Where it was typed: relative paths start there."""

    def __call__(self, of_node: Mapping[str, Any] = MappingProxyType({})) -> TrainResult:
        """Plan the node's part, with the options that are its own, and start it.

        Raises:
            UsageError: the folder is not there, or the plan is refused.
            RankFailed: a rank failed.
        """
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise UsageError(
                f"{self.folder} on {socket.gethostname()}: {error.strerror}. The command was typed "
                "in that folder: start it in one that all nodes have."
            ) from error
        sys.argv = list(self.command)
        options = {**self.options, "launcher": None, "distributed": True, **of_node}
        with telling_others(lambda: options):
            return start(make_plan(options))


def _of_every_node(plan: Plan) -> dict[str, Any]:
    """Return the user's options, without those of the launcher that starts the nodes."""
    names = {field.name for field in dataclasses.fields(RunOptions)}
    options = {
        name: value
        for name, value in plan.options.items()
        if name in names and not is_section(name, value)
    }
    config = plan.config
    plugins = {name: given for name, given in config.plugins.items() if name != config.launcher}
    return {**options, "plugins": plugins, "checkpoint": config.checkpoint}


def launcher_of(placement: Placement, registry: Registry) -> Launcher:
    """Return the launcher that was chosen."""
    name = placement.launcher
    assert name is not None, "a run whose ranks have not been started has a launcher"
    spec = registry.get(LauncherSpec, name)
    launcher: Launcher = make_plugin(spec, placement.plugins)
    return launcher


def apply_saved_variables(placement: Placement, world: World | None) -> None:
    """Set and print the variables that `rltrain doctor --fix` saved for the backend."""
    if not placement.distributed:
        return
    variables = unset(saved_variables(placement.backend), os.environ)
    os.environ.update(variables)
    if variables and (world is None or world.is_root):
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        print(f"with {settings}, saved for {placement.backend} in {user_config_file()}", flush=True)
