"""What rl_games' options say of an iteration, without importing rl_games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.agent_options import get_dotted
from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.types import Iteration

__all__ = ["iteration"]

_CONFIG = "params.config"
_SEQ_LENGTH = 4
"""What rl_games takes where a file does not say."""


def iteration(config: RunConfig) -> Iteration:
    """Return steps and number of the iterations that a run's options ask for.

    Raises:
        UsageError: mini-batches or sequences do not divide what a rank collects.
    """
    agent, last = config.agent, get_dotted(config.agent, f"{_CONFIG}.max_epochs", -1)
    iterations = config.max_iterations or (None if last == -1 else last)
    if get_dotted(agent, "params.algo.name", None) == "sac":
        rows = _whole(agent, f"{_CONFIG}.replay_buffer_size", None)
        steps = _whole(agent, f"{_CONFIG}.num_steps_per_episode", 1)
        return Iteration(steps, iterations, replay_rows=rows)
    steps = _whole(agent, f"{_CONFIG}.horizon_length", None)
    num_envs = config.num_envs or 0
    _check_mini_batches(agent, _CONFIG, steps, num_envs)
    if get_dotted(agent, f"{_CONFIG}.central_value_config", None) is not None:
        _check_mini_batches(agent, f"{_CONFIG}.central_value_config", steps, num_envs)
    return Iteration(steps, iterations)


def _check_mini_batches(agent: Mapping[str, Any], where: str, steps: int, num_envs: int) -> None:
    batch = steps * num_envs
    collected = f"a rank's batch of {batch} (horizon_length {steps} x {num_envs} environments)"
    if get_dotted(agent, f"{where}.minibatch_size", None):
        name, rows = "minibatch_size", _whole(agent, f"{where}.minibatch_size", None)
    elif get_dotted(agent, f"{where}.minibatch_size_per_env", None):
        name = "minibatch_size_per_env"
        rows = _whole(agent, f"{where}.{name}", None) * num_envs
    else:
        raise UsageError(
            f"agent.{where}.minibatch_size: must be given (or minibatch_size_per_env)."
        )
    value = get_dotted(agent, f"{where}.{name}")
    if batch % rows:
        raise UsageError(
            f"agent.{where}.{name} {value}: does not divide {collected}: {batch} / {rows} leaves "
            f"{batch % rows} over. Choose another size, or another --num-envs."
        )
    length = _whole(agent, f"{_CONFIG}.seq_length", _SEQ_LENGTH)
    # rl_games cuts every batch in sequences, also where no network is recurrent.
    recurrent = get_dotted(agent, "params.network.rnn", None) is not None
    whole = f"horizon_length {steps} and mini-batches of {rows}" if recurrent else collected
    if any(n % length for n in ((steps, rows) if recurrent else (batch,))):
        raise UsageError(f"agent.{_CONFIG}.seq_length {length}: does not divide {whole}.")


def _whole(agent: Mapping[str, Any], key: str, default: int | None) -> int:
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key} {value}: must be a whole number, at least 1.")
    return value
