"""Curriculum state of an environment, for suites whose environments have managers.

Isaac Lab and mjlab have the same ones. Their environments cannot save the whole simulation, but
what curricula change is little: counters, levels, and values in the managers' configurations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["Curricula", "HasCurricula"]

_MANAGERS = ("action", "command", "event", "observation", "reward", "termination")
_LEVELS = re.compile("level|difficult|curricul")
"""Found in the names of those tensors of an environment that are no part of the simulation."""
_FAILURES = "bin_failed_count"
"""Where commands that track a motion keep which of its parts are difficult."""
_NUMBER = (bool, int, float)

Place = tuple[str, Any, str]
"""A value's dotted name, its owner, and its name there."""


class Curricula:
    """Numbers, and tensors of levels, that have changed since an environment was made.

    - Numbers of the environment itself, such as `common_step_counter`.
    - Levels: of the terrain, and tensors of the environment whose names say so.
    - Numbers and tensors of curriculum terms that are objects.
    - Numbers in the configurations of managers, such as weights and ranges.
    - How often motion commands have failed, by part of the motion.
    """

    def __init__(self, env: Any) -> None:
        """Remember how it begins: `env` is the simulator's environment, as it was made."""
        self._env = env
        self._to_restore: Mapping[str, Any] | None = {}
        self._first = {name: _data(owner, key) for name, owner, key in _places(env)}

    def get_state(self) -> dict[str, Any]:
        """Return what has changed, by its dotted name: numbers, lists of numbers, and arrays."""
        state = {}
        for name, owner, key in _places(self._env):
            value = _data(owner, key)
            if name not in self._first or not np.array_equal(value, self._first[name]):
                state[name] = value
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned, where this environment has it.

        Tensors with a row for each environment are repeated, or cut, to as many as there are.

        Raises:
            ValueError: what was saved is of another kind than what is there.
        """
        for name, owner, key in list(_places(self._env)):
            if name in state:
                _restore(name, owner, key, state[name], self._env.num_envs)
        terrain = _terrain(self._env)
        if terrain is not None:  # It may have fewer rows than before.
            terrain.terrain_levels.clamp_(0, terrain.terrain_origins.shape[0] - 1)
        if self._to_restore is not None:
            self._to_restore = state

    def after_reset(self) -> None:
        """Restore again, after the first reset, what was set before it.

        The curriculum of a terrain takes the place where a robot was made for one to which it has
        walked.
        """
        self.set_state(self._to_restore or {})
        self._to_restore = None


class HasCurricula:
    """An environment whose curricula a run saves and sets. Its `reset` calls `after_reset`."""

    _curricula: Curricula

    def get_curricula(self) -> dict[str, Any]:
        """Return the state of curricula: counters, levels, changed weights and ranges."""
        return self._curricula.get_state()

    def set_curricula(self, state: Mapping[str, Any]) -> None:
        """Continue curricula from what `get_curricula` returned, of any number of environments."""
        self._curricula.set_state(state)


def _places(env: Any) -> Iterator[Place]:
    """Yield where there is something that a curriculum can change."""
    for key, value in list(vars(env).items()):
        levels = isinstance(value, torch.Tensor) and _LEVELS.search(key)
        if levels or type(value) in (int, float):
            yield key, env, key
    terrain = _terrain(env)
    if terrain is not None:
        yield "terrain_levels", terrain, "terrain_levels"
    terms = _parts(getattr(getattr(env, "curriculum_manager", None), "cfg", None))
    for name, term in terms.items():
        func = getattr(term, "func", None)
        for key, value in list(getattr(func, "__dict__", {}).items()):
            if type(value) in (int, float) or isinstance(value, torch.Tensor):
                yield f"curriculum.{name}.{key}", func, key
    commands: Any = getattr(env, "command_manager", None)
    for name in getattr(commands, "active_terms", ()):
        term = commands.get_term(name)
        if isinstance(getattr(term, _FAILURES, None), torch.Tensor):
            yield f"command.{name}.{_FAILURES}", term, _FAILURES
    for kind in _MANAGERS:
        manager = getattr(env, f"{kind}_manager", None)
        yield from _numbers(getattr(manager, "cfg", None), f"{kind}.", set())


def _terrain(env: Any) -> Any:
    """Return the terrain, if it has levels; Isaac Lab's direct tasks keep theirs themselves."""
    of_scene = getattr(getattr(env, "scene", None), "terrain", None)
    for terrain in (of_scene, vars(env).get("_terrain")):
        if isinstance(getattr(terrain, "terrain_levels", None), torch.Tensor):
            return terrain
    return None


def _numbers(node: Any, prefix: str, seen: set[int]) -> Iterator[Place]:
    """Yield the places of numbers, and of lists of numbers, in a configuration."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, value in _parts(node).items():
        if isinstance(value, _NUMBER) or _is_list_of_numbers(value):
            yield f"{prefix}{key}", node, key
        else:
            yield from _numbers(value, f"{prefix}{key}.", seen)


def _parts(node: Any) -> dict[str, Any]:
    """Return the parts of a configuration that can be set, by name."""
    if isinstance(node, dict):
        return {key: value for key, value in node.items() if isinstance(key, str)}
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {} if node.__dataclass_params__.frozen else dict(vars(node))  # type: ignore[attr-defined]
    return {}


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(x, _NUMBER) for x in value)


def _value(owner: Any, key: str) -> Any:
    return owner[key] if isinstance(owner, dict) else getattr(owner, key)


def _data(owner: Any, key: str) -> Any:
    """Return a value as data that does not change with it; tensors on the host."""
    value = _value(owner, key)
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone().numpy() if value.ndim else value.item()
    return list(value) if isinstance(value, (list, tuple)) else value


def _restore(name: str, owner: Any, key: str, saved: Any, num_envs: int) -> None:
    """Set a value to what was saved."""
    current = _value(owner, key)
    if isinstance(current, torch.Tensor) and current.ndim:
        if not isinstance(saved, np.ndarray):
            raise ValueError(f"{name} is no array")
        rows = torch.as_tensor(saved, dtype=current.dtype, device=current.device)
        if current.shape[0] == num_envs and rows.ndim and len(rows):
            rows = rows[torch.arange(num_envs, device=rows.device) % len(rows)]
        if rows.shape == current.shape:  # Else the task is another, as with another motion.
            current.copy_(rows)
        return
    is_list = isinstance(current, (list, tuple))
    if not (_is_list_of_numbers(saved) if is_list else isinstance(saved, _NUMBER)):
        raise ValueError(f"{name} is no {'list of numbers' if is_list else 'number'}")
    value = type(current)(saved) if is_list else saved
    if isinstance(owner, dict):
        owner[key] = value
    else:
        setattr(owner, key, value)
