"""The replay buffer of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from rltrain_skrl.jax.memory import PooledMemory

__all__ = ["ReplayMemory"]


class ReplayMemory(PooledMemory):
    """skrl's memory, which can be put into a checkpoint."""

    # skrl's, used by this class.
    device: jax.Device

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
            "tensors": {name: np.array(x)[:steps] for name, x in self.tensors.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Hold what the buffer held that returned this.

        Raises:
            ValueError: it was of another size.
        """
        for name, tensor in self.tensors.items():
            held = state["tensors"][name]
            full, more = len(held) == len(tensor), len(held) > len(tensor)
            if more or full != state["filled"] or held.shape[1:] != tensor.shape[1:]:
                raise ValueError(
                    f"it holds {held.shape} {name}, but memory_size={self.memory_size} asks for "
                    f"{tensor.shape}"
                )
            whole = np.array(tensor)
            whole[: len(held)] = held
            self.tensors[name] = jax.device_put(whole, self.device)
        self.memory_index, self.filled = int(state["memory_index"]), bool(state["filled"])
