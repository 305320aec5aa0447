"""The plan of a run: every choice resolved and every refusal made, before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.errors import UsageError, suggest
from rltrain.options.agent import load_agent, override_agent, resolve_env
from rltrain.options.checks import flag
from rltrain.options.dotted import flatten, get_dotted, set_dotted
from rltrain.options.run import RunOptions
from rltrain.plan.files import settle_files
from rltrain.plan.placement import of_framework, place
from rltrain.plan.refusals import check_refusals
from rltrain.plan.sizes import (
    environments,
    iterations,
    number_of_ranks,
    scale_iterations,
    scale_mini_batches,
    written_for,
)
from rltrain.plugins.manager import chosen_specs
from rltrain.plugins.options import check_options
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import (
    BackendSpec,
    GradientSyncSpec,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    Spec,
    SuiteSpec,
    WriterSpec,
)
from rltrain.types import Iteration, TaskInfo, World

__all__ = ["Plan", "make_plan"]

DEFAULT_WRITERS = ("console", "tensorboard")

_AS_ASKED = (
    *("task", "total_envs", "max_iterations", "check_interval", "target_return", "seed"),
    *("agent_config", "checkpoint", "run_name", "headless", "enable_cameras", "observers"),
)
"""Options that the resolved run takes over."""


@dataclass(frozen=True)
class Plan:
    """A run that can start."""

    config: RunConfig
    """Every choice made; `agent` holds all of the library's options."""
    task: TaskInfo
    world: World | None
    """This process' place: of the one process, or as joined; None if ranks are to be started."""
    registry: Registry = field(repr=False, compare=False)
    """The installed plugins."""
    iteration: Iteration | None = None
    """What one iteration is, where the library says."""
    options_from: str = ""
    """In words, where the library's options come from."""
    scaled_from: int | None = None
    """For how many environments the options had the mini-batches that were scaled."""


def make_plan(options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Plan:
    """Resolve a run.

    Args:
        options: fields of `RunOptions`.
        environ: the environment variables.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    asked = RunOptions.from_mapping(options)
    registry = discover(asked.no_plugins, environ)
    given = {name for name, value in options.items() if value is not None}
    library, algorithm = _library(asked, registry)
    suite, task = _suite(asked, registry)
    _check_framework(asked, suite, registry)
    placement, world = place(asked, registry, environ)
    agent, source = load_agent(
        asked.agent_config, library, algorithm, asked.framework, suite, task, registry
    )
    original = written_for(agent, library, task)
    override_agent(agent, asked.agent, library, source)
    asked = _take_from_file(asked, agent, given, library)
    ranks = number_of_ranks(placement, world)
    config = RunConfig(
        **vars(placement),
        library=library.name,
        algorithm=algorithm,
        suite=suite.name,
        grad_sync=_grad_sync(asked, placement, registry).name,
        agent=agent,
        env=resolve_env(task, asked.env),
        num_envs=environments(asked, task, ranks),
        random_lengths=task.random_lengths
        if asked.random_lengths is None
        else asked.random_lengths,
        renders=any(registry.get(ObserverSpec, name).renders for name in asked.observers),
        writers=_writers(asked, registry),
        **{name: getattr(asked, name) for name in _AS_ASKED},
    )
    check_options(_specs(config, registry), config.plugins)
    check_refusals(config, task, registry)
    if asked.scale_minibatches:
        config = scale_mini_batches(config, library, original)
    if asked.scale_iterations:
        config = scale_iterations(config, library, ranks)
    iteration = iterations(config, library)
    total = iteration.iterations if iteration else config.max_iterations
    config = settle_files(config, library, registry, world, total)
    scaled = asked.scale_minibatches and library.scale_mini_batches is not None
    return Plan(config, task, world, registry, iteration, source, original if scaled else None)


def _library(asked: RunOptions, registry: Registry) -> tuple[LibrarySpec, str]:
    """Return the library and its algorithm."""
    try:
        library = registry.get(LibrarySpec, asked.library)
    except UsageError as error:
        ready = registry.names(LibrarySpec)
        asleep = [record.name for record in registry.records if record.status != "ready"]
        if not ready or asked.library not in asleep:
            raise
        # The one that is asked for by default need not be there, as beside mjlab.
        said = str(error).rstrip(".")
        raise UsageError(f"{said}. Ready: --library {' or '.join(ready)}.") from None
    if asked.framework not in library.frameworks:
        raise UsageError(
            f"--framework {asked.framework}: {library.name} runs on "
            f"{' and '.join(library.frameworks)} only."
            f"{suggest(asked.framework, library.frameworks)}"
        )
    names = {name.lower(): name for name in library.algorithms}
    algorithm = names.get((asked.algorithm or library.algorithms[0]).lower())  # Or PPO.
    if algorithm is None:
        raise UsageError(
            f"--algorithm {asked.algorithm}: {library.name} is offered with "
            f"{', '.join(library.algorithms)}.{suggest(asked.algorithm or '', library.algorithms)}"
        )
    return library, algorithm


def _suite(asked: RunOptions, registry: Registry) -> tuple[SuiteSpec, TaskInfo]:
    """Find the suite that knows the task; two that do are told apart by the user, not by order."""
    if asked.suite is not None:
        suites = [registry.get(SuiteSpec, asked.suite)]
    else:
        suites = registry.all(SuiteSpec)
        if not suites:
            registry.get(SuiteSpec, "gymnasium")  # Says why there is none.
    found = [(suite, task) for suite in suites if (task := suite.describe(asked.task))]
    if not found:
        known = [name for suite in suites for name in suite.tasks()]
        raise UsageError(
            f"Unknown task {asked.task!r}.{suggest(asked.task, known)} Suites asked: "
            f"{', '.join(suite.name for suite in suites)}.{registry.not_ready()}"
        )
    if len(found) > 1:
        names = ", ".join(suite.name for suite, _ in found)
        raise UsageError(
            f"Several suites have a task {asked.task!r}: say which by --suite: {names}."
        )
    return found[0]


def _check_framework(asked: RunOptions, suite: SuiteSpec, registry: Registry) -> None:
    """Refuse a framework whose arrays the environments do not give."""
    if asked.framework in suite.frameworks:
        return
    framework = suite.frameworks[0]
    able = [spec.name for spec in registry.all(LibrarySpec) if framework in spec.frameworks]
    library = asked.library if asked.library in able else "".join(able[:1])
    instead = (
        f"That is what {', '.join(able)} works with: --library {library} --framework {framework}."
        if able
        else f"No library that is installed works with {framework}."
    )
    raise UsageError(
        f"--framework {asked.framework}: the environments of the suite {suite.name} are of "
        f"{' and '.join(suite.frameworks)} only. {instead}"
    )


def _take_from_file(
    asked: RunOptions, agent: dict[str, Any], given: set[str], library: LibrarySpec
) -> RunOptions:
    """Settle the run's options that the library's file has too: the command line wins.

    Returns:
        The options, with those of the file that the command line left open; `agent` is changed in
        place.
    """
    overrides = dict(flatten(asked.agent))
    chosen: dict[str, Any] = {}
    for name, key in library.run_keys.items():
        in_file = get_dotted(agent, key, None)
        if name in given:
            value = getattr(asked, name)
            if key in overrides and overrides[key] != value:
                raise UsageError(
                    f"{flag(name)} {value} and agent.{key}={overrides[key]} are the same option of "
                    f"{library.name}. Give one of the two."
                )
            set_dotted(agent, key, value)
            continue
        # Isaac Lab's files say -1 where the command line is to decide.
        unset = in_file is None or (in_file == -1 and name != "seed")
        if not unset and not (name == "num_envs" and asked.total_envs):
            chosen[name] = in_file
    checked = RunOptions.from_mapping(chosen)
    return dataclasses.replace(asked, **{name: getattr(checked, name) for name in chosen})


def _grad_sync(asked: RunOptions, placement: Placement, registry: Registry) -> GradientSyncSpec:
    usual = registry.get(BackendSpec, placement.backend).grad_sync
    return of_framework(asked, registry, GradientSyncSpec, "grad_sync", usual)


def _writers(asked: RunOptions, registry: Registry) -> tuple[str, ...]:
    """Return the writers, and check them: they are chosen by name alone."""
    if asked.writers is None:
        installed = registry.names(WriterSpec)
        return tuple(name for name in DEFAULT_WRITERS if name in installed)
    for name in asked.writers:
        registry.get(WriterSpec, name)
    return asked.writers


def _specs(config: RunConfig, registry: Registry) -> list[Spec]:
    """Return the specs of all plugins of the run, its launcher's included."""
    launcher = [] if config.launcher is None else [registry.get(LauncherSpec, config.launcher)]
    return [*chosen_specs(config, registry), *launcher]
