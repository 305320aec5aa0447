"""What the plugin provides. Light: tasks and Gymnasium are imported only to look up a task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.specs import Spec, SuiteSpec
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_adapters import tuned_options_from
from rltrain_adapters.sources import mentions, registered_names

_NEEDS_GYMNASIUM = re.compile(r"gymnasium(?![\w.-])(?!.*\bextra\b)", re.IGNORECASE)


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    """Describe a task with the user's `env.` options; None if it is not known here.

    For a task that is not embedded, one environment is made, and closed again.
    """
    from rltrain_gymnasium.tasks import EMBEDDED, configured

    embedded = EMBEDDED.get(task)
    if embedded is None:
        from rltrain_gymnasium.single import describe_registered

        return describe_registered(task, env)
    options: Any = embedded.options()
    made = configured(task, {name: value for name, value in env.items() if name in options})
    vector = {made.vector_group: ArrayInfo((len(made.observation_bound),))}
    images = {name: ArrayInfo(shape, "uint8") for name, shape in made.image_shapes.items()}
    return TaskInfo(
        name=task,
        action=embedded.action,
        num_envs=embedded.num_envs,
        max_episode_length=made.max_episode_length,
        options=options,
        observations={**vector, **images},
        actions=(embedded.num_actions,),
    )


def tasks() -> list[str]:
    """Return the names of all tasks: the embedded ones, then those registered with Gymnasium."""
    import gymnasium

    from rltrain_gymnasium.tasks import EMBEDDED

    return [*EMBEDDED, *(name for name in gymnasium.registry if name not in EMBEDDED)]


def tasks_of_packages(module: str | None = None) -> list[str]:
    """Return the names "module:Name-v0" in the packages that need Gymnasium; none is imported.

    Those of Isaac Lab's projects are the suite `isaaclab`'s.
    """
    if module is not None:
        return [f"{module}:{name}" for name in registered_names(module, "register", "id")]
    modules = {
        module
        for package in distributions()
        if any(_NEEDS_GYMNASIUM.match(needed) for needed in package.requires or ())
        for module in _modules(package)
    }
    return [
        f"{module}:{name}"
        for module in sorted(modules)
        if not mentions(module, "env_cfg_entry_point")
        for name in registered_names(module, "register", "id")
        if re.search(r"-v\d+$", name)
    ]


def _modules(package: Distribution) -> Iterator[str]:
    yield from (package.read_text("top_level.txt") or "").split()
    for path in package.files or ():
        if path.suffix == ".py" and len(path.parts) > 1:
            yield path.parts[0]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the suite."""
    return [
        SuiteSpec(
            name="gymnasium",
            factory="rltrain_gymnasium.suite:GymnasiumSuite",
            summary="Gymnasium's tasks, and embedded batched tasks that run on any device",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=tasks,
            undiscovered_tasks=tasks_of_packages,
            renders=True,
            tuned=tuned_options_from(Path(__file__).parent / "tuned"),
        )
    ]
