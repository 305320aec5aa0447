"""How much a run is: environments, mini-batches and iterations, and what scales them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.errors import UsageError
from rltrain.options.dotted import get_dotted, set_dotted
from rltrain.options.run import RunOptions
from rltrain.specs import LibrarySpec
from rltrain.types import Iteration, TaskInfo, World

__all__ = [
    "environments",
    "iterations",
    "number_of_ranks",
    "scale_iterations",
    "scale_mini_batches",
    "written_for",
]


def environments(asked: RunOptions, task: TaskInfo, ranks: int) -> int:
    """Return how many environments a rank has.

    Raises:
        UsageError: they cannot be divided over the ranks.
    """
    if asked.total_envs is None:
        return asked.num_envs or task.num_envs
    share, rest = divmod(asked.total_envs, ranks)
    if rest or not share:
        raise UsageError(
            f"--total-envs {asked.total_envs}: cannot be divided over {ranks} ranks; the nearest "
            f"that can is {max(ranks, round(asked.total_envs / ranks) * ranks)}."
        )
    if asked.num_envs not in (None, share):
        raise UsageError(
            f"--num-envs {asked.num_envs} and --total-envs {asked.total_envs}: {ranks} ranks "
            f"would have {share} environments each. Give one of the two."
        )
    return share


def written_for(agent: Mapping[str, Any], library: LibrarySpec, task: TaskInfo) -> int:
    """Return for how many environments a library's file was written: its own word, or the task's.

    Isaac Lab's files, most of which leave it to the command line, are made for the number that the
    task has.
    """
    said = get_dotted(agent, library.run_keys.get("num_envs", ""), None)
    return said if isinstance(said, int) and said > 0 else task.num_envs


def scale_mini_batches(config: RunConfig, library: LibrarySpec, num_envs: int) -> RunConfig:
    """Keep the number of mini-batches that the options have for `num_envs` environments.

    Raises:
        UsageError: there are no mini-batches, or they cannot be kept.
    """
    if library.scale_mini_batches is not None:
        agent = library.scale_mini_batches(config.agent, num_envs, config.num_envs)
        config = dataclasses.replace(config, agent=agent)
    iteration = library.iteration(config) if library.iteration else None
    if iteration is None or iteration.mini_batches is None:
        raise UsageError(
            f"--scale-minibatches: with these options {library.name} does not divide rollouts into "
            "mini-batches, so there is nothing to scale. Leave it out."
        )
    return config


def scale_iterations(config: RunConfig, library: LibrarySpec, ranks: int) -> RunConfig:
    """Divide the iterations by the number of ranks, in the library's options too.

    Raises:
        UsageError: there is nothing to scale.
    """
    if config.total_envs is not None:
        raise UsageError(
            "--scale-iterations: with --total-envs an iteration has the same experience on any "
            "number of ranks, so there is nothing to scale. Give one of the two."
        )
    iteration = iterations(config, library)
    total = iteration.iterations if iteration else config.max_iterations
    if total is None:
        raise UsageError(
            f"--scale-iterations: the options of {library.name} do not say how many iterations "
            "there are. Give --max-iterations."
        )
    total = -(-total // ranks)
    agent = copy.deepcopy(dict(config.agent))
    if "max_iterations" in library.run_keys:
        set_dotted(agent, library.run_keys["max_iterations"], total)
    return dataclasses.replace(config, max_iterations=total, agent=agent)


def iterations(config: RunConfig, library: LibrarySpec) -> Iteration | None:
    """Return what an iteration is and how many there are, where the library says it."""
    iteration = library.iteration(config) if library.iteration else None
    if iteration is None:
        return None
    return dataclasses.replace(iteration, iterations=config.max_iterations or iteration.iterations)


def number_of_ranks(placement: Placement, world: World | None) -> int:
    """Return how many ranks a run has, started or to be started."""
    return world.world_size if world else (placement.nproc_per_node or 1) * placement.nnodes
