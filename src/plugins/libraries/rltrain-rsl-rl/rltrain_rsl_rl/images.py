"""uint8 images for rsl_rl: they are stored as bytes, and divided by 255 by the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.models import CNNModel
from rsl_rl.modules import HiddenState
from tensordict import TensorDict

_ENCODERS = ("CNNModel", "rsl_rl.models.CNNModel", "rsl_rl.models.cnn_model.CNNModel")
"""Names of rsl_rl's class in users' files, with a dot for a colon."""


def in_unit_range(x: torch.Tensor) -> torch.Tensor:
    """Return bytes divided by 255, and anything else unchanged."""
    return x / 255 if x.dtype == torch.uint8 else x


class ByteCNNModel(CNNModel):
    """rsl_rl's model with image encoders, which also reads uint8 images, divided by 255.

    Its parameters have the names of rsl_rl's own class, so the checkpoints are interchangeable.
    """

    def get_latent(
        self,
        obs: TensorDict,
        masks: torch.Tensor | None = None,
        hidden_state: HiddenState = None,
    ) -> torch.Tensor:
        """Return the concatenated vectors and encoded images, shape (B, D)."""
        groups = {name: obs[name] for name in (*self.obs_groups, *self.obs_groups_2d)}
        read = {name: in_unit_range(x) for name, x in groups.items()}
        if not self.obs_groups:  # Images only, which rsl_rl's own model supports from 5.4.1 on.
            return torch.cat([self.cnns[name](read[name]) for name in self.obs_groups_2d], dim=-1)
        latent: torch.Tensor = super().get_latent(
            TensorDict(read, batch_size=obs.batch_size), masks, hidden_state
        )
        return latent


def use_byte_models(options: Mapping[str, Any]) -> None:
    """Replace rsl_rl's class by `ByteCNNModel` in the options, in place."""
    for part in options.values():
        if isinstance(part, dict) and str(part.get("class_name")).replace(":", ".") in _ENCODERS:
            part["class_name"] = ByteCNNModel
