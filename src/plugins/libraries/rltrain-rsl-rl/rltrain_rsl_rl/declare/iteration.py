"""The steps and mini-batches of an iteration, from rsl_rl's options. Does not import rsl_rl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain.types import Iteration
from rltrain_adapters import get_positive_int
from rltrain_rsl_rl.declare.older import check_supported, upgrade_options
from rltrain_rsl_rl.declare.options import DISTILLATION_NAMES, class_of

MINI_BATCHES = 4
"""rsl_rl's default for `algorithm.num_mini_batches`."""


def iteration(config: RunConfig) -> Iteration:
    """Return the size and number of a run's iterations.

    Mini-batches must divide a rank's batch, of which rsl_rl would ignore the rest, and the
    installed rsl_rl must not be too old for an option.
    """
    agent = upgrade_options(config.agent)
    check_supported(agent)
    steps, count = get_positive_int(agent, "num_steps_per_env"), None
    if get_dotted(agent, "algorithm.class_name", None) not in DISTILLATION_NAMES:
        count = _mini_batches(agent, steps, config.num_envs or 0)
    iterations = config.max_iterations or agent.get("max_iterations")
    return Iteration(steps, iterations, mini_batches=count)


def _mini_batches(agent: Mapping[str, Any], steps: int, num_envs: int) -> int:
    """Return the number of mini-batches; they must divide a rank's batch."""
    count = get_positive_int(agent, "algorithm.num_mini_batches", MINI_BATCHES)
    recurrent = "RNNModel" in (class_of(agent.get(x) or {}) for x in ("actor", "critic"))
    # Recurrent mini-batches consist of whole trajectories of some environments.
    rows = num_envs if recurrent else num_envs * steps
    if recurrent and num_envs == count:
        raise UsageError(
            f"agent.algorithm.num_mini_batches={count}: a mini-batch of a recurrent policy would "
            "have one environment, with which rsl_rl multiplies every step's ratio by every step's "
            "advantage. Choose fewer mini-batches, or a larger --num-envs."
        )
    if rows % count == 0:
        return count
    batch = f"a rank's batch of {num_envs} environments x {steps} steps = {rows} rows"
    if recurrent:
        batch = f"a rank's {num_envs} environments, whose whole trajectories form the mini-batches"
    raise UsageError(
        f"agent.algorithm.num_mini_batches={count}: does not divide {batch}: {rows} / {count} "
        f"leaves {rows % count} over. Choose another number, or another --num-envs."
    )
