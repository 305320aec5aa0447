"""Iterations, from the options alone: the plan needs them before skrl is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain.types import Iteration

ON_POLICY = ("ppo", "rpo", "a2c")
"""The agents that learn from whole rollouts and discard them afterwards."""

_SCHEDULES = ("scheduler", "scheduler._schedule", "policy_scheduler", "critic_scheduler")
_RATES = ("learning_rate", "policy_learning_rate", "value_learning_rate", "critic_learning_rate")
RESTORED = {
    "agent.learning_rate": (
        *("optimizer.lr", "policy_optimizer.lr", "critic_optimizer.lr", "entropy_optimizer.lr"),
        *(f"{name}.{rates}" for name in _SCHEDULES for rates in ("base_lrs", "_last_lr")),
        *_RATES,  # In jax.
    ),
    "agent.learning_rate_scheduler_kwargs.*": (
        *(f"{name}.*" for name in _SCHEDULES),
        *(f"{name}._*" for name in _SCHEDULES),
    ),
    "agent.initial_entropy_value": ("log_entropy_coefficient.data", "log_entropy"),
    "models.policy.initial_log_std": ("policy.log_std_parameter.data",),
}
"""Options that a checkpoint holds too, and where an agent has them; see `as_given`."""

_ROLLOUTS = 16
"""skrl's own default of `agent.rollouts`, the same for all of its agents."""

_MINI_BATCHES = {"a2c": 1}
"""skrl's own default of `agent.mini_batches`, where it is not 2."""

_TIMESTEPS = 100_000
"""skrl's own default of `trainer.timesteps`."""

_REPLAY_STEPS = 100


def steps_per_iteration(agent: Mapping[str, Any]) -> int:
    """Return how many steps of every environment make an iteration.

    For an agent that learns from rollouts it is `rollouts`. One that learns in every step, from a
    replay buffer, has no such unit: an iteration is the steps between two records of metrics,
    `experiment.write_interval` if that is a number above zero and 100 otherwise.

    Args:
        agent: the section `agent` of the options.
    """
    if str(agent.get("class")).lower() in ON_POLICY:
        return _count(agent, "rollouts", _ROLLOUTS)
    every = (agent.get("experiment") or {}).get("write_interval")
    return every if isinstance(every, int) and every > 0 else _REPLAY_STEPS


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
    """Return what an iteration of the resolved run is.

    Raises:
        UsageError: `rollouts` or `mini_batches` is not a number, or a rank's rollout has fewer rows
            than mini-batches.
    """
    agent = config.agent["agent"]
    steps, num_envs = steps_per_iteration(agent), config.num_envs or 0
    if str(agent["class"]).lower() in ON_POLICY:
        cuts = mini_batches(agent)
        if cuts > steps * num_envs:
            raise UsageError(
                f"agent.agent.mini_batches={cuts}: a rank's rollout has only {steps} steps x "
                f"{num_envs} environments = {steps * num_envs} rows. Take more environments or "
                "rollouts, or fewer mini-batches."
            )
        rows = None
    else:
        cuts = None
        rows = memory_size(config.agent) * num_envs
    return Iteration(steps, total_iterations(config), rows, _image_bytes(config), cuts)


def _image_bytes(config: RunConfig) -> int:
    """Return how many bytes the memory needs per number of an image: see `torch/agent.py`."""
    as_floats = (
        config.framework == "jax"
        or config.agent["agent"].get("observation_preprocessor")
        # Several groups of observations are flattened to one vector.
        or 'OBSERVATIONS["' in str(config.agent.get("models"))
    )
    return 4 if as_floats else 1


def _count(agent: Mapping[str, Any], key: str, default: int) -> int:
    value = agent.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.agent.{key}={value!r}: give a whole number, from 1.")
    return value
