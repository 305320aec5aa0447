"""The size of a run: environments, mini-batches, iterations, how they scale, and memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rltrain.config import Placement, RunConfig
from rltrain.errors import UsageError
from rltrain.files.dotted import get_dotted
from rltrain.options.run import RunOptions
from rltrain.specs import LibrarySpec
from rltrain.terminal import in_bytes
from rltrain.types import Iteration, TaskInfo, World

_FLOAT = 4
"""Bytes per number, except in uint8 images: libraries store float32."""

_SCALARS = 6
"""Numbers per row: reward, value, return, advantage, log-probability, and end of episode."""


def envs_per_rank(options: RunOptions, task: TaskInfo, ranks: int) -> int:
    """Return the number of environments per rank."""
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
            f"--num-envs {options.num_envs} and --total-envs {options.total_envs}: {ranks} ranks "
            f"would have {share} environments each. Give one of the two."
        )
    return share


def written_for(agent: Mapping[str, Any], library: LibrarySpec, task: TaskInfo) -> int:
    """Return the number of environments that a library's file was written for.

    If the file does not set it, it is the task's default: most of Isaac Lab's files leave it to the
    command line.
    """
    in_file = get_dotted(agent, library.run_keys.get("num_envs", ""), None)
    return in_file if isinstance(in_file, int) and in_file > 0 else task.num_envs


def scale_mini_batches(config: RunConfig, library: LibrarySpec, num_envs: int) -> RunConfig:
    """Keep the number of mini-batches that the options give for `num_envs` environments."""
    if library.scale_mini_batches is not None:
        agent = library.scale_mini_batches(config.agent, num_envs, config.num_envs)
        config = dataclasses.replace(config, agent=agent)
    iteration = library.iteration(config) if library.iteration else None
    if iteration is None or iteration.mini_batches is None:
        raise UsageError(
            f"--scale-minibatches: with these options {library.name} does not divide rollouts into "
            "mini-batches, so there is nothing to scale. Omit the option."
        )
    return config


def resolve_iteration(config: RunConfig, library: LibrarySpec) -> Iteration | None:
    """Return the size and number of iterations; None if the library does not declare them."""
    iteration = library.iteration(config) if library.iteration else None
    if iteration is None:
        return None
    return dataclasses.replace(iteration, iterations=config.max_iterations or iteration.iterations)


def number_of_ranks(placement: Placement, world: World | None) -> int:
    """Return the number of ranks of a run, whether or not they have been started."""
    return world.world_size if world else (placement.nproc_per_node or 1) * placement.nnodes


def estimate_memory(iteration: Iteration, task: TaskInfo, num_envs: int) -> str | None:
    """Describe about how much memory a rank's rollouts or its replay buffer take, if known."""
    if task.observations is None:
        return None
    observed = sum(
        math.prod(group.shape)
        * (iteration.image_bytes if group.is_image and group.dtype == "uint8" else _FLOAT)
        for group in task.observations.values()
    )
    # For a continuous action, libraries also store the distribution: its mean and its deviation.
    action = 3 * sum(task.actions or (1,)) if task.action == "continuous" else 1
    rest = _FLOAT * (action + _SCALARS)
    if iteration.replay_rows is not None:
        total = iteration.replay_rows * (2 * observed + rest)
        return f"about {in_bytes(total)} a rank for the replay buffer"
    total = iteration.steps * num_envs * (observed + rest)
    return f"about {in_bytes(total)} a rank for rollouts"
