"""A task's tensors as skrl takes and gives them."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space

from rltrain_skrl.conversion import Conversion
from rltrain_skrl.spaces import holds_bytes, observation_groups


class TorchConversion(Conversion):
    """Gives skrl float32; but a group of bytes, such as an image, stays bytes."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device,
    ) -> None:
        """Convert the tensors of a task; see `Conversion`."""
        super().__init__(observation_space, action_space, device)
        groups = observation_groups(observation_space).spaces
        self._bytes = {name for name, group in groups.items() if holds_bytes(group)}
        self._bounds: tuple[torch.Tensor, torch.Tensor] | None = None
        if isinstance(action_space, spaces.Box):
            low, high = (
                torch.as_tensor(bound).to(device) for bound in (action_space.low, action_space.high)
            )
            self._bounds = low, high

    def flat_group(self, name: str, group: Any) -> torch.Tensor:
        """Return skrl's observations or states; see `Conversion`."""
        tensors = tensorize_space(self.spaces[name], group, device=self.device)
        flat: torch.Tensor = flatten_tensorized_space(tensors)
        return flat if name in self._bytes else flat.to(torch.float32)

    def native(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions as the task's environments take them; see `Conversion`."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return actions.reshape(-1).long() + int(space.start)
        actions = actions.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.MultiDiscrete):
            return actions.long()
        return actions if self._bounds is None else torch.clamp(actions, *self._bounds)
