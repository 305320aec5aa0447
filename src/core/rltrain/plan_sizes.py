"""How much a run is: environments, mini-batches and iterations, and what scales them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from rltrain.agent_options import get_dotted, resolve_env, set_dotted
from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.specs import LibrarySpec
from rltrain.types import Iteration, TaskInfo, World

__all__ = [
    "number_of_ranks",
    "settle_environments",
    "settle_iterations",
    "settle_mini_batches",
    "written_for",
]


def settle_environments(config: RunConfig, task: TaskInfo, world: World | None) -> RunConfig:
    """Settle how many environments a rank has, and how they begin.

    Raises:
        UsageError: they cannot be divided over the ranks.
    """
    env = resolve_env(task, config.env)
    if config.random_lengths is None:
        config = dataclasses.replace(config, random_lengths=task.random_lengths)
    if config.total_envs is None:
        return dataclasses.replace(config, env=env, num_envs=config.num_envs or task.num_envs)
    ranks = number_of_ranks(config, world)
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


def written_for(agent: Mapping[str, Any], library: LibrarySpec, task: TaskInfo) -> int:
    """Return for how many environments a library's file was written: its own word, or the task's.

    Isaac Lab's files, most of which leave it to the command line, are made for the number that the
    task has.
    """
    said = get_dotted(agent, library.run_keys.get("num_envs", ""), None)
    return said if isinstance(said, int) and said > 0 else task.num_envs


def settle_mini_batches(config: RunConfig, library: LibrarySpec, num_envs: int) -> RunConfig:
    """Keep the number of mini-batches that options have for `num_envs`, if that was asked for.

    Scaled once: the run's own config.yaml is not to be scaled again.

    Raises:
        UsageError: there are no mini-batches, or they cannot be kept.
    """
    if not config.scale_minibatches:
        return config
    agent = config.agent
    if library.scale_mini_batches is not None:
        agent = library.scale_mini_batches(agent, num_envs, config.num_envs or 0)
    config = dataclasses.replace(config, agent=agent, scale_minibatches=False)
    iteration = library.iteration(config) if library.iteration else None
    if iteration is None or iteration.mini_batches is None:
        raise UsageError(
            f"--scale-minibatches: with these options {library.name} cuts no rollout into "
            "mini-batches, so that there is nothing to scale. Leave it out."
        )
    return config


def settle_iterations(
    config: RunConfig, library: LibrarySpec, world: World | None
) -> tuple[RunConfig, Iteration | None]:
    """Ask the library what an iteration is, and settle how many there are.

    Raises:
        UsageError: there is nothing to scale.
    """
    iteration = library.iteration(config) if library.iteration else None
    total = config.max_iterations or (iteration.iterations if iteration else None)
    if config.scale_iterations:
        if config.total_envs is not None:
            raise UsageError(
                "--scale-iterations: with --total-envs an iteration has the same experience on any "
                "number of ranks, so that there is nothing to scale. Give one of the two."
            )
        if total is None:
            raise UsageError(
                f"--scale-iterations: the options of {library.name} do not say how many iterations "
                "there are. Give --max-iterations."
            )
        # Scaled once: the run's own config.yaml is not to be scaled again.
        total = -(-total // number_of_ranks(config, world))
        agent = copy.deepcopy(dict(config.agent))
        if "max_iterations" in library.run_keys:
            set_dotted(agent, library.run_keys["max_iterations"], total)
        config = dataclasses.replace(
            config, max_iterations=total, scale_iterations=False, agent=agent
        )
    if iteration is not None:
        iteration = dataclasses.replace(iteration, iterations=total)
    return config, iteration


def number_of_ranks(config: RunConfig, world: World | None) -> int:
    """Return how many ranks a run has, started or yet to be."""
    return world.world_size if world else int(config.nproc_per_node or 1) * config.nnodes
