"""The replay buffer of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rltrain_skrl.torch.memory import PooledMemory

__all__ = ["ReplayMemory"]


class ReplayMemory(PooledMemory):
    """skrl's memory, which can be put into a checkpoint."""

    # skrl's, used by this class.
    memory_index: int
    filled: bool

    def __init__(self, *, save_replay_buffer: bool = False, **options: Any) -> None:
        """Make an empty buffer.

        Args:
            save_replay_buffer: whether checkpoints are to hold what is in it.
            options: `PooledMemory`'s.
        """
        super().__init__(**options)
        self.save_replay_buffer = save_replay_buffer

    def get_state(self) -> dict[str, Any]:
        """Return what the buffer holds, on the host; arrays of shape (steps, num_envs, ...)."""
        steps = self.memory_size if self.filled else self.memory_index
        return {
            "memory_index": self.memory_index,
            "filled": self.filled,
            "tensors": {name: x[:steps].cpu().numpy() for name, x in self.tensors.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Hold what the buffer held that returned this.

        Raises:
            ValueError: it was of another size.
        """
        for name, tensor in self.tensors.items():
            held = torch.from_numpy(state["tensors"][name])
            full, more = len(held) == len(tensor), len(held) > len(tensor)
            if more or full != state["filled"] or held[:0].shape != tensor[:0].shape:
                raise ValueError(
                    f"it holds {tuple(held.shape)} {name}, but memory_size={self.memory_size} asks "
                    f"for {tuple(tensor.shape)}"
                )
            tensor[: len(held)].copy_(held)
        self.memory_index, self.filled = int(state["memory_index"]), bool(state["filled"])
