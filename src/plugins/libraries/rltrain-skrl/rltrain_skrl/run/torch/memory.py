"""The memories for torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from skrl.memories.torch import RandomMemory

from rltrain_skrl.run import memory
from rltrain_torch.moments import Moments


class PooledMemory(memory.PooledMemory, RandomMemory):
    """skrl's memory for torch; see `run/memory.py`.

    Attributes:
        bytes: names of the tensors that are stored as bytes, a quarter of the size of floats.
    """

    def __init__(self, **options: Any) -> None:
        """Make an empty memory; see `run/memory.py`."""
        super().__init__(**options)
        self.bytes: set[str] = set()

    def create_tensor(self, name: str, *, dtype: torch.dtype | None = None, **options: Any) -> bool:
        """Allocate a tensor; see skrl."""
        stored = torch.uint8 if name in self.bytes else dtype
        return bool(super().create_tensor(name, dtype=stored, **options))

    def _rows(self, names: list[str], indexes: Any, mini_batches: int) -> list[memory.Rows]:
        batches = RandomMemory.sample_by_index(
            self, names=names, indexes=indexes, mini_batches=mini_batches
        )
        return [dict(zip(names, batch, strict=True)) for batch in batches]


class RolloutMemory(memory.RolloutMemory, PooledMemory):
    """The memory for torch of an agent that learns from rollouts."""

    def _zero(self) -> torch.Tensor:
        zero: torch.Tensor = self._raw.new_zeros(1)
        return zero

    def _over_ranks(self, raw: torch.Tensor, moments: Moments) -> torch.Tensor:
        raw = raw.double()
        std = raw.std() + 1e-8
        std_over_ranks = moments.unbiased_variance.sqrt() + 1e-8
        shift = raw.mean() - moments.mean
        standardized: torch.Tensor = self.tensors["advantages"].double() * std + shift
        return standardized / std_over_ranks


class ReplayMemory(memory.ReplayMemory, PooledMemory):
    """The replay buffer for torch of one rank."""

    def _to_host(self, tensor: torch.Tensor, steps: int) -> np.ndarray:
        return tensor[:steps].cpu().numpy()

    def _fill(self, name: str, held: np.ndarray) -> None:
        self.tensors[name][: len(held)].copy_(torch.from_numpy(held))
