"""The plan of a run: every choice resolved and checked before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.launch.here import made_here
from rltrain.options.agent import (
    default_options,
    load_agent,
    nested_env,
    override_agent,
    resolve_env,
)
from rltrain.options.checks import flag
from rltrain.options.run import RunOptions
from rltrain.place.elastic import settle_nodes
from rltrain.place.placement import check_shown, of_framework, place
from rltrain.plan.files import check_run_name, resolve_files
from rltrain.plan.libraries import choose_agent, choose_library, get_library
from rltrain.plan.notes import of_file, tell
from rltrain.plan.refusals import check_refusals
from rltrain.plan.resuming import check_resume, with_options_of_run
from rltrain.plan.sizes import (
    envs_per_rank,
    number_of_ranks,
    resolve_iteration,
    scale_iterations,
    scale_mini_batches,
    written_for,
)
from rltrain.plan.tasks import find_task
from rltrain.plugins.faults import check_chosen
from rltrain.plugins.manager import chosen_specs
from rltrain.plugins.options import check_options
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import (
    GradientSyncSpec,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    Spec,
    SuiteSpec,
    WriterSpec,
)
from rltrain.trust import check_texts
from rltrain.types import Iteration, TaskInfo, World
from rltrain_files.dotted import flatten, get_dotted, set_dotted
from rltrain_files.run_files import read_file, run_folder_of
from rltrain_ranks.watch.bounded import bounded

__all__ = ["Plan", "make_plan"]

DEFAULT_WRITERS = ("console", "tensorboard")


@dataclass(frozen=True)
class Plan:
    """A run that can start."""

    config: RunConfig
    """Every choice made; `agent` holds all of the library's options."""
    task: TaskInfo
    world: World | None
    """The place of this process if it is a rank; None if the plan will start ranks."""
    registry: Registry = field(repr=False, compare=False)
    """The installed plugins."""
    iteration: Iteration | None = None
    """The size and number of iterations; None if the library does not declare them."""
    library_from: str = ""
    """Whose choice the library was, if not the user's."""
    options_from: str = ""
    """Describes the source of the library's options."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the user asked for."""
    scaled_from: int | None = None
    """If mini-batches were scaled, the number of environments that they were written for."""

    @property
    def starts_nodes(self) -> bool:
        """Whether its launcher starts `rltrain` on other machines."""
        name = self.config.launcher
        return name is not None and self.registry.get(LauncherSpec, name).starts_nodes


def make_plan(
    options: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    *,
    gpus: int | None = None,
    trains: bool = True,
) -> Plan:
    """Resolve a run.

    Args:
        options: fields of `RunOptions`.
        environ: the environment variables.
        gpus: for a run on another machine, how many GPUs that machine shows. Files that it has are
            then not checked. None for a run here.
        trains: whether anything is trained, or only what a run has trained is used: sizes are then
            not checked, and nothing is written.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    options = with_options_of_run(options)
    requested = RunOptions.from_mapping(options)
    registry = discover(requested.no_plugins, environ)
    check_resume(requested, registry)
    requested = settle_nodes(requested)
    given = {name for name, value in options.items() if value is not None}
    if requested.library is not None:  # Asking a suite may take long: first what the user named.
        get_library(requested.library, requested, registry)
    placement, world = place(requested, registry, environ, gpus)
    check_shown(requested.show_ranks, placement, world)
    looking = bounded(f"Looking at the task {requested.task}", requested.hang_timeout)
    with looking, made_here(world is not None):
        suite, task = find_task(
            requested.task, nested_env(requested.env), requested.suite, registry
        )
    requested, task = choose_agent(requested, task)
    library, algorithm, chosen_by = choose_library(requested, task, registry)
    _check_framework(requested, library, suite, registry)
    tell(requested.left_out, world)
    if requested.library is None and task.library not in (None, library.name):
        tell([f"{library.name}: {chosen_by}"], world)
    agent, source = _agent(requested, library, algorithm, suite, task, registry)
    original = written_for(agent, library, task)
    path, defaults = requested.agent_config, library.default_agent(task, algorithm)
    trained_before = path is not None and run_folder_of(path) is not None
    override_agent(agent, requested.agent, library, source, defaults, trained_before)
    if path is not None and trains and not trained_before:
        tell(of_file(path, library, agent), world)
    requested = _take_from_file(requested, agent, given, library)
    ranks = number_of_ranks(placement, world)
    resolved = {
        "library": library.name,
        "algorithm": algorithm,
        "suite": suite.name,
        "grad_sync": of_framework(
            requested, registry, GradientSyncSpec, "grad_sync", placement.backend
        ).name,
        "agent": agent,
        "env": resolve_env(task, requested.env),
        "num_envs": envs_per_rank(requested, task, ranks),
        "random_lengths": task.random_lengths
        if requested.random_lengths is None
        else requested.random_lengths,
        "renders": any(registry.get(ObserverSpec, name).renders for name in requested.observers),
        "writers": _writers(requested, registry),
    }
    # What nothing above resolves stays as the user set it.
    config = RunConfig(**requested.fields_of(RunConfig) | vars(placement) | resolved)
    specs = _specs(config, registry)
    tell(check_chosen(specs, registry), world)
    check_options(specs, config.plugins)
    if not trains:
        return Plan(config, task, world, registry, options_from=source, options=dict(options))
    check_refusals(config, task, registry)
    if requested.scale_minibatches:
        config = scale_mini_batches(config, library, original)
    if requested.scale_iterations:
        config = scale_iterations(config, library, ranks)
    iteration = resolve_iteration(config, library)
    total = iteration.iterations if iteration else config.max_iterations
    check_run_name(config.run_name)
    _check_rollback(config)
    if gpus is None:
        config = resolve_files(config, library, task, registry, world, total)
    scaled = requested.scale_minibatches and library.scale_mini_batches is not None
    return Plan(
        config,
        task,
        world,
        registry,
        iteration=iteration,
        library_from=chosen_by,
        options_from=source,
        options=dict(options),
        scaled_from=original if scaled else None,
    )


def _agent(
    requested: RunOptions,
    library: LibrarySpec,
    algorithm: str,
    suite: SuiteSpec,
    task: TaskInfo,
    registry: Registry,
) -> tuple[dict[str, Any], str]:
    """Return the library's options before overrides, and their source; check a run folder's."""
    path, framework = requested.agent_config, requested.framework
    run = run_folder_of(path) if path is not None else None
    if run is None or requested.trust_run:
        return load_agent(path, library, algorithm, framework, suite, task, registry)
    agent, source = load_agent(
        *(path, library, algorithm, framework, suite, task, registry),
        load=lambda path, option: read_file(run, path, option, trusted=False),
    )
    defaults, _ = default_options(library, suite, task, algorithm, framework)
    check_texts("agent", agent, source, requested.agent, defaults, library.harmless)
    return agent, source


def _check_framework(
    requested: RunOptions, chosen: LibrarySpec, suite: SuiteSpec, registry: Registry
) -> None:
    """Refuse a framework whose arrays the environments cannot return."""
    if requested.framework in suite.frameworks:
        return
    framework = suite.frameworks[0]
    able = [spec.name for spec in registry.all(LibrarySpec) if framework in spec.frameworks]
    library = chosen.name if chosen.name in able else " or ".join(able)
    instead = (
        f"Give --framework {framework} --library {library}."
        if able
        else f"No installed library works with {framework}."
    )
    raise UsageError(
        f"--framework {requested.framework}: the environments of the suite {suite.name} support "
        f"{' and '.join(suite.frameworks)} only. {instead}"
    )


def _take_from_file(
    requested: RunOptions, agent: dict[str, Any], given: set[str], library: LibrarySpec
) -> RunOptions:
    """Resolve the run's options that the library's file also has: the command line wins.

    Returns:
        The options, completed from the file; `agent` is changed in place.
    """
    overrides = dict(flatten(requested.agent))
    chosen: dict[str, Any] = {}
    for name, key in library.run_keys.items():
        in_file = get_dotted(agent, key, None)
        if name in given:
            value = getattr(requested, name)
            if key in overrides and overrides[key] != value:
                raise UsageError(
                    f"{flag(name)} {value} and agent.{key}={overrides[key]} are the same option of "
                    f"{library.name}. Give one of the two."
                )
            set_dotted(agent, key, value)
            continue
        # In Isaac Lab's files, -1 leaves the choice to the command line.
        unset = in_file is None or (in_file == -1 and name != "seed")
        if not unset and not (name == "num_envs" and requested.total_envs):
            try:
                chosen[name] = getattr(RunOptions.from_mapping({name: in_file}), name)
            except UsageError as error:
                raise UsageError(f"agent.{key} sets {error}") from None
    return dataclasses.replace(requested, **chosen)


def _check_rollback(config: RunConfig) -> None:
    """Refuse to go back to a checkpoint without a restart."""
    if config.on_nonfinite != "rollback" or config.max_restarts:
        return
    add = "Add --max-restarts N" if config.distributed else "Add --distributed --max-restarts N"
    if config.distributed and config.launcher is None:
        add = (
            f"{config.cluster} does that: give it --max-restarts N, and the ranks --auto-resume "
            "--run-name NAME --on-nonfinite stop"
        )
    raise UsageError(
        "--on-nonfinite rollback: to go back to the newest checkpoint, the ranks start again. "
        f"{add}; or --on-nonfinite skip."
    )


def _writers(requested: RunOptions, registry: Registry) -> tuple[str, ...]:
    """Return the writers; check that those that the user named are installed."""
    if requested.writers is None:
        installed = registry.names(WriterSpec)
        return tuple(name for name in DEFAULT_WRITERS if name in installed)
    for name in requested.writers:
        registry.get(WriterSpec, name)
    return requested.writers


def _specs(config: RunConfig, registry: Registry) -> list[Spec]:
    """Return the specs of all plugins of the run, including its launcher."""
    launcher = [] if config.launcher is None else [registry.get(LauncherSpec, config.launcher)]
    return [*chosen_specs(config, registry), *launcher]
