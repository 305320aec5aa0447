"""The plan of a run: every choice resolved and checked before any rank starts."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.config.checks import flag
from rltrain.config.declare import Scope, scoped
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, get_dotted, leaves, set_dotted
from rltrain.files.yaml import load_yaml
from rltrain.launch.preflight import made_here
from rltrain.options import agent as agents
from rltrain.options.run import RunOptions
from rltrain.placement.resolve import check_shown, of_framework, place_run
from rltrain.plan import choices, files
from rltrain.plan.draft import Draft, Plan
from rltrain.plugins.manager import chosen_specs
from rltrain.plugins.options import check_options
from rltrain.plugins.registry import discover
from rltrain.ranks.hangs import bounded
from rltrain.specs import GradientSyncSpec, LauncherSpec, LibrarySpec, ObserverSpec, WriterSpec
from rltrain.storage.run_options import check_texts, read_file, run_folder_of
from rltrain.terminal import note
from rltrain.types import TaskInfo, World

DEFAULT_WRITERS = ("console", "tensorboard")


def read_options(draft: Draft) -> Draft:
    """Check each option; a run that resumes another has that run's, too."""
    notes: list[str] = []
    options, checkpoint = files.with_options_of_run(draft.options, notes.append)
    requested = RunOptions.from_mapping(options)
    registry = discover(requested.no_plugins, draft.environ)
    files.check_resume(requested, registry)
    return draft.with_(
        options=options, requested=requested, registry=registry, checkpoint=checkpoint, notes=notes
    )


def place_ranks(draft: Draft) -> Draft:
    """Choose backend, devices and launcher; count the ranks, or find this rank."""
    requested, registry = draft.requested, draft.registry
    if requested.library is not None:  # Asking a suite may take long: first what the user named.
        choices.get_library(requested.library, requested, registry)
    placement, world = place_run(requested, registry, draft.environ, draft.gpus)
    check_shown(requested.show_ranks, placement, world)
    return draft.with_(placement=placement, world=world)


def find_task(draft: Draft) -> Draft:
    """Find the suite that has the task."""
    requested = draft.requested
    with bounded(requested.hang_timeout), made_here(draft.world is not None):
        env = agents.nested_env(requested.env)
        suite, task = choices.find_task(requested.task, env, requested.suite, draft.registry)
    return draft.with_(suite=suite, task=task)


def choose_library(draft: Draft) -> Draft:
    """Choose the library and its algorithm."""
    requested, task = choices.choose_agent(draft.requested, draft.task)
    library, algorithm, whose = choices.choose_library(requested, task, draft.registry)
    if requested.framework not in draft.suite.frameworks:
        able = draft.suite.frameworks
        libraries = [x.name for x in draft.registry.all(LibrarySpec) if able[0] in x.frameworks]
        raise UsageError(
            f"--framework {requested.framework}: the environments of the suite {draft.suite.name} "
            f"support {' and '.join(able)} only. Give --framework {able[0]} --library "
            f"{' or '.join(libraries) or 'NAME'}."
        )
    notes = [*draft.registry.failed]
    if requested.library is None and task.library not in (None, library.name):
        notes.append(f"{library.name}: {whose}")
    found = {"library": library, "algorithm": algorithm, "library_from": whose}
    return draft.with_(requested=requested, task=task, notes=notes, **found)


def load_agent(draft: Draft) -> Draft:
    """Read the library's options, before overrides. A run folder's are checked first."""
    requested, library, task = draft.requested, draft.library, draft.task
    framework = requested.framework
    run = None if requested.trust else _run_of_agent(requested)
    agent, source = agents.load_agent(
        *(requested.agent_config, library, draft.algorithm, framework, draft.suite, task),
        draft.registry,
        load_yaml if run is None else functools.partial(read_file, run, trusted=False),
    )
    if run is not None:
        defaults, _ = agents.default_options(library, draft.suite, task, draft.algorithm, framework)
        check_texts("agent", agent, source, requested.agent, defaults, library.schema.is_safe_value)
    in_file = get_dotted(agent, library.schema.run_keys.get("num_envs", ""), None)
    # Most of Isaac Lab's files leave the number to the command line: it is the task's.
    written_for = in_file if isinstance(in_file, int) and in_file > 0 else task.num_envs
    return draft.with_(agent=agent, options_from=source, written_for=written_for)


def override_agent(draft: Draft) -> Draft:
    """Apply the user's overrides to the library's options."""
    requested, library = draft.requested, draft.library
    trained_before = _run_of_agent(requested) is not None
    defaults = library.default_agent(draft.task, draft.algorithm)
    agent = copy.deepcopy(draft.agent)
    notes = agents.override_agent(
        *(agent, requested.agent, library, draft.options_from, defaults, trained_before)
    )
    if trained_before or not draft.trains:
        return draft.with_(agent=agent)
    return draft.with_(agent=agent, notes=notes)


def merge_file(draft: Draft) -> Draft:
    """Resolve the run's options that the library's file also has: the command line wins."""
    requested, library = draft.requested, draft.library
    given = {name for name, value in draft.options.items() if value is not None}
    agent, overrides = copy.deepcopy(draft.agent), dict(flatten(requested.agent))
    chosen: dict[str, Any] = {}
    for name, key in library.schema.run_keys.items():
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
    return draft.with_(agent=agent, requested=dataclasses.replace(requested, **chosen))


def resolve(draft: Draft) -> Draft:
    """Make every choice that is left."""
    requested, registry = draft.requested, draft.registry
    placement, task = draft.placement, draft.task
    ranks = number_of_ranks(placement, draft.world)
    sync = of_framework(requested, registry, GradientSyncSpec, "grad_sync", placement.backend)
    random_lengths, writers = requested.random_lengths, requested.writers
    if writers is None:
        installed = registry.names(WriterSpec)
        writers = tuple(name for name in DEFAULT_WRITERS if name in installed)
    resolved = {
        "library": draft.library.name,
        "algorithm": draft.algorithm,
        "suite": draft.suite.name,
        "grad_sync": sync.name,
        "agent": draft.agent,
        "given": _given(requested, draft.agent, draft.library),
        "env": agents.resolve_env(task, requested.env),
        "num_envs": _envs_per_rank(requested, task, ranks),
        "random_lengths": task.random_lengths if random_lengths is None else random_lengths,
        "renders": any(registry.get(ObserverSpec, name).renders for name in requested.observers),
        "writers": writers,
    }
    settled = scoped(Placement, Scope.RANKS | Scope.NODE)
    placed = {name: getattr(placement, name) for name in settled}
    return draft.with_(config=RunConfig(**requested.shared | placed | resolved))


def check_plugins(draft: Draft) -> Draft:
    """Find all plugins of the run, its launcher too, and check their options."""
    config, registry = draft.config, draft.registry
    launcher = [] if config.launcher is None else [registry.get(LauncherSpec, config.launcher)]
    check_options([*chosen_specs(config, registry), *launcher], config.plugins)
    return draft


def check_refusals(draft: Draft) -> Draft:
    """Refuse what the library or an observer says cannot work."""
    config, task, registry = draft.config, draft.task, draft.registry
    observers = [registry.get(ObserverSpec, name) for name in config.observers]
    suite = draft.suite
    for observer in [each for each in observers if each.renders]:
        given = f"{flag('observers')} {observer.name}"
        if not suite.renders:
            text = f"the suite {suite.name} does not render its environments. Leave it out."
            raise UsageError(f"{given}: {text}")
        if suite.why_not_rendered is not None and (reason := suite.why_not_rendered(task)):
            raise UsageError(f"{given}: {reason}. Install it, or leave it out.")
    for refusal in (*draft.library.refuses, *(x for each in observers for x in each.refuses)):
        if refusal.applies(config, task):
            value = get_dotted(config.agent, refusal.option, None) if refusal.option else None
            given = f" (agent.{refusal.option}={value})" if value is not None else ""
            raise UsageError(f"{refusal.name}{given}: {refusal.reason} Instead: {refusal.instead}")
    return draft


def measure(draft: Draft) -> Draft:
    """Find the size and number of iterations, and scale mini-batches if the user asks for it."""
    config, library = draft.config, draft.library
    scales = draft.requested.scale_minibatches
    if scales and library.scale_mini_batches is not None:
        agent = library.scale_mini_batches(config.agent, draft.written_for, config.num_envs)
        config = dataclasses.replace(config, agent=agent)
    iteration = library.iteration(config) if library.iteration else None
    if scales and (iteration is None or iteration.mini_batches is None):
        raise UsageError(
            f"--scale-minibatches: with these options {library.name} does not divide rollouts into "
            "mini-batches, so there is nothing to scale. Omit the option."
        )
    if iteration is not None:
        total = config.max_iterations or iteration.iterations
        iteration = dataclasses.replace(iteration, iterations=total)
    return draft.with_(config=config, iteration=iteration)


def check_files(draft: Draft) -> Draft:
    """Check what the run reads and writes; find the checkpoint that the options mean."""
    config, iteration = draft.config, draft.iteration
    files.check_run_name(config.run_name)
    if draft.gpus is not None:  # The files are on another machine.
        return draft
    total = iteration.iterations if iteration else config.max_iterations
    where = (draft.registry, draft.world)
    config, checkpoint = files.resolve_files(config, *where, total, draft.checkpoint)
    return draft.with_(config=config, checkpoint=checkpoint)


def number_of_ranks(placement: Placement, world: World | None) -> int:
    """Return the number of ranks of a run, whether or not they have been started."""
    return world.world_size if world else (placement.nproc_per_node or 1) * placement.nnodes


def _envs_per_rank(options: RunOptions, task: TaskInfo, ranks: int) -> int:
    if options.total_envs is None:
        return options.num_envs or task.num_envs
    share, rest = divmod(options.total_envs, ranks)
    if rest or not share:
        raise UsageError(
            f"--total-envs {options.total_envs}: cannot be divided over {ranks} ranks; the nearest "
            f"that can is {max(ranks, round(options.total_envs / ranks) * ranks)}."
        )
    if options.num_envs not in (None, share):
        raise UsageError(
            f"--num-envs {options.num_envs} and --total-envs {options.total_envs}: {ranks} rank(s) "
            f"would have {share} environments each. Give one of the two."
        )
    return share


def _run_of_agent(requested: RunOptions) -> Path | None:
    """Return the run folder that the file of the library's options is in, if it is in one."""
    path = requested.agent_config
    return run_folder_of(path) if path is not None else None


def _given(
    requested: RunOptions, agent: Mapping[str, Any], library: LibrarySpec
) -> dict[str, bool]:
    """Return `RunConfig.given`. A resumed run does not give the file of its folder."""
    own = requested.resume and str(Path(requested.resume, "agent.yaml"))
    in_file = () if requested.agent_config in (None, own) else leaves(agent)
    keys = {key for key, _ in in_file} - set(library.schema.run_keys.values())
    typed = {key.removeprefix("+"): True for key, _ in leaves(requested.agent)}
    return dict.fromkeys(sorted(keys), False) | typed


Step = Callable[[Draft], Draft]

RESOLVED: tuple[Step, ...] = (
    read_options,
    place_ranks,
    find_task,
    choose_library,
    load_agent,
    override_agent,
    merge_file,
    resolve,
    check_plugins,
)
"""What is run, where, and by which plugins."""

TRAINED: tuple[Step, ...] = (
    check_refusals,
    measure,
    check_files,
)
"""What training needs besides."""


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
        trains: whether anything is trained. If not, sizes are not checked, and nothing is written.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    draft = Draft(options=options, environ=environ, gpus=gpus, trains=trains)
    try:
        for step in (*RESOLVED, *(TRAINED if trains else ())):
            draft = step(draft)
    finally:  # What is refused may follow from these.
        tell(draft.notes, draft.world)
    return draft.finished()


def tell(texts: Iterable[str], world: World | None = None) -> None:
    """Print texts on stderr, unless this process is a rank other than the first."""
    if world is None or world.is_root:
        for text in texts:
            note(text)
