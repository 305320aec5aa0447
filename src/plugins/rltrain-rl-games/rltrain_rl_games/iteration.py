"""What rl_games' options say of an iteration, without importing rl_games."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.types import Iteration

__all__ = ["iteration", "scale_mini_batches"]

_CONFIG = "params.config"
_CENTRAL = f"{_CONFIG}.central_value_config"
_SEQ_LENGTH = 4
"""What rl_games takes where a file does not say."""


def iteration(config: RunConfig) -> Iteration:
    """Return steps and number of the iterations that a run's options ask for.

    Raises:
        UsageError: mini-batches or sequences do not divide what a rank collects.
    """
    agent, last = config.agent, get_dotted(config.agent, f"{_CONFIG}.max_epochs", -1)
    iterations = config.max_iterations or (None if last == -1 else last)
    if _is_sac(agent):
        rows = _whole(agent, f"{_CONFIG}.replay_buffer_size", None)
        steps = _whole(agent, f"{_CONFIG}.num_steps_per_episode", 1)
        return Iteration(steps, iterations, replay_rows=rows)
    steps = _whole(agent, f"{_CONFIG}.horizon_length", None)
    num_envs = config.num_envs or 0
    count = _check_mini_batches(agent, _CONFIG, steps, num_envs)
    if get_dotted(agent, _CENTRAL, None) is not None:
        _check_mini_batches(agent, _CENTRAL, steps, num_envs)
    return Iteration(steps, iterations, mini_batches=count)


def scale_mini_batches(
    agent: Mapping[str, Any], written_for: int, num_envs: int
) -> Mapping[str, Any]:
    """Return options whose `minibatch_size` gives as many mini-batches as it did.

    `minibatch_size_per_env` does so by itself, and SAC's batches are drawn from a replay buffer.

    Args:
        agent: all options.
        written_for: the number of environments that they were written for.
        num_envs: that a rank has.

    Raises:
        UsageError: the size does not fit `written_for`, or the number `num_envs`.
    """
    scaled = copy.deepcopy(dict(agent))
    for where in () if _is_sac(agent) else (_CONFIG, _CENTRAL):
        if get_dotted(agent, f"{where}.minibatch_size", None):
            size = _scaled(agent, where, written_for, num_envs)
            set_dotted(scaled, f"{where}.minibatch_size", size)
    return scaled


def _scaled(agent: Mapping[str, Any], where: str, written_for: int, num_envs: int) -> int:
    steps = _whole(agent, f"{_CONFIG}.horizon_length", None)
    size = _whole(agent, f"{where}.minibatch_size", None)
    count, rest = divmod(steps * written_for, size)
    if rest or not count:
        raise UsageError(
            f"--scale-minibatches: agent.{where}.minibatch_size {size} does not divide "
            f"horizon_length {steps} x {written_for} environments, which the options are taken to "
            "be written for. If that is another number, write it into the file "
            f"({_CONFIG}.num_actors), or give agent.{where}.minibatch_size."
        )
    # Of a recurrent network every mini-batch has whole sequences.
    unit = _whole(agent, f"{_CONFIG}.seq_length", _SEQ_LENGTH) if _is_recurrent(agent) else 1
    if steps * num_envs % (count * unit):
        step = count * unit // math.gcd(count * unit, steps)
        raise UsageError(
            f"--scale-minibatches: the {count} mini-batches that agent.{where} has for "
            f"{written_for} environments do not divide a rank's batch of {steps * num_envs} "
            f"(horizon_length {steps} x {num_envs} environments)"
            f"{f' into sequences of {unit}' if unit > 1 else ''}. "
            f"Take a --num-envs that is divisible by {step}."
        )
    return steps * num_envs // count


def _is_sac(agent: Mapping[str, Any]) -> bool:
    return bool(get_dotted(agent, "params.algo.name", None) == "sac")


def _is_recurrent(agent: Mapping[str, Any]) -> bool:
    return get_dotted(agent, "params.network.rnn", None) is not None


def _check_mini_batches(agent: Mapping[str, Any], where: str, steps: int, num_envs: int) -> int:
    """Return how many mini-batches there are; they must divide what a rank collects."""
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
        # A size that goes by the environment has nothing to scale.
        scale = (
            "Give --scale-minibatches to keep the number of mini-batches that the file was written "
            "for, or c"
            if name == "minibatch_size"
            else "C"
        )
        raise UsageError(
            f"agent.{where}.{name} {value}: does not divide {collected}: {batch} / {rows} leaves "
            f"{batch % rows} over. {scale}hoose another size, or another --num-envs."
        )
    length = _whole(agent, f"{_CONFIG}.seq_length", _SEQ_LENGTH)
    # rl_games cuts every batch in sequences, also where no network is recurrent.
    recurrent = _is_recurrent(agent)
    whole = f"horizon_length {steps} and mini-batches of {rows}" if recurrent else collected
    if any(n % length for n in ((steps, rows) if recurrent else (batch,))):
        raise UsageError(f"agent.{_CONFIG}.seq_length {length}: does not divide {whole}.")
    return batch // rows


def _whole(agent: Mapping[str, Any], key: str, default: int | None) -> int:
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key} {value}: must be a whole number, at least 1.")
    return value
