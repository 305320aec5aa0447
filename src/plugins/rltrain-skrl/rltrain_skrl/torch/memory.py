"""The memories: they know what an update is going to meet, and have its moments pooled at once."""

from __future__ import annotations

from typing import Any

import torch
from skrl.memories.torch import RandomMemory

from rltrain_skrl.torch.moment_pool import MomentPool
from rltrain_skrl.torch.scaler import PooledScaler, Unscaled
from rltrain_torch.moments import Moments

__all__ = ["PooledMemory", "RolloutMemory"]


class PooledMemory(RandomMemory):
    """skrl's memory; the scalers of what is drawn from it wait for other ranks once for each draw.

    Attributes:
        scalers: by the name of a tensor in the memory, the scaler that it may train.
        bytes: names of the tensors that are kept as bytes, a quarter of what floats would need.
    """

    # skrl's, used by this class and those below.
    tensors: dict[str, torch.Tensor]

    def __init__(self, *, pool: MomentPool, **options: Any) -> None:
        """Make an empty memory.

        Args:
            pool: the one of the scalers.
            options: skrl's own.
        """
        super().__init__(**options)
        self._pool = pool
        self.scalers: dict[str, PooledScaler] = {}
        self.bytes: set[str] = set()

    def create_tensor(self, name: str, *, dtype: torch.dtype | None = None, **options: Any) -> bool:
        """Make room for a tensor; see skrl."""
        kept = torch.uint8 if name in self.bytes else dtype
        return bool(super().create_tensor(name, dtype=kept, **options))

    def sample_by_index(
        self, names: list[str], *, indexes: Any, mini_batches: int = 1
    ) -> list[list[torch.Tensor | None]]:
        """Return mini-batches of rows; see skrl."""
        scaled = [name for name in names if name in self.scalers]
        others = [name for name in names if name not in self.scalers]
        cut = {"indexes": indexes, "mini_batches": mini_batches}
        first = super().sample_by_index(names=scaled, **cut)
        self._expect(scaled, first)
        # Only now: what is left of a rollout may have been standardised together with the first.
        rest = super().sample_by_index(names=others, **cut)
        order = [[*scaled, *others].index(name) for name in names]
        return [
            [[*left, *right][place] for place in order]
            for left, right in zip(first, rest, strict=True)
        ]

    def _expect(self, names: list[str], batches: list[list[torch.Tensor | None]]) -> None:
        if self._pool.group.world_size > 1:
            means = [self.scalers[name].running_mean for name in names]
            pairs = [pair for batch in batches for pair in zip(batch, means, strict=True)]
            self._pool.expect([(data, about) for data, about in pairs if data is not None])


class RolloutMemory(PooledMemory):
    """The memory of an agent that learns from rollouts.

    Values, returns and advantages are standardised over all ranks, in one collective together with
    what the first epoch is going to meet.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._unscaled: dict[str, Unscaled] = {}
        self._raw: torch.Tensor | None = None

    def set_tensor_by_name(self, name: str, tensor: torch.Tensor | Unscaled) -> None:
        """Set a tensor, shape (T, N, D); see skrl.

        Its agents set, in this order: values and returns, standardised if they have a scaler; then
        advantages, which they have standardised over this rank's rollout.
        """
        if isinstance(tensor, Unscaled):
            self._unscaled[name] = tensor
            tensor = tensor.data
        super().set_tensor_by_name(name, tensor)
        if name == "advantages" and self._pool.group.world_size > 1:
            # What skrl standardised. It is told only by what it is taken from and added to.
            self._raw = (self.tensors["returns"] - self.tensors["values"]).reshape(-1, 1)

    def _expect(self, names: list[str], batches: list[list[torch.Tensor | None]]) -> None:
        super()._expect(names, batches)
        if self._raw is None:
            return
        waiting = [(x.rows, x.scaler.running_mean) for x in self._unscaled.values()]
        *pooled, advantages = self._pool.pool([*waiting, (self._raw, self._raw.new_zeros(1))])
        for (name, unscaled), moments in zip(self._unscaled.items(), pooled, strict=True):
            unscaled.scaler.merge(moments)
            super().set_tensor_by_name(name, PooledScaler.forward(unscaled.scaler, unscaled.data))
        self._restandardise(self._raw.double(), advantages)
        self._unscaled, self._raw = {}, None

    def _restandardise(self, raw: torch.Tensor, over_ranks: Moments) -> None:
        """Standardise the advantages over all ranks instead of this one, as skrl does.

        It is done from the standardised ones, by the moments of the others: a difference of returns
        and values has lost digits, which its moments hardly miss.
        """
        here, spread = raw.mean(), raw.std() + 1e-8
        count = over_ranks.count
        spread_over_ranks = (over_ranks.variance * count / (count - 1)).sqrt() + 1e-8
        shift = here - over_ranks.mean
        standardised = (self.tensors["advantages"].double() * spread + shift) / spread_over_ranks
        super().set_tensor_by_name("advantages", standardised)
