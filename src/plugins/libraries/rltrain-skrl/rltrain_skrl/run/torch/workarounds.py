"""Bugs of skrl's torch side that this plugin works around, for skrl 2.1.0 to 2.1.1."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces


class SeededRandomActions:
    """Mixin of a model: random actions from torch's generator.

    skrl samples a copy of the action space: the copy ignores the seed, and it returns the same
    actions in every step.
    """

    action_space: spaces.Space[Any]

    def random_act(
        self, inputs: dict[str, Any], *, role: str = ""
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return random actions of shape (N, A); see skrl."""
        observations = inputs["observations"]
        return random_actions(self.action_space, len(observations), observations.device), {}


def random_actions(space: spaces.Space[Any], rows: int, device: torch.device) -> torch.Tensor:
    """Return random actions of one environment's space, shape (rows, A), from torch's generator.

    For a box, they are uniform if it is bounded, and standard normal, clipped to it, if it is not.
    """
    if isinstance(space, spaces.Discrete):
        choice = (torch.rand(rows, 1, device=device) * int(space.n)).long()
        return choice.clamp_(max=int(space.n) - 1)
    assert isinstance(space, spaces.Box)
    low, high = (
        torch.as_tensor(bound, device=device).flatten() for bound in (space.low, space.high)
    )
    if space.is_bounded():
        return low + (high - low) * torch.rand(rows, low.numel(), device=device)
    sampled = torch.randn(rows, low.numel(), device=device)
    return sampled.clamp(low, high)


def forget_shared_output(model: torch.nn.Module) -> None:
    """Let a model for two roles forget the output of their common layers.

    Computed for the policy, it keeps the output for the value, which an actor never asks for. torch
    cannot export a module that sets an attribute.
    """
    if getattr(model, "_shared_output", None) is not None:
        model._shared_output = None  # type: ignore[assignment]
