"""The memories: they announce what an update is about to standardize, for every framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain_skrl.run.normalizers import DeferredStandardization, MomentPool

Rows = dict[str, Any]
"""Rows of a mini-batch, by the names of their tensors."""


class PooledMemory:
    """Mixin for skrl's memory: the scalers of a sample's tensors share one collective.

    Attributes:
        scalers: by the name of a tensor in the memory, the scaler that skrl may train on it.
    """

    # skrl's, used by this class and those below.
    tensors: dict[str, Any]
    memory_size: int
    memory_index: int
    num_envs: int
    filled: bool

    def __init__(self, *, pool: MomentPool, **options: Any) -> None:
        """Make an empty memory."""
        super().__init__(**options)
        self._pool = pool
        self.scalers: dict[str, Any] = {}

    @abstractmethod
    def _rows(self, names: list[str], indexes: Any, mini_batches: int) -> list[Rows]:
        """Return the rows of each mini-batch; a tensor that does not exist is None or missing."""

    def sample_by_index(
        self, names: list[str], *, indexes: Any, mini_batches: int = 1
    ) -> list[list[Any]]:
        """Return mini-batches of rows; see skrl."""
        scaled = [name for name in names if name in self.scalers]
        first = self._rows(scaled, indexes, mini_batches)
        self._expect(first)
        # Only now: `_expect` may standardize what is left of a rollout, together with the first.
        others = [name for name in names if name not in self.scalers]
        rest = self._rows(others, indexes, mini_batches)
        return [
            [(left | right).get(name) for name in names]
            for left, right in zip(first, rest, strict=True)
        ]

    def _expect(self, batches: list[Rows]) -> None:
        """Have the pool expect the rows that have a scaler."""
        if self._pool.is_used:
            means = {name: scaler.running_mean for name, scaler in self.scalers.items()}
            rows = [item for batch in batches for item in batch.items()]
            self._pool.expect([(data, means[name]) for name, data in rows if data is not None])


class RolloutMemory(PooledMemory):
    """The memory of an agent that learns from rollouts.

    One collective standardizes values, returns and advantages over all ranks, and pools the moments
    of what the first epoch samples.
    """

    def __init__(self, **options: Any) -> None:
        """Make an empty memory; see `PooledMemory`."""
        super().__init__(**options)
        self._unscaled: dict[str, DeferredStandardization] = {}
        self._raw: Any = None

    @abstractmethod
    def _zero(self) -> Any:
        """Return a zero of shape (1,), with the dtype of the advantages."""

    @abstractmethod
    def _over_ranks(self, raw: Any, moments: Any) -> Any:
        """Return the advantages in the memory as standardized over all ranks, as skrl would do it.

        From those that this rank has standardized: they have more digits than the raw ones, shape
        (T * N, 1), which are a difference of returns and values. The moments of all ranks' raw ones
        are exact enough.
        """

    def set_tensor_by_name(self, name: str, tensor: Any) -> None:
        """Set a tensor, shape (T, N, D); see skrl.

        Its agents set, in this order: values and returns, standardized if they have a scaler; then
        advantages, which they have standardized over this rank's rollout.
        """
        if isinstance(tensor, DeferredStandardization):
            self._unscaled[name] = tensor
            tensor = tensor.data
        super().set_tensor_by_name(name, tensor)  # type: ignore[misc]
        if name == "advantages" and self._pool.is_used:
            # skrl returns only the standardized ones. By its definition of returns, this is what
            # they were before.
            self._raw = (self.tensors["returns"] - self.tensors["values"]).reshape(-1, 1)

    def _expect(self, batches: list[Rows]) -> None:
        super()._expect(batches)
        if self._raw is not None:
            self._standardize_rollout()

    def _standardize_rollout(self) -> None:
        """Standardize values, returns and advantages over all ranks. Collective."""
        waiting = [(x.rows, x.scaler.running_mean) for x in self._unscaled.values()]
        *pooled, advantages = self._pool.pool([*waiting, (self._raw, self._zero())])
        store = super().set_tensor_by_name  # type: ignore[misc]
        for (name, unscaled), moments in zip(self._unscaled.items(), pooled, strict=True):
            unscaled.scaler.merge(moments)
            store(name, unscaled.scaler(unscaled.data))
        store("advantages", self._over_ranks(self._raw, advantages))
        self._unscaled, self._raw = {}, None


class ReplayMemory(PooledMemory):
    """The replay buffer of one rank, which can be saved in a checkpoint."""

    def __init__(self, *, save_replay_buffer: bool = False, **options: Any) -> None:
        """Make an empty buffer, to be saved in checkpoints or not; see `PooledMemory`."""
        super().__init__(**options)
        self.save_replay_buffer = save_replay_buffer

    @abstractmethod
    def _to_host(self, tensor: Any, steps: int) -> np.ndarray:
        """Return the first steps of a tensor."""

    @abstractmethod
    def _fill(self, name: str, held: np.ndarray) -> None:
        """Set the first steps of a tensor."""

    def get_state(self) -> dict[str, Any]:
        """Return the contents, on the host; arrays of shape (steps, num_envs, ...)."""
        steps = self.memory_size if self.filled else self.memory_index
        return {
            "memory_index": self.memory_index,
            "filled": self.filled,
            "tensors": {name: self._to_host(x, steps) for name, x in self.tensors.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        for name, tensor in self.tensors.items():
            held, shape = state["tensors"][name], tuple(tensor.shape)
            full, more = len(held) == len(tensor), len(held) > len(tensor)
            if more or full != state["filled"] or held.shape[1:] != shape[1:]:
                raise ValueError(
                    f"it holds {held.shape} {name}, but memory_size={self.memory_size} asks for "
                    f"{shape}"
                )
            self._fill(name, held)
        self.memory_index, self.filled = int(state["memory_index"]), bool(state["filled"])
