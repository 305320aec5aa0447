"""Converts between EnvPool's observations and actions and those of the libraries."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo

_GROUPS = {"state": "policy", "privileged_state": "critic"}
"""rltrain's names of the observation groups of MuJoCo Playground's robots."""

_Path = tuple[str, ...]


class Observations:
    """Converts EnvPool's observations to float32 vectors, one for each group.

    Tasks that observe exactly `state` and `privileged_state` have the groups `policy` and `critic`;
    all other tasks have only `policy`, the concatenation of all parts. A part with several axes is
    flattened; a discrete part is one-hot encoded.
    """

    def __init__(self, task: str, spec: Any) -> None:
        """Plan the conversion."""
        if spec.config.max_num_players > 1:
            raise UsageError(
                f"The task {task!r} is a game of {spec.config.max_num_players} players; only tasks "
                "with one agent are supported. Choose one of those."
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
        """Convert arrays of shape (count, ...), nested like EnvPool's space, to the groups.

        They are not copied where they fit as they are: each call of EnvPool returns new ones.
        """
        return {group: self._encode(group, observed, count) for group in self._leaves}

    def _encode(self, group: str, observed: Any, count: int) -> npt.NDArray[np.float32]:
        leaves, width = self._leaves[group], self._widths[group]
        if len(leaves) == 1 and not isinstance(leaves[0][1], Discrete):
            values = np.asarray(_at(observed, leaves[0][0]))
            return values.reshape(count, width).astype(np.float32, copy=False)
        rows = np.empty((count, width), np.float32)
        start = 0
        for path, leaf in leaves:
            end = start + _width(leaf)
            _encode(_at(observed, path), leaf, rows[:, start:end])
            start = end
        return rows


class Actions:
    """Converts the libraries' actions to EnvPool's.

    Continuous actions are clipped to their bounds, because a Gaussian policy exceeds them. Discrete
    actions count from 0, even if the task's do not.
    """

    def __init__(self, task: str, spec: Any) -> None:
        """Plan the conversion."""
        space = space_of(spec, "action_space")
        *_, array_spec = spec.action_array_spec.values()
        self._shape = tuple(size for size in array_spec.shape if size != -1)
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
                f"The task {task!r} has the action space {space}; only continuous and discrete "
                "actions with one axis are supported. Choose a task that has these."
            )

    def decode(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert the actions of all environments to EnvPool's format."""
        rows = actions.reshape(len(actions), *self._shape)
        return rows.clip(self._low, self._high) if self.kind == "continuous" else rows + self._low


def space_of(made: Any, name: str) -> Any:
    """Return a space of EnvPool, without Gymnasium's warning that its bounds lose precision."""
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
            f"The task {task!r} has {what} {leaf}{where}; of EnvPool's tasks only those with "
            "numeric observations are supported. `rltrain tasks --suite envpool` lists them."
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
