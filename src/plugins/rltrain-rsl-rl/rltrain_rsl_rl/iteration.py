"""What rsl_rl's options say of an iteration, without importing rsl_rl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain.types import Iteration
from rltrain_rsl_rl.newer import check_known
from rltrain_rsl_rl.older import in_words_of_today
from rltrain_rsl_rl.options import DISTILLATION_NAMES, class_of

__all__ = ["iteration"]

MINI_BATCHES = 4
"""What rsl_rl takes for algorithm.num_mini_batches where a file does not say."""


def iteration(config: RunConfig) -> Iteration:
    """Return steps and number of the iterations that a run's options ask for.

    Raises:
        UsageError: the mini-batches do not divide what a rank collects: rsl_rl would leave the rest
            of it out; or the installed rsl_rl is too old for an option.
    """
    agent = in_words_of_today(config.agent)
    check_known(agent)
    steps, count = _whole(agent, "num_steps_per_env", None), None
    if get_dotted(agent, "algorithm.class_name", None) not in DISTILLATION_NAMES:
        count = _mini_batches(agent, steps, config.num_envs or 0)
    iterations = config.max_iterations or agent.get("max_iterations")
    return Iteration(steps, iterations, mini_batches=count)


def _mini_batches(agent: Mapping[str, Any], steps: int, num_envs: int) -> int:
    """Return how many mini-batches there are; they must divide what a rank collects."""
    count = _whole(agent, "algorithm.num_mini_batches", MINI_BATCHES)
    recurrent = any(_is_recurrent(agent, model) for model in ("actor", "critic"))
    # Recurrent mini-batches are whole trajectories of some environments.
    rows = num_envs if recurrent else num_envs * steps
    if recurrent and num_envs == count:
        raise UsageError(
            f"agent.algorithm.num_mini_batches={count}: a mini-batch of a recurrent policy would "
            "have one environment, with which rsl_rl multiplies every step's ratio by every step's "
            "advantage. Choose fewer mini-batches, or a larger --num-envs."
        )
    if rows % count == 0:
        return count
    batch = (
        f"a rank's {num_envs} environments, whole trajectories of which a recurrent policy learns,"
        if recurrent
        else f"a rank's batch of {num_envs} environments x {steps} steps = {rows} rows"
    )
    raise UsageError(
        f"agent.algorithm.num_mini_batches={count}: does not divide {batch}: {rows} / {count} "
        f"leaves {rows % count} over. Choose another number, or another --num-envs."
    )


def _is_recurrent(agent: Mapping[str, Any], model: str) -> bool:
    return class_of(agent.get(model) or {}) == "RNNModel"


def _whole(agent: Mapping[str, Any], key: str, default: int | None) -> int:
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key}={value}: must be a whole number, at least 1.")
    return value
