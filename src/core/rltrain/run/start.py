"""Run a plan: in this process, or on ranks that a launcher starts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import EndedBySignal, PluginError, UsageError
from rltrain.nodes.telling import telling_others
from rltrain.options.run import RunOptions
from rltrain.plan.draft import Plan
from rltrain.plan.resolve import make_plan
from rltrain.plugins.installed import check_travel, without_given
from rltrain.ranks.folders import Notes
from rltrain.ranks.guarded import refuse_in_import
from rltrain.ranks.logs import lasting_output
from rltrain.ranks.signals import AGAIN
from rltrain.run.restarts import restarts_here, with_restarts
from rltrain.run.seeding import generators_kept
from rltrain.run.worker import carry_out, launcher_of, train
from rltrain.terminal import note
from rltrain.types import TrainResult

_ONE_AT_A_TIME = threading.Lock()


def run(options: Mapping[str, Any]) -> TrainResult:
    """Plan a run and start it, for a script; see `rltrain.train`."""
    refuse_in_import(bool(options.get("distributed")))
    with (
        _alone(),
        without_given(options) as chosen,
        lasting_output(),
        telling_others(lambda: chosen),
    ):
        try:
            result = start(make_plan(chosen))
        except EndedBySignal as error:
            note(str(error))
            raise SystemExit(error.exit_code) from error
    if result.exit_code == 128 + signal.SIGINT:  # A signal ends the script, too.
        raise KeyboardInterrupt
    if result.exit_code == AGAIN:
        raise SystemExit(AGAIN)
    return result


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise UsageError("A run trains in this process already: use another process for each run.")
    try:
        yield
    finally:
        _ONE_AT_A_TIME.release()


def start(plan: Plan) -> TrainResult:
    """Start a plan and return what rank 0 returned."""
    result = _start(plan, plan.config)
    if not isinstance(result, TrainResult):
        raise PluginError(
            f"The launcher {plan.config.launcher!r} returned {type(result).__name__}: its launch() "
            "must return what rank 0 returned."
        )
    return result


def _start(plan: Plan, config: RunConfig) -> TrainResult:
    if config.launcher is not None:
        check_travel()
    if plan.starts_nodes:
        of_node = NodeWork(_of_every_node(plan), tuple(sys.argv), os.getcwd(), tuple(sys.path))
        return launcher_of(config, plan.registry).launch(config, of_node)
    if plan.world is None:
        if restarts_here(config):
            total = plan.iteration.iterations if plan.iteration else config.max_iterations

            def attempt(config: RunConfig, notes: Notes) -> TrainResult:
                once = dataclasses.replace(config, max_restarts=0)
                of_rank = functools.partial(train, notes=notes, max_restarts=config.max_restarts)
                return carry_out(of_rank, once, None, plan.registry)

            return with_restarts(config, total, attempt)
        return carry_out(train, config, None, plan.registry)
    with generators_kept():
        of_rank = functools.partial(train, found=plan.checkpoint)
        return carry_out(of_rank, config, plan.world, plan.registry)


@dataclass(frozen=True)
class NodeWork:
    """Starts one node's part of a run; see `rltrain.types.Launcher.launch`."""

    options: Mapping[str, Any]
    """What the user asked for."""
    command: tuple[str, ...]
    """The user's command line, for the manifest."""
    folder: str
    """Where it was typed: relative paths start there."""
    path: tuple[str, ...]
    """Where it finds modules: what a script gives may be next to it."""

    def __call__(self, of_node: Mapping[str, Any] = MappingProxyType({})) -> TrainResult:
        """Plan the node's part, with the options that are its own, and start it."""
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise UsageError(
                f"{self.folder} on {socket.gethostname()}: {error.strerror}. The command was typed "
                "in that folder: start it in one that all nodes have."
            ) from error
        sys.argv = list(self.command)
        sys.path += [each for each in self.path if each not in sys.path]
        options = {**self.options, "launcher": None, "distributed": True, **of_node}
        with telling_others(lambda: options):
            return start(make_plan(options))


def _of_every_node(plan: Plan) -> dict[str, Any]:
    """Return the user's options, without those of the launcher that starts the nodes."""
    names = {field.name for field in dataclasses.fields(RunOptions)}
    options = {name: value for name, value in plan.options.items() if name in names}
    config = plan.config
    plugins = {name: given for name, given in config.plugins.items() if name != config.launcher}
    return {**options, "plugins": plugins, "checkpoint": config.checkpoint}
