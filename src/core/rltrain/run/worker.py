"""The work of ranks: of those that a launcher starts for it, or of this process, which is one.

Ranks that were started import this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from rltrain.config import Placement, RunConfig
from rltrain.files.secrets import hide_in_text
from rltrain.plan.choices import find_modules_here
from rltrain.plugins.manager import RunPlugins, arrays_by_framework, chosen_specs
from rltrain.plugins.registry import Registry, discover
from rltrain.ranks.devices import restrict_gpus, with_device
from rltrain.ranks.folders import Notes, private_folder, use_folder
from rltrain.ranks.guarded import end_in_time, end_with_parent, free_start_method
from rltrain.ranks.hangs import watching
from rltrain.ranks.logs import RankLog
from rltrain.ranks.machine import bind_cores, keep_freed_memory
from rltrain.ranks.pulse import pulse_file
from rltrain.ranks.reports import log_path, make_report, write_report
from rltrain.ranks.signals import OF_SCHEDULERS, ending_when_asked
from rltrain.ranks.stacks import answering, stack_file
from rltrain.ranks.world import export_rank_env, rank_from_env
from rltrain.run.session import RankSession
from rltrain.specs import LauncherSpec, LibrarySpec, WriterSpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.run_folder import RunFolder
from rltrain.types import Launcher, TrainResult, World

T = TypeVar("T")
ConfigT = TypeVar("ConfigT", bound=Placement)

CULPRIT_GRACE = 3.0
"""Seconds a rank that lost a peer waits before it ends, so that the peer is reported first."""


def make_session(
    config: RunConfig,
    world: World,
    registry: Registry,
    more: Iterable[tuple[str, object]] = (),
) -> RankSession:
    """Make this rank's session with exactly the plugins that the config names.

    `more` are names and objects with run hooks, which are registered last and so called first.
    """
    if ":" in config.task:
        find_modules_here()
    plugins = RunPlugins()
    for spec in chosen_specs(config, registry):
        if world.is_root or not isinstance(spec, WriterSpec):
            plugins.choose(spec, config.plugins)
    for name, plugin in more:
        plugins.register(plugin, name)
    library = registry.get(LibrarySpec, config.library)
    iteration = library.iteration(config) if library.iteration else None
    arrays = arrays_by_framework(registry, config.backend)
    return RankSession(config, world, plugins, iteration, arrays, library.schema.restored)


def train(
    config: RunConfig,
    world: World,
    log: RankLog,
    notes: Notes | None = None,
    max_restarts: int = 0,
    found: Checkpoint | None = None,
) -> TrainResult:
    """Train on this rank: the work of a run. Its output goes to its log.

    `notes` are those of the process that starts ranks again, up to `max_restarts` times; `found` is
    the run's checkpoint, if this process has found it.
    """
    config = dataclasses.replace(config, max_restarts=max_restarts or config.max_restarts)
    reports = log.path.parent

    def begin(folder: RunFolder) -> None:
        log.move(folder.log_file(world.rank))
        if log.has_launcher and config.device_kind == "cpu":
            bind_cores(world)
        if not log.has_launcher:
            gather = session.group.gather_objects
            watched.enter_context(watching(world.rank, reports, gather, config.hang_timeout))
        if notes is not None:
            notes.set_run_dir(folder.path)

    keep_freed_memory()
    pulse = pulse_file(reports, world.rank)
    with contextlib.ExitStack() as watched:
        if is_shown(config, world):
            watched.enter_context(log.echoed(world.rank))
        watched.enter_context(answering(stack_file(pulse)))
        session = make_session(config, world, discover(config.no_plugins))
        session.pulse.share(pulse)
        session.recorder.requests.read_from(reports, log.has_launcher)
        try:
            return session.run(begin, log.rotate, found)
        except BaseException:
            # Into the rank's log.
            print(hide_in_text(traceback.format_exc(), vars(config)), file=sys.stderr, end="")
            raise


def is_shown(config: RunConfig, world: World) -> bool:
    """Return whether the console shows this rank's own output."""
    return config.show_ranks == "all" or world.slot in (config.show_ranks or ())


def carry_out(
    work: Callable[[ConfigT, World, RankLog], T],
    placement: ConfigT,
    world: World | None,
    registry: Registry,
) -> T:
    """Do work as the rank that this process is, if it has a place; else on ranks that are started.

    The work can be pickled.
    """
    if world is not None:
        return run_here(placement, world, work)
    launched: Any = functools.partial(_run_and_end, run=work)
    launcher: Any = launcher_of(placement, registry)
    found: T = launcher.launch(placement, launched)
    return found


def _run_and_end(
    config: ConfigT, report_dir: str, run: Callable[[ConfigT, World, RankLog], T]
) -> T | None:
    """Run a rank in a process of its own; see `run_launched`."""
    result = run_launched(config, report_dir, run)
    end_in_time(0)
    return result


def launcher_of(placement: Placement, registry: Registry) -> Launcher:
    """Return the launcher that was chosen."""
    name = placement.launcher
    assert name is not None, "a run whose ranks have not been started has a launcher"
    launcher: Launcher = RunPlugins().choose(registry.get(LauncherSpec, name), placement.plugins)
    return launcher


def run_here(config: ConfigT, world: World, run: Callable[[ConfigT, World, RankLog], T]) -> T:
    """Run this process' rank: the only one, or one that a launcher such as torchrun started."""
    if config.distributed:
        restrict_gpus(config.gpu_ids)
        export_rank_env(world, config.master_addr, config.master_port, os.environ)
    with (
        private_folder() as folder,
        ending_when_asked(folder, world),
        RankLog(log_path(folder, world.rank)) as log,
    ):
        try:
            return run(config, world, log)
        except Exception as error:
            lost = make_report(world.rank, error).kind == "peer_lost"
            if world.world_size > 1:  # Others print theirs to the same terminal.
                whose = "noticed that another one had ended" if lost else "failed"
                error.add_note(f"This is how rank {world.rank} {whose}.")
            if lost:
                time.sleep(CULPRIT_GRACE)
            raise


def run_launched(
    config: ConfigT, report_dir: str, run: Callable[[ConfigT, World, RankLog], T]
) -> T | None:
    """Run a rank that rltrain's launcher started.

    Rank 0 returns its result, the first rank of another node one with the exit status only. After a
    failure it writes a report and ends at once, as exit handlers could wait for peers forever.
    """
    if multiprocessing.parent_process() is not None:
        end_with_parent()  # That is the launcher, or has been forked by it and ends with it.
    free_start_method()
    # What a terminal or timeout(1) sends to the launcher's process group is for the launcher: it
    # asks the ranks to end after their iteration.
    with contextlib.suppress(PermissionError):  # mpiexec gives each rank a session of its own.
        os.setpgid(0, 0)
    # Siblings of a failed rank are ended by SIGTERM. A rank that is blocked in a collective
    # would never run a Python handler, so restore the default action.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in OF_SCHEDULERS:
        signal.signal(number, signal.SIG_IGN)
    folder, rank, code = Path(report_dir), int(os.environ["RANK"]), 1
    use_folder(folder)
    restrict_gpus(config.gpu_ids)
    try:
        world = rank_from_env(os.environ)
        assert world is not None, "the launcher sets RANK, LOCAL_RANK and WORLD_SIZE"
        with RankLog(log_path(folder, world.rank), has_launcher=True) as log:
            result = run(config, with_device(world, config.device_kind, config.gpu_ids), log)
        Notes(folder).set_done(rank)
        if world.is_root:
            return result
        return _of_other_node(result) if world.slot == 0 else None
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException as error:
        report = make_report(rank, error, vars(config))
        with contextlib.suppress(OSError):  # A full disk: the rank's log has the error, too.
            write_report(folder, report)
        code = report.exit_code
        if report.kind == "peer_lost":
            time.sleep(CULPRIT_GRACE)
    os._exit(code)


def _of_other_node(result: T) -> T | None:
    """Return what a node without rank 0 needs of a result."""
    if not isinstance(result, TrainResult) or not result.exit_code:
        return None
    return dataclasses.replace(result, run_dir="", checkpoint=None)
