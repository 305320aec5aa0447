"""What skrl's torch agents leave out of their checkpoints, and this plugin adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


class Progress:
    """What skrl's checkpoints leave out: the iteration, and the schedules."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        """Keep what to save.

        Args:
            parts: by name, with `state_dict` and `load_state_dict`.
        """
        self.iteration = 0
        self._parts = parts

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {"iteration": self.iteration, "parts": parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint holds."""
        self.iteration = int(state["iteration"])
        for name, part in self._parts.items():
            if name in state["parts"]:
                part.load_state_dict(state["parts"][name])


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
