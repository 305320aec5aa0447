"""What the options say of iterations. Light: it serves the plan, before skrl is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain.types import Iteration

__all__ = [
    "ON_POLICY",
    "iteration",
    "memory_size",
    "mini_batches",
    "steps_per_iteration",
    "total_iterations",
]

ON_POLICY = ("ppo", "rpo", "a2c")
"""The agents that learn from whole rollouts, and then forget them."""

_ROLLOUTS = 16
"""skrl's own default of `agent.rollouts`, which its agents have in common."""

_MINI_BATCHES = {"a2c": 1}
"""skrl's own default of `agent.mini_batches`, where it is not 2."""

_TIMESTEPS = 100_000
"""skrl's own default of `trainer.timesteps`."""

_REPLAY_STEPS = 100


def steps_per_iteration(agent: Mapping[str, Any]) -> int:
    """Return how many steps of every environment make an iteration.

    Of an agent that learns from rollouts it is `rollouts`. One that learns in every step, from a
    replay buffer, has no such unit: it is the steps between two reports, which are
    `experiment.write_interval` where that is a number above zero, and 100 otherwise.

    Args:
        agent: the section `agent` of the options.

    Raises:
        UsageError: `rollouts` is no number of steps.
    """
    if str(agent.get("class")).lower() in ON_POLICY:
        return _count(agent, "rollouts", _ROLLOUTS)
    every = (agent.get("experiment") or {}).get("write_interval")
    return every if isinstance(every, int) and every > 0 else _REPLAY_STEPS


def mini_batches(agent: Mapping[str, Any]) -> int:
    """Return into how many mini-batches an agent of `ON_POLICY` cuts a rollout."""
    return _count(agent, "mini_batches", _MINI_BATCHES.get(str(agent["class"]).lower(), 2))


def total_iterations(config: RunConfig) -> int:
    """Return the iteration at which training ends, those before a checkpoint included.

    Without `--max-iterations` it is as many as fit into `trainer.timesteps`: steps after the last
    one would never be learned from, or not be reported.
    """
    if config.max_iterations is not None:
        return config.max_iterations
    timesteps = get_dotted(config.agent, "trainer.timesteps", _TIMESTEPS)
    if isinstance(timesteps, bool) or not isinstance(timesteps, (int, float)):
        raise UsageError(f"agent.trainer.timesteps={timesteps}: give a number.")
    return max(1, int(timesteps) // steps_per_iteration(config.agent["agent"]))


def memory_size(agent: Mapping[str, Any]) -> int:
    """Return how many steps of every environment are kept; -1: the rollout.

    Raises:
        UsageError: it is no number of steps.
    """
    size = get_dotted(agent, "memory.memory_size", -1)
    if isinstance(size, bool) or not isinstance(size, int):
        raise UsageError(f"agent.memory.memory_size={size}: give a whole number.")
    return size


def iteration(config: RunConfig) -> Iteration:
    """Return what an iteration of the resolved run is.

    Raises:
        UsageError: `rollouts` or `mini_batches` is no number, or a rank's rollout is cut into more
            mini-batches than it has rows.
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
    """Return in how many bytes a number of an image is kept: see `rltrain_skrl.torch.agent`."""
    as_floats = (
        config.framework == "jax"
        or config.agent["agent"].get("observation_preprocessor")
        # Of observations that are several groups, one vector is made.
        or 'OBSERVATIONS["' in str(config.agent.get("models"))
    )
    return 4 if as_floats else 1


def _count(agent: Mapping[str, Any], key: str, default: int) -> int:
    value = agent.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.agent.{key}={value}: give a whole number, from 1.")
    return value
