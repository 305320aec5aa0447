"""Iterations, from the options alone: the plan needs them before skrl is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain.types import Iteration
from rltrain_skrl.declare.options import ON_POLICY

_ROLLOUTS = 16
"""skrl's own default of `agent.rollouts`, the same for all of its agents."""

_MINI_BATCHES = {"a2c": 1}
"""skrl's own default of `agent.mini_batches`, where it is not 2."""

_TIMESTEPS = 100_000
"""skrl's own default of `trainer.timesteps`."""


def steps_per_iteration(agent: Mapping[str, Any]) -> int:
    """Return how many steps of every environment make an iteration.

    For an agent that learns from rollouts it is `rollouts`. One that learns in every step, from a
    replay buffer, has no such unit: an iteration is the steps between two records of metrics,
    `experiment.write_interval` if that is a number above zero and 100 otherwise.
    """
    if str(agent.get("class")).lower() in ON_POLICY:
        return _count(agent, "rollouts", _ROLLOUTS)
    every = (agent.get("experiment") or {}).get("write_interval")
    return every if isinstance(every, int) and every > 0 else 100


def mini_batches(agent: Mapping[str, Any]) -> int:
    """Return the number of mini-batches per rollout of an agent of `ON_POLICY`."""
    return _count(agent, "mini_batches", _MINI_BATCHES.get(str(agent["class"]).lower(), 2))


def total_iterations(config: RunConfig) -> int:
    """Return the iteration at which training ends, counting those before a checkpoint.

    Without `--max-iterations` it is the number that fits into `trainer.timesteps`: no update or
    record would follow the steps after the last whole iteration.
    """
    if config.max_iterations is not None:
        return config.max_iterations
    timesteps = get_dotted(config.agent, "trainer.timesteps", _TIMESTEPS)
    if isinstance(timesteps, bool) or not isinstance(timesteps, (int, float)):
        raise UsageError(f"agent.trainer.timesteps={timesteps!r}: give a number.")
    return max(1, int(timesteps) // steps_per_iteration(config.agent["agent"]))


def memory_size(agent: Mapping[str, Any]) -> int:
    """Return the size of the memory in steps of every environment; -1 means the rollout."""
    size = get_dotted(agent, "memory.memory_size", -1)
    if isinstance(size, bool) or not isinstance(size, int):
        raise UsageError(f"agent.memory.memory_size={size!r}: give a whole number.")
    return size


def iteration(config: RunConfig) -> Iteration:
    """Return what an iteration of the resolved run is."""
    agent = config.agent["agent"]
    steps, num_envs = steps_per_iteration(agent), config.num_envs or 0
    if str(agent["class"]).lower() in ON_POLICY:
        rows, cuts = None, mini_batches(agent)
        if cuts > steps * num_envs:
            raise UsageError(
                f"agent.agent.mini_batches={cuts}: a rank's rollout has only {steps} steps x "
                f"{num_envs} environments = {steps * num_envs} rows. Take more environments or "
                "rollouts, or fewer mini-batches."
            )
    else:
        rows, cuts = memory_size(config.agent) * num_envs, None
    return Iteration(steps, total_iterations(config), rows, cuts)


def _count(agent: Mapping[str, Any], key: str, default: int) -> int:
    value = agent.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.agent.{key}={value!r}: give a whole number, at least 1.")
    return value
