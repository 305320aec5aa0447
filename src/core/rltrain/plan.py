"""The plan of a run: every choice resolved and every refusal made, before any rank starts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rltrain.agent_options import (
    flatten,
    get_dotted,
    load_agent,
    override_agent,
    set_dotted,
)
from rltrain.config import RunConfig, flag
from rltrain.errors import UsageError, suggest
from rltrain.placement import place
from rltrain.plan_files import settle_files
from rltrain.plan_sizes import (
    settle_environments,
    settle_iterations,
    settle_mini_batches,
    written_for,
)
from rltrain.plugins import Registry, discover
from rltrain.specs import (
    GradientSyncSpec,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    SuiteSpec,
    WriterSpec,
)
from rltrain.types import Iteration, TaskInfo, World
from rltrain.video import check_video

__all__ = ["Plan", "choose_launcher", "make_plan"]

FrameworkSpecT = TypeVar("FrameworkSpecT", GradientSyncSpec, LauncherSpec)

DEFAULT_WRITERS = ("console", "tensorboard")
DEFAULT_LAUNCHERS = {"torch": "elastic", "jax": "processes"}
DEFAULT_SYNCS = {"torch": "flat", "jax": "tree"}


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
        options: fields of `RunConfig`.
        environ: the environment variables.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    config = RunConfig.from_options(options)
    registry = discover(config.no_plugins, environ)
    given = {name for name, value in options.items() if value is not None}
    config, library = _library(config, registry)
    suite, task = _suite(config, registry)
    _check_framework(config, suite, registry)
    config = dataclasses.replace(config, suite=suite.name)
    config, world = place(config, registry, environ)
    agent, source = load_agent(config, library, suite, task, registry)
    original = written_for(agent, library, task)
    override_agent(agent, config.agent, library, source)
    config = _agent(config, agent, given, library)
    config = settle_environments(config, task, world)
    config = _plugins(config, registry)
    _check_refusals(config, library, task)
    if config.video:
        able = [spec.name for spec in registry.all(SuiteSpec) if spec.renders]
        check_video(suite.name, suite.renders, able)
    scales = config.scale_minibatches and library.scale_mini_batches is not None
    config = settle_mini_batches(config, library, original)
    config, iteration = settle_iterations(config, library, world)
    total = iteration.iterations if iteration else config.max_iterations
    config = settle_files(config, library, registry, world, total)
    return Plan(config, task, world, registry, iteration, source, original if scales else None)


def _library(config: RunConfig, registry: Registry) -> tuple[RunConfig, LibrarySpec]:
    try:
        library = registry.get(LibrarySpec, config.library)
    except UsageError as error:
        ready = registry.names(LibrarySpec)
        asleep = [record.name for record in registry.records if record.status != "ready"]
        if not ready or config.library not in asleep:
            raise
        # The one that is asked for by default need not be there, as beside mjlab.
        said = str(error).rstrip(".")
        raise UsageError(f"{said}. Ready: --library {' or '.join(ready)}.") from None
    if config.framework not in library.frameworks:
        raise UsageError(
            f"--framework {config.framework}: {library.name} runs on "
            f"{' and '.join(library.frameworks)} only."
            f"{suggest(config.framework, library.frameworks)}"
        )
    names = {name.lower(): name for name in library.algorithms}
    algorithm = names.get((config.algorithm or library.algorithms[0]).lower())  # Or PPO.
    if algorithm is None:
        raise UsageError(
            f"--algorithm {config.algorithm}: {library.name} is offered with "
            f"{', '.join(library.algorithms)}.{suggest(config.algorithm or '', library.algorithms)}"
        )
    config = dataclasses.replace(config, algorithm=algorithm)
    return config, library


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
            f"{', '.join(suite.name for suite in suites)}.{registry.not_ready()}"
        )
    if len(found) > 1:
        names = ", ".join(suite.name for suite, _ in found)
        raise UsageError(
            f"Several suites have a task {config.task!r}: say which by --suite: {names}."
        )
    return found[0]


def _check_framework(config: RunConfig, suite: SuiteSpec, registry: Registry) -> None:
    """Refuse a framework whose arrays the environments do not give."""
    if config.framework in suite.frameworks:
        return
    framework = suite.frameworks[0]
    able = [spec.name for spec in registry.all(LibrarySpec) if framework in spec.frameworks]
    library = config.library if config.library in able else "".join(able[:1])
    instead = (
        f"That is what {', '.join(able)} works with: --library {library} --framework {framework}."
        if able
        else f"No library that is installed works with {framework}."
    )
    raise UsageError(
        f"--framework {config.framework}: the environments of the suite {suite.name} are of "
        f"{' and '.join(suite.frameworks)} only. {instead}"
    )


def _agent(
    config: RunConfig, agent: dict[str, Any], given: set[str], library: LibrarySpec
) -> RunConfig:
    """Take the library's options; those of the run among them yield to the command line."""
    overrides = dict(flatten(config.agent))
    chosen: dict[str, Any] = {}
    for name, key in library.run_keys.items():
        in_file = get_dotted(agent, key, None)
        if name in given:
            asked = getattr(config, name)
            if key in overrides and overrides[key] != asked:
                raise UsageError(
                    f"{flag(name)} {asked} and agent.{key}={overrides[key]} are the same option of "
                    f"{library.name}. Give one of the two."
                )
            set_dotted(agent, key, asked)
            continue
        # Isaac Lab's files say -1 where the command line is to decide.
        unset = in_file is None or (in_file == -1 and name != "seed")
        if not unset and not (name == "num_envs" and config.total_envs):
            chosen[name] = in_file
    checked = RunConfig.from_options(chosen)
    return dataclasses.replace(
        config, agent=agent, **{name: getattr(checked, name) for name in chosen}
    )


def _plugins(config: RunConfig, registry: Registry) -> RunConfig:
    """Check the plugins that are chosen by name alone."""
    sync = _of_framework(config, registry, GradientSyncSpec, "grad_sync", DEFAULT_SYNCS)
    writers = config.writers
    if writers is None:
        installed = registry.names(WriterSpec)
        writers = tuple(name for name in DEFAULT_WRITERS if name in installed)
    for name in writers:
        registry.get(WriterSpec, name)
    for name in config.observers:
        registry.get(ObserverSpec, name)
    launcher = config.launcher
    if config.distributed or launcher is not None:
        launcher = choose_launcher(config, registry).name
    return dataclasses.replace(config, grad_sync=sync.name, writers=writers, launcher=launcher)


def choose_launcher(config: RunConfig, registry: Registry) -> LauncherSpec:
    """Return the launcher that was asked for, or the framework's own.

    Raises:
        UsageError: it does not fit the framework, or lacks an option that was given.
    """
    spec = _of_framework(config, registry, LauncherSpec, "launcher", DEFAULT_LAUNCHERS)
    _check_launcher(config, spec)
    return spec


def _of_framework(
    config: RunConfig,
    registry: Registry,
    kind: type[FrameworkSpecT],
    option: str,
    defaults: Mapping[str, str],
) -> FrameworkSpecT:
    """Return the launcher or gradient sync that was asked for, or the framework's own."""
    framework, name = config.framework, getattr(config, option)
    able = [spec.name for spec in registry.all(kind) if framework in spec.frameworks]
    if name is None:
        # What else is installed must not change what a command does.
        usual = defaults.get(framework)
        name = able[0] if able and usual not in able else usual
    if name is None:
        raise UsageError(f"{flag(option)}: nothing that is installed works with {framework}.")
    spec = registry.get(kind, name)
    if framework not in spec.frameworks:
        instead = f" Instead: {flag(option)} {' or '.join(able)}." if able else ""
        raise UsageError(
            f"{flag(option)} {name}: works with {', '.join(spec.frameworks)}, not {framework}."
            f"{instead}"
        )
    return spec


def _check_launcher(config: RunConfig, launcher: LauncherSpec) -> None:
    """Refuse options that the launcher would not look at."""
    defaults = RunConfig()
    for name in launcher.lacks:
        value = getattr(config, name)
        if value != getattr(defaults, name):
            raise UsageError(
                f"{flag(name)} {value}: the launcher {launcher.name} does not have it. Leave it "
                "out, or choose a launcher that has it (--launcher)."
            )


def _check_refusals(config: RunConfig, library: LibrarySpec, task: TaskInfo) -> None:
    for refusal in library.refuses:
        if refusal.applies(config, task):
            raise UsageError(f"{refusal.name}: {refusal.reason} Instead: {refusal.instead}")
