"""Tries a user's task, one reset and one step: its mistakes are named before ranks start."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Space, Tuple
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rltrain.errors import UsageError, in_a_line

_STEP = "observation, reward, terminated, truncated, info"


def is_gymnasiums_own(spec: EnvSpec) -> bool:
    """Return whether Gymnasium itself has the task: that needs no trial."""
    entry: Any = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return f"{module}.".startswith("gymnasium.envs.") and not spec.additional_wrappers


def try_out(task: str, env: gymnasium.Env[Any, Any]) -> None:
    """Reset an environment and step it once, with a random action that is the same each time.

    `gymnasium.make` returns the environment; the caller closes it.
    """
    while isinstance(env, (OrderEnforcing, TimeLimit)):
        env = env.env  # They would fail where the task does, in words of their own.
    try:
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
    actions = copy.deepcopy(env.action_space)  # Its random generator may be shared.
    actions.seed(0)
    result = _called("step", lambda: env.step(actions.sample()))
    if not isinstance(result, tuple) or len(result) != 5:
        hint = f"End it with `return {_STEP}`."
        if isinstance(result, tuple) and len(result) == 4:
            hint = (
                "Four were right for Gym before 0.26: split `done` into terminated (the task is "
                "over) and truncated (time is up)."
            )
        raise _Wrong(
            f"step() must return five values, {_STEP}, and returned {_kinds(result)}. {hint}"
        )
    observation, reward, terminated, truncated, info = result
    _check_observation("step", env.observation_space, observation)
    for name, value, kinds, wanted in (
        ("reward", reward, "biuf", "one number"),
        ("terminated", terminated, "biu", "True or False"),
        ("truncated", truncated, "biu", "True or False"),
    ):
        array = _array(value)
        if array.shape != () or array.dtype.kind not in kinds:
            kind = "float" if name == "reward" else "bool"
            raise _Wrong(
                f"`{name}`, which step() returned, must be {wanted}, and is {_shown(value)}. "
                f"Return `{kind}({name})`."
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


def _check_observation(
    method: str, space: Space[Any], value: Any, name: str = "the observation", part_of: bool = False
) -> None:
    """Check that a value has the form of its space, whose bounds do not matter.

    Of dtypes all are fine that numpy casts within a kind, such as float64 to float32, as the vector
    environment does. A vector that is part of others is flattened: there only the number of its
    elements counts.
    """
    wanted, parts = "", dict[Any, Space[Any]]()
    if isinstance(space, Dict):
        parts = dict(space.spaces)
        if not isinstance(value, Mapping) or not set(parts) <= set(value):
            wanted = f"a dict with the keys {', '.join(map(repr, parts))}"
    elif isinstance(space, Tuple):
        parts = dict(enumerate(space.spaces))
        if not isinstance(value, (tuple, list)) or len(value) != len(parts):
            wanted = f"a tuple of {len(parts)}"
    elif isinstance(space, Box):
        array, flat = _array(value), part_of and len(space.shape) == 1
        fits = array.size == space.shape[0] if flat else array.shape == space.shape
        if not fits or not np.can_cast(array.dtype, space.dtype, "same_kind"):
            wanted = f"{space.dtype} of shape {space.shape}"
    elif not space.contains(value):
        wanted = f"in {space}"
    if wanted:
        raise _Wrong(
            f"{name} must be {wanted}, and is {_shown(value)}: {method}() must return what "
            "observation_space says."
        )
    for key, part in parts.items():
        _check_observation(method, part, value[key], f"{name}[{key!r}]", part_of=True)


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
        return f"a dict with the keys {', '.join(map(repr, value)) or '(none)'}"
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
