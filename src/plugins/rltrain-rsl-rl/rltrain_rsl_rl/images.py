"""Images on their way to rsl_rl's convolutions: bytes until a network reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.spaces import Box, Space
from rsl_rl.models import CNNModel
from rsl_rl.modules import HiddenState
from tensordict import TensorDict

from rltrain.types import ArrayInfo

__all__ = ["ByteCNNModel", "is_image", "use_byte_models"]

_ENCODERS = ("CNNModel", "rsl_rl.models.CNNModel", "rsl_rl.models.cnn_model.CNNModel")
"""The ways in which a file may name rsl_rl's class, with a dot for a colon."""


class ByteCNNModel(CNNModel):
    """rsl_rl's model with encoders of images, which may be bytes: it reads them divided by 255.

    Its parameters have the same names, so that checkpoints are those of rsl_rl's own class.
    """

    def get_latent(
        self,
        obs: TensorDict,
        masks: torch.Tensor | None = None,
        hidden_state: HiddenState = None,
    ) -> torch.Tensor:
        """Return what the encoders and the vectors make of observations, shape (B, D)."""
        groups = {name: obs[name] for name in (*self.obs_groups, *self.obs_groups_2d)}
        read = {name: x / 255 if x.dtype == torch.uint8 else x for name, x in groups.items()}
        if not self.obs_groups:  # Images only, which rsl_rl's model takes from 5.4.1 on.
            return torch.cat([self.cnns[name](read[name]) for name in self.obs_groups_2d], dim=-1)
        latent: torch.Tensor = super().get_latent(
            TensorDict(read, batch_size=obs.batch_size), masks, hidden_state
        )
        return latent


def is_image(space: Space[Any]) -> bool:
    """Whether a group is an image as suites give it: height, width and channels."""
    return isinstance(space, Box) and ArrayInfo(space.shape, str(space.dtype)).is_image


def use_byte_models(options: Mapping[str, Any]) -> None:
    """Put `ByteCNNModel` where the options name rsl_rl's class, in place."""
    for part in options.values():
        if isinstance(part, dict) and str(part.get("class_name")).replace(":", ".") in _ENCODERS:
            part["class_name"] = ByteCNNModel
