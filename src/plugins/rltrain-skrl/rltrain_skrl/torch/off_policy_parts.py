"""What the agents with a replay buffer need besides skrl's own: saved state, random actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from skrl.resources.noises.torch import Noise

__all__ = [
    "EntropyCoefficient",
    "UpdateCounter",
    "get_noise",
    "noises",
    "set_noise",
]


class EntropyCoefficient(torch.nn.Module):
    """SAC's coefficient, which skrl neither broadcasts nor saves, as a module that can be both.

    Attributes:
        log: its logarithm, shape (1,).
    """

    def __init__(self, log: torch.Tensor) -> None:
        """Begin with the value of skrl's own tensor."""
        super().__init__()
        self.log = torch.nn.Parameter(log.detach().clone())


class UpdateCounter:
    """The number of gradient steps, by which skrl delays updates of policy and targets."""

    def __init__(self, agent: Any) -> None:
        """Read and write the count of an agent of skrl."""
        self._agent = agent

    def state_dict(self) -> dict[str, int]:
        """Return what a checkpoint holds."""
        return {"updates": self._agent._update_counter}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Count on from there."""
        self._agent._update_counter = int(state["updates"])


def get_noise(agent: Any) -> dict[str, Any]:
    """Return what an agent's noises remember, on the host: Ornstein-Uhlenbeck's last values."""
    states = {name: getattr(noise, "state", None) for name, noise in noises(agent).items()}
    return {name: state.cpu().numpy() for name, state in states.items() if torch.is_tensor(state)}


def set_noise(agent: Any, states: Mapping[str, Any]) -> None:
    """Let an agent's noises go on from what `get_noise` returned."""
    for name, noise in noises(agent).items():
        if name in states:
            noise.state = torch.as_tensor(states[name], device=noise.device)


def noises(agent: Any) -> dict[str, Any]:
    """Return an agent's noises by the names of its attributes."""
    return {name: part for name, part in vars(agent).items() if isinstance(part, Noise)}
