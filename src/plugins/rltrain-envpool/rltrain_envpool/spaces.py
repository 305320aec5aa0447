"""EnvPool's observations and actions, and what becomes of them for the libraries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo

__all__ = ["Actions", "Observations", "space_of"]

_GROUPS = {"state": "policy", "privileged_state": "critic"}
"""What MuJoCo Playground's robots observe, by our names."""

_Path = tuple[str, ...]


class Observations:
    """Makes float32 vectors of what EnvPool gives, one vector for each group.

    Tasks with an observation `privileged_state` beside `state` have the groups `critic` and
    `policy`; all other tasks have `policy` alone, with all of their parts one after another.
    A part with several axes is flattened; one of a number of choices becomes ones and zeros.

    Attributes:
        infos: the groups by name.
        space: one environment's observations, as libraries see them.
    """

    def __init__(self, task: str, spec: Any) -> None:
        """Plan the conversion.

        Raises:
            UsageError: the task is one of several players, or has images.
        """
        if spec.config.max_num_players > 1:
            raise UsageError(
                f"The task {task!r} is a game of {spec.config.max_num_players} players; only tasks "
                "of one agent can be learned."
            )
        space = space_of(spec, "observation_space")
        self._leaves: dict[str, list[tuple[_Path, Space[Any]]]] = {}
        grouped = isinstance(space, Dict) and set(space) == set(_GROUPS)
        for path, leaf in _leaves(space):
            _check_leaf(task, path, leaf)
            group = _GROUPS[path[0]] if grouped else "policy"
            self._leaves.setdefault(group, []).append((path, leaf))
        self._widths = {
            group: sum(_width(leaf) for _, leaf in leaves) for group, leaves in self._leaves.items()
        }
        self.infos: Mapping[str, ArrayInfo] = {
            group: ArrayInfo((width,)) for group, width in self._widths.items()
        }
        boxes: dict[str, Space[Any]] = {
            group: Box(-np.inf, np.inf, (width,), np.float32)
            for group, width in self._widths.items()
        }
        self.space = boxes["policy"] if len(boxes) == 1 else Dict(boxes)

    def encode(self, observed: Any, count: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return new arrays of what EnvPool gave.

        Args:
            observed: arrays of shape (count, ...), nested as EnvPool's space is.
            count: of how many environments.

        Returns:
            float32 of shape (count, components) for each group.
        """
        encoded = {}
        for group, leaves in self._leaves.items():
            rows = np.empty((count, self._widths[group]), np.float32)
            start = 0
            for path, leaf in leaves:
                end = start + _width(leaf)
                _encode(_at(observed, path), leaf, rows[:, start:end])
                start = end
            encoded[group] = rows
        return encoded


class Actions:
    """Makes EnvPool's actions of the libraries'.

    Numbers are clipped to their bounds: a policy with a normal distribution does not keep to them.
    Choices count from 0, also where the task's own do not.

    Attributes:
        kind: by the words of `TaskInfo.action`.
        sizes: by the rules of `TaskInfo.actions`.
        space: one environment's actions, as libraries see them.
    """

    def __init__(self, task: str, spec: Any) -> None:
        """Plan the conversion.

        Raises:
            UsageError: no library can act so.
        """
        space = space_of(spec, "action_space")
        *_, told = spec.action_array_spec.values()
        self._shape = tuple(size for size in told.shape if size != -1)
        self.kind: Literal["continuous", "discrete", "multi_discrete"]
        self.space: Space[Any]
        if isinstance(space, Discrete):
            self.kind, self.sizes = "discrete", (int(space.n),)
            self._low: Any = int(space.start)
            self.space = Discrete(self.sizes[0])
        elif isinstance(space, Box) and len(space.shape) == 1 and space.dtype.kind == "f":
            self.kind, self.sizes = "continuous", space.shape
            self._low, self._high = (bound.astype(np.float32) for bound in (space.low, space.high))
            self.space = Box(self._low, self._high, dtype=np.float32)
        elif isinstance(space, Box) and len(space.shape) == 1:
            counts = space.high.astype(np.int64) - space.low + 1
            self.kind, self.sizes = "multi_discrete", tuple(counts.tolist())
            self._low, self.space = space.low, MultiDiscrete(counts)
        else:
            raise UsageError(
                f"The task {task!r} has the action space {space}; only numbers and choices with "
                "one axis can be learned."
            )

    def decode(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the actions of all environments as EnvPool takes them."""
        rows = actions.reshape(len(actions), *self._shape)
        return rows.clip(self._low, self._high) if self.kind == "continuous" else rows + self._low


def space_of(made: Any, name: str) -> Any:
    """Return a space of EnvPool's; Gymnasium would warn of how its bounds are rounded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(made, name)


def _leaves(space: Any, path: _Path = ()) -> Iterator[tuple[_Path, Space[Any]]]:
    if isinstance(space, Dict):
        for name, part in space.spaces.items():
            yield from _leaves(part, (*path, name))
    else:
        yield path, space


def _check_leaf(task: str, path: _Path, leaf: Space[Any]) -> None:
    image = isinstance(leaf, Box) and len(leaf.shape) == 3 and leaf.dtype == np.uint8
    if image or not isinstance(leaf, (Box, Discrete, MultiBinary)):
        where = f" in {'.'.join(path)}" if path else ""
        what = "images" if image else "the space"
        raise UsageError(
            f"The task {task!r} has {what} {leaf}{where}; of EnvPool's tasks only those whose "
            "observations are numbers are supported."
        )


def _width(leaf: Space[Any]) -> int:
    return int(leaf.n) if isinstance(leaf, Discrete) else int(np.prod(leaf.shape or ()))


def _at(observed: Any, path: _Path) -> Any:
    for name in path:
        observed = observed[name]
    return observed


def _encode(values: Any, leaf: Space[Any], rows: npt.NDArray[np.float32]) -> None:
    if isinstance(leaf, Discrete):
        choices = np.asarray(values).reshape(-1, 1) - leaf.start
        rows[:] = choices == np.arange(leaf.n)
    else:
        rows[:] = np.asarray(values).reshape(rows.shape)
