"""The steps and mini-batches of an iteration, from rl_games' options. Does not import rl_games."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.types import Iteration
from rltrain_adapters import get_positive_int
from rltrain_rl_games.declare.options import CENTRAL

_CONFIG = "params.config"
_SEQ_LENGTH = 4
"""rl_games' default for `seq_length`."""


def iteration(config: RunConfig) -> Iteration:
    """Return the size and number of a run's iterations; mini-batches must divide a rank's batch."""
    agent, last = config.agent, get_dotted(config.agent, f"{_CONFIG}.max_epochs", -1)
    iterations = config.max_iterations or (None if last == -1 else last)
    if _is_sac(agent):
        rows = get_positive_int(agent, f"{_CONFIG}.replay_buffer_size")
        steps = get_positive_int(agent, f"{_CONFIG}.num_steps_per_episode", 1)
        return Iteration(steps, iterations, replay_rows=rows)
    steps = get_positive_int(agent, f"{_CONFIG}.horizon_length")
    num_envs = config.num_envs or 0
    count = _check_mini_batches(agent, _CONFIG, steps, num_envs)
    if get_dotted(agent, CENTRAL, None) is not None:
        _check_mini_batches(agent, CENTRAL, steps, num_envs)
    return Iteration(steps, iterations, mini_batches=count)


def scale_mini_batches(
    agent: Mapping[str, Any], written_for: int, num_envs: int
) -> Mapping[str, Any]:
    """Return options with a `minibatch_size` that keeps the number of mini-batches.

    The options were written for `written_for` environments; a rank has `num_envs`.
    `minibatch_size_per_env` needs no scaling, nor does SAC, which samples from a replay buffer.
    """
    scaled = copy.deepcopy(dict(agent))
    for where in () if _is_sac(agent) else (_CONFIG, CENTRAL):
        if get_dotted(agent, f"{where}.minibatch_size", None):
            size = _scaled(agent, where, written_for, num_envs)
            set_dotted(scaled, f"{where}.minibatch_size", size)
    return scaled


def _scaled(agent: Mapping[str, Any], where: str, written_for: int, num_envs: int) -> int:
    steps = get_positive_int(agent, f"{_CONFIG}.horizon_length")
    size = get_positive_int(agent, f"{where}.minibatch_size")
    count, rest = divmod(steps * written_for, size)
    if rest or not count:
        raise UsageError(
            f"--scale-minibatches: agent.{where}.minibatch_size {size} does not divide "
            f"horizon_length {steps} x {written_for} environments, the number that the options "
            "seem to be written for. If it is another number, write it into the file "
            f"({_CONFIG}.num_actors), or give agent.{where}.minibatch_size."
        )
    # A recurrent network's mini-batches consist of whole sequences.
    unit = 1
    if _is_recurrent(agent):
        unit = get_positive_int(agent, f"{_CONFIG}.seq_length", _SEQ_LENGTH)
    if steps * num_envs % (count * unit):
        step = count * unit // math.gcd(count * unit, steps)
        raise UsageError(
            f"--scale-minibatches: the {count} mini-batches that agent.{where} has for "
            f"{written_for} environments do not divide a rank's batch of {steps * num_envs} "
            f"(horizon_length {steps} x {num_envs} environments)"
            f"{f' into sequences of {unit}' if unit > 1 else ''}. "
            f"Choose a --num-envs that is divisible by {step}."
        )
    return steps * num_envs // count


def _is_sac(agent: Mapping[str, Any]) -> bool:
    return bool(get_dotted(agent, "params.algo.name", None) == "sac")


def _is_recurrent(agent: Mapping[str, Any]) -> bool:
    return get_dotted(agent, "params.network.rnn", None) is not None


def _check_mini_batches(agent: Mapping[str, Any], where: str, steps: int, num_envs: int) -> int:
    """Return the number of mini-batches; they must divide a rank's batch."""
    batch = steps * num_envs
    collected = f"a rank's batch of {batch} (horizon_length {steps} x {num_envs} environments)"
    if get_dotted(agent, f"{where}.minibatch_size", None):
        name, rows = "minibatch_size", get_positive_int(agent, f"{where}.minibatch_size")
    elif get_dotted(agent, f"{where}.minibatch_size_per_env", None):
        name = "minibatch_size_per_env"
        rows = get_positive_int(agent, f"{where}.{name}") * num_envs
    else:
        raise UsageError(
            f"agent.{where}.minibatch_size: must be given (or minibatch_size_per_env)."
        )
    value = get_dotted(agent, f"{where}.{name}")
    if batch % rows:
        # --scale-minibatches does not change a size per environment.
        scale = " --scale-minibatches," if name == "minibatch_size" else ""
        raise UsageError(
            f"agent.{where}.{name} {value}: does not divide {collected}: {batch} / {rows} leaves "
            f"{batch % rows} over. Choose another size,{scale} or another --num-envs."
        )
    length = get_positive_int(agent, f"{_CONFIG}.seq_length", _SEQ_LENGTH)
    # rl_games splits every batch into sequences, even if no network is recurrent.
    recurrent = _is_recurrent(agent)
    divided = f"horizon_length {steps} and mini-batches of {rows}" if recurrent else collected
    if any(n % length for n in ((steps, rows) if recurrent else (batch,))):
        raise UsageError(f"agent.{_CONFIG}.seq_length {length}: does not divide {divided}.")
    return batch // rows
