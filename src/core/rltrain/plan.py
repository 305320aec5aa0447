"""The plan of a run: every choice resolved and every refusal made, before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.agent_options import flatten, get_dotted, resolve_agent, resolve_env, set_dotted
from rltrain.config import RunConfig, flag
from rltrain.errors import UsageError, suggest
from rltrain.plugins import Registry, discover
from rltrain.preflight import preflight
from rltrain.ranks import count_ranks, joined_world, rank_device, select_gpus
from rltrain.run_folder import check_log_root
from rltrain.specs import (
    BackendSpec,
    GradientSyncSpec,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    SuiteSpec,
    WriterSpec,
)
from rltrain.types import TaskInfo, World

__all__ = ["Plan", "make_plan"]

DEFAULT_WRITERS = ("console", "tensorboard")


@dataclass(frozen=True)
class Plan:
    """A run that can start."""

    config: RunConfig
    """Every choice made; `agent` holds all of the library's options."""
    task: TaskInfo
    world: World | None
    """This process' place: of the one process, or as joined; None if ranks are to be started."""


def make_plan(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve a run.

    Args:
        options: fields of `RunConfig`.
        environ: the environment variables.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    config = RunConfig.from_options(options)
    registry = discover(config.no_plugins, environ)
    given = {name for name, value in options.items() if value is not None}
    library = _library(config, registry)
    suite, task = _suite(config, registry)
    config = dataclasses.replace(config, suite=suite.name)
    config, world = _ranks(config, registry, environ)
    config = _agent(config, given, library, task, registry)
    config = _environments(config, task, world)
    config = _plugins(config, registry)
    _check_refusals(config, library, task)
    _check_files(config, library)
    return Plan(config, task, world)


def _library(config: RunConfig, registry: Registry) -> LibrarySpec:
    library = registry.get(LibrarySpec, config.library)
    if config.framework not in library.frameworks:
        raise UsageError(
            f"--framework {config.framework}: {library.name} runs on "
            f"{' and '.join(library.frameworks)} only."
            f"{suggest(config.framework, library.frameworks)}"
        )
    if config.algorithm not in library.algorithms:
        raise UsageError(
            f"--algorithm {config.algorithm}: {library.name} is offered with "
            f"{', '.join(library.algorithms)}.{suggest(config.algorithm, library.algorithms)}"
        )
    return library


def _suite(config: RunConfig, registry: Registry) -> tuple[SuiteSpec, TaskInfo]:
    """Find the suite that knows the task; two that do are told apart by the user, not by order."""
    if config.suite is not None:
        suites = [registry.get(SuiteSpec, config.suite)]
    else:
        suites = registry.all(SuiteSpec)
        if not suites:
            registry.get(SuiteSpec, "gymnasium")  # Says why there is none.
    found = [(suite, task) for suite in suites if (task := suite.describe(config.task))]
    if not found:
        known = [name for suite in suites for name in suite.tasks()]
        raise UsageError(
            f"Unknown task {config.task!r}.{suggest(config.task, known)} Suites asked: "
            f"{', '.join(suite.name for suite in suites)}."
        )
    if len(found) > 1:
        names = ", ".join(suite.name for suite, _ in found)
        raise UsageError(
            f"Several suites have a task {config.task!r}: say which by --suite: {names}."
        )
    return found[0]


def _ranks(
    config: RunConfig, registry: Registry, environ: Mapping[str, str]
) -> tuple[RunConfig, World | None]:
    """Choose backend and devices; count the ranks, or find this one's place among started ones."""
    joined = joined_world(environ)
    if joined and joined.world_size > 1 and not config.distributed:
        raise UsageError(
            f"A launcher started {joined.world_size} ranks (WORLD_SIZE is set), but --distributed "
            "was not given: each would train alone. Add --distributed, or start one process."
        )
    several = isinstance(config.gpu_ids, tuple) and len(config.gpu_ids) > 1
    if several and not config.distributed:  # As with mjlab, several GPUs are several ranks.
        config = dataclasses.replace(config, distributed=True)
    for name in ("nproc_per_node", "num_gpus", "nnodes"):
        if not config.distributed and getattr(config, name) not in (None, 1):
            raise UsageError(f"{flag(name)} {getattr(config, name)}: add --distributed.")
    backend, visible = _backend(config, registry)
    for name in ("gpu_ids", "num_gpus"):
        if backend.device == "cpu" and getattr(config, name) not in (None, "none"):
            raise UsageError(
                f"{flag(name)}: the run is on the CPU, by backend {backend.name}. Leave it out, "
                "or for GPUs leave out --backend and --device."
            )
    gpus = select_gpus(config, visible) if backend.device != "cpu" else ()
    if config.gpu_ids == "all" and len(gpus) > 1:
        config = dataclasses.replace(config, distributed=True)
    config = dataclasses.replace(config, backend=backend.name)
    if config.distributed and ":" in (config.device or ""):
        raise UsageError(
            f"--device {config.device}: each rank of a distributed run has a device of its own. "
            "Choose them by --gpu-ids."
        )
    if not config.distributed:
        return config, World(device=_one_device(config, backend, gpus, visible))
    if backend.device != "cpu" and len(gpus) < visible:
        config = dataclasses.replace(config, gpu_ids=gpus)
    if joined:
        device = rank_device(backend.device, joined.local_rank, len(gpus))
        return config, dataclasses.replace(joined, device=device)
    ranks = count_ranks(config, backend.device, gpus)
    if config.node_rank >= config.nnodes:
        raise UsageError(f"--node-rank {config.node_rank}: must be below --nnodes {config.nnodes}.")
    return dataclasses.replace(config, nproc_per_node=ranks), None


def _backend(config: RunConfig, registry: Registry) -> tuple[BackendSpec, int]:
    """Return the backend and how many of its devices are visible (0 for the CPU)."""
    kind = "cpu" if config.gpu_ids == "none" else (config.device or "").partition(":")[0] or None
    if config.backend is not None:
        candidates = [registry.get(BackendSpec, config.backend)]
    else:
        candidates = registry.all(BackendSpec)
        if not candidates:
            registry.get(BackendSpec, "gloo")  # Says why there is none.
    of_framework = [spec for spec in candidates if spec.framework == config.framework]
    fitting = [spec for spec in of_framework if kind in (None, spec.device)]
    if not fitting:
        wanted = f"{config.framework}" + (f" on {kind}" if kind else "")
        have = "; ".join(f"{spec.name}: {spec.supports()}" for spec in registry.all(BackendSpec))
        asked = f"--backend {config.backend}" if config.backend else "No backend"
        raise UsageError(f"{asked}: does not run {wanted}. Installed: {have}.")
    # An accelerator is used where there is one; the CPU otherwise.
    fitting.sort(key=lambda spec: spec.device == "cpu")
    wants_gpu = config.num_gpus is not None or isinstance(config.gpu_ids, tuple)
    starts = config.distributed or config.gpu_ids == "all"
    for spec in fitting:
        visible = preflight(spec.count_devices, in_child=starts) if spec.count_devices else 0
        if spec.device == "cpu" or visible or (wants_gpu or config.gpu_ids == "all"):
            return spec, visible
    what = f"--backend {config.backend}" if config.backend else f"--device {config.device}"
    raise UsageError(
        f"{what}: needs a GPU, and no GPU is visible on this machine. On the CPU: --backend gloo."
    )


def _one_device(
    config: RunConfig, backend: BackendSpec, gpus: tuple[int, ...], visible: int
) -> str:
    """Return the device of a run that is one process."""
    if backend.device == "cpu":
        return "cpu"
    index = (config.device or "").partition(":")[2]
    if not index:
        return f"{backend.device}:{gpus[0]}"
    if not index.isdigit() or int(index) >= visible:
        raise UsageError(f"--device {config.device}: {visible} are visible, from 0.")
    return f"{backend.device}:{int(index)}"


def _agent(
    config: RunConfig, given: set[str], library: LibrarySpec, task: TaskInfo, registry: Registry
) -> RunConfig:
    """Resolve the library's options; options of the run in its file yield to the command line."""
    overrides = dict(flatten(config.agent))
    agent = resolve_agent(
        library, task, config.algorithm, config.agent_config, config.agent, registry
    )
    chosen: dict[str, Any] = {}
    for name, key in library.run_keys.items():
        in_file = get_dotted(agent, key, None)
        if name in given and key not in overrides:
            set_dotted(agent, key, getattr(config, name))
        elif in_file is not None and not (name == "num_envs" and config.total_envs):
            chosen[name] = in_file
    checked = RunConfig.from_options(chosen)
    return dataclasses.replace(
        config, agent=agent, **{name: getattr(checked, name) for name in chosen}
    )


def _environments(config: RunConfig, task: TaskInfo, world: World | None) -> RunConfig:
    """Settle how many environments a rank has."""
    env = resolve_env(task, config.env)
    if config.total_envs is None:
        return dataclasses.replace(config, env=env, num_envs=config.num_envs or task.num_envs)
    ranks = world.world_size if world else int(config.nproc_per_node or 1) * config.nnodes
    share, rest = divmod(config.total_envs, ranks)
    if rest or not share:
        raise UsageError(
            f"--total-envs {config.total_envs}: cannot be divided over {ranks} ranks; the nearest "
            f"that can is {max(ranks, round(config.total_envs / ranks) * ranks)}."
        )
    if config.num_envs not in (None, share):
        raise UsageError(
            f"--num-envs {config.num_envs} and --total-envs {config.total_envs}: {ranks} ranks "
            f"would have {share} environments each. Give one of the two."
        )
    return dataclasses.replace(config, env=env, num_envs=share)


def _plugins(config: RunConfig, registry: Registry) -> RunConfig:
    """Check the plugins that are chosen by name alone."""
    sync = registry.get(GradientSyncSpec, config.grad_sync)
    if config.framework not in sync.frameworks:
        raise UsageError(
            f"--grad-sync {sync.name}: works with {', '.join(sync.frameworks)}, not "
            f"{config.framework}."
        )
    writers = config.writers
    if writers is None:
        installed = registry.names(WriterSpec)
        writers = tuple(name for name in DEFAULT_WRITERS if name in installed)
    for name in writers:
        registry.get(WriterSpec, name)
    for name in config.observers:
        registry.get(ObserverSpec, name)
    launcher = config.launcher
    if launcher is not None:
        registry.get(LauncherSpec, launcher)
    elif config.distributed:
        able = [s for s in registry.all(LauncherSpec) if config.framework in s.frameworks]
        launcher = able[0].name if able else registry.get(LauncherSpec, "elastic").name
    return dataclasses.replace(config, writers=writers, launcher=launcher)


def _check_refusals(config: RunConfig, library: LibrarySpec, task: TaskInfo) -> None:
    for refusal in library.refuses:
        if refusal.applies(config, task):
            raise UsageError(f"{refusal.name}: {refusal.reason} Instead: {refusal.instead}")


def _check_files(config: RunConfig, library: LibrarySpec) -> None:
    check_log_root(config.log_root)
    if config.run_name and ("/" in config.run_name or config.run_name in (".", "..")):
        raise UsageError(
            f"--run-name {config.run_name}: is part of a folder's name; leave out '/'."
        )
    if config.checkpoint is None:
        return
    if not Path(config.checkpoint).is_file():
        raise UsageError(f"--checkpoint {config.checkpoint}: there is no such file.")
    if library.check_checkpoint:
        wrong = preflight(library.check_checkpoint, config.checkpoint, in_child=config.distributed)
        if wrong:
            raise UsageError(f"--checkpoint {config.checkpoint}: {wrong}")
