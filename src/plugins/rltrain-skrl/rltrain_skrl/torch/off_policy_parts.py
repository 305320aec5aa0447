"""What skrl's checkpoints leave out of an agent with a replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["EntropyCoefficient", "UpdateCounter"]


class EntropyCoefficient(torch.nn.Module):
    """SAC's coefficient as a module, to be broadcast and saved: skrl does neither.

    Attributes:
        log: its logarithm, shape (1,).
    """

    def __init__(self, log: torch.Tensor) -> None:
        """Start with the value of skrl's own tensor."""
        super().__init__()
        self.log = torch.nn.Parameter(log.detach().clone())


class UpdateCounter:
    """The number of gradient steps, which skrl uses to delay updates of policy and targets."""

    def __init__(self, agent: Any) -> None:
        """Read and write the count of an agent of skrl."""
        self._agent = agent

    def state_dict(self) -> dict[str, int]:
        """Return what a checkpoint holds."""
        return {"updates": self._agent._update_counter}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore the count."""
        self._agent._update_counter = int(state["updates"])
