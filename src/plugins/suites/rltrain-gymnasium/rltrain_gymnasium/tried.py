"""Tries a user's task, one reset and one step: its mistakes are named before ranks start."""

from __future__ import annotations

import copy
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Space, Tuple
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rltrain.errors import UsageError, in_a_line

_OWN = "gymnasium.envs"
_STEP = "observation, reward, terminated, truncated, info"


def is_gymnasiums_own(spec: EnvSpec) -> bool:
    """Return whether Gymnasium itself has the task: that needs no trial."""
    entry: Any = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return f"{module}.".startswith(f"{_OWN}.") and not spec.additional_wrappers


def try_out(task: str, env: gymnasium.Env[Any, Any]) -> None:
    """Reset an environment and step it once, with a random action that is the same each time.

    The global random generators are left as they were.

    Args:
        task: the task's name, for messages.
        env: as `gymnasium.make` returns it; the caller closes it.
    """
    while isinstance(env, (OrderEnforcing, TimeLimit)):
        env = env.env  # They would fail where the task does, in words of their own.
    try:
        with _generators_kept():
            _try_reset(env)
            _try_step(env)
    except _Wrong as wrong:
        raise UsageError(f"The task {task!r}: {wrong}") from wrong.__cause__


class _Wrong(Exception):
    """What is wrong, and what to do."""


def _try_reset(env: gymnasium.Env[Any, Any]) -> None:
    result = _called("reset", lambda: env.reset(seed=0, options=None))
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise _Wrong(
            f"reset() must return two values, the observation and a dict, and returned "
            f"{_kinds(result)}. End it with `return observation, {{}}`."
        )
    _check_observation("reset", env.observation_space, result[0])


def _try_step(env: gymnasium.Env[Any, Any]) -> None:
    actions = copy.deepcopy(env.action_space)  # Its random generator may be others' too.
    actions.seed(0)
    result = _called("step", lambda: env.step(actions.sample()))
    if not isinstance(result, tuple) or len(result) != 5:
        old = isinstance(result, tuple) and len(result) == 4
        raise _Wrong(
            f"step() must return five values, {_STEP}, and returned {_kinds(result)}. "
            + (
                "Four were right for Gym before 0.26: split `done` into terminated (the task is "
                "over) and truncated (time is up)."
                if old
                else f"End it with `return {_STEP}`."
            )
        )
    observation, reward, terminated, truncated, info = result
    _check_observation("step", env.observation_space, observation)
    if not _is_scalar(reward, "biuf"):
        raise _Wrong(
            f"the reward that step() returned must be one number, and is {_shown(reward)}. "
            "Return `float(reward)`."
        )
    for name, flag in {"terminated": terminated, "truncated": truncated}.items():
        if not _is_scalar(flag, "biu"):
            raise _Wrong(
                f"`{name}`, which step() returned, must be True or False, and is {_shown(flag)}. "
                f"Return `bool({name})`."
            )
    if not isinstance(info, Mapping):
        raise _Wrong(f"the info that step() returned must be a dict, and is {_shown(info)}.")


def _called(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Exception, SystemExit, GeneratorExit) as error:
        unknown = re.search(r"reset\(\) got an unexpected keyword .*'(seed|options)'", str(error))
        if name == "reset" and unknown:
            raise _Wrong(
                f"reset() takes no `{unknown[1]}`. Define it as "
                "`def reset(self, *, seed=None, options=None)`, and begin with "
                "`super().reset(seed=seed)`."
            ) from error
        raise _Wrong(f"{name}() raised {in_a_line(error, placed=True)}.") from error


def _check_observation(method: str, space: Space[Any], observation: Any) -> None:
    for wrong in _misfits(space, observation, "the observation"):
        raise _Wrong(f"{wrong}: {method}() must return what observation_space says.")


def _misfits(space: Space[Any], value: Any, name: str, part_of: bool = False) -> Iterator[str]:
    """Yield where a value has not the form of its space.

    Bounds are not looked at. Of dtypes all are fine that numpy casts within a kind, such as float64
    to float32, as the vector environment does. A vector that is part of others is flattened: there
    only the number of its elements counts.
    """
    if isinstance(space, Dict):
        if not isinstance(value, Mapping) or not set(space.spaces) <= set(value):
            keys = ", ".join(map(repr, space.spaces))
            yield f"{name} must be a dict with the keys {keys}, and is {_shown(value)}"
            return
        for key, part in space.spaces.items():
            yield from _misfits(part, value[key], f"{name}[{key!r}]", part_of=True)
    elif isinstance(space, Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            yield f"{name} must be a tuple of {len(space.spaces)}, and is {_shown(value)}"
            return
        for index, part in enumerate(space.spaces):
            yield from _misfits(part, value[index], f"{name}[{index}]", part_of=True)
    elif isinstance(space, Box):
        array = _array(value)
        fits = array.shape == space.shape
        if part_of and len(space.shape) == 1:
            fits = array.size == space.shape[0]
        if not fits or not np.can_cast(array.dtype, space.dtype, "same_kind"):
            wanted = f"{space.dtype} of shape {space.shape}"
            yield f"{name} must be {wanted}, and is {_shown(value)}"
    elif not space.contains(value):
        yield f"{name} must be in {space}, and is {_shown(value)}"


def _is_scalar(value: Any, kinds: str) -> bool:
    array = _array(value)
    return array.shape == () and array.dtype.kind in kinds


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as an array; what numpy cannot take as one of an object."""
    try:
        return np.asarray(value)
    except Exception:  # Sequences of several lengths, tensors of a GPU.
        array = np.empty((), dtype=object)
        array[()] = value
        return array


def _shown(value: Any) -> str:
    """Describe a value in a few words: what it is, not what is in it."""
    if isinstance(value, Mapping):
        keys = ", ".join(map(repr, value))
        return f"a dict with the keys {keys}" if keys else "a dict without keys"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    array = _array(value)
    if hasattr(value, "shape") and array.dtype != object:
        return f"{array.dtype} of shape {array.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"of type {type(value).__name__}"


def _kinds(result: Any) -> str:
    if not isinstance(result, tuple):
        return _shown(result)
    return f"{len(result)}: {', '.join(map(_shown, result))}"


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Restore the global random generators afterwards."""
    python, numpy, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    drawn = torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch:
            torch.set_rng_state(drawn)
