"""What lies between a suite's spaces and rsl_rl's models: observations, images, and actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from gymnasium.spaces import Box, Dict, Space
from rsl_rl.models import CNNModel
from rsl_rl.modules import HiddenState
from tensordict import TensorDict
from torch import nn

from rltrain.errors import UsageError
from rltrain_adapters import is_image

_ENCODERS = ("CNNModel", "rsl_rl.models.CNNModel", "rsl_rl.models.cnn_model.CNNModel")
"""Names of rsl_rl's class in users' files, with a dot for a colon."""


class Observations:
    """Converts a suite's observations to rsl_rl's groups.

    The members of a `Dict` space are rsl_rl's observation groups; a `Box` is the group "policy".
    They become float32, except for uint8 images. Images get their channels first, as rsl_rl's
    convolutions expect them. If options name the group "actor", as mjlab's do, rsl_rl sees "policy"
    by that name: models and functions of a user's own read it. `spaces` has the groups by rsl_rl's
    names; `sets` is rsl_rl's option `obs_groups`.
    """

    def __init__(self, space: Space[Any], sets: Mapping[str, Iterable[str]] | None = None) -> None:
        groups = space.spaces if isinstance(space, Dict) else {"policy": space}
        wrong = next((name for name, group in groups.items() if not isinstance(group, Box)), None)
        if wrong is not None:
            raise UsageError(
                f"rsl_rl reads observations that are a Box or a Dict of Box groups; {wrong!r} is "
                f"{groups[wrong]}. Flatten it, or choose another library."
            )
        named = any("actor" in names for names in (sets or {}).values())
        self._actor = "actor" if named and "actor" not in groups else "policy"
        self.spaces = {self._seen(name): group for name, group in groups.items()}
        self._images = {name for name, group in self.spaces.items() if is_image(group)}

    def _seen(self, name: str) -> str:
        return self._actor if name == "policy" else name

    def of_suite(self, name: str) -> str:
        """Return the suite's name of a group."""
        return "policy" if name == self._actor else name

    def groups(self, observations: Any) -> Mapping[str, torch.Tensor]:
        """Return the suite's own arrays by group."""
        given = observations if isinstance(observations, Mapping) else {"policy": observations}
        return {self._seen(name): group for name, group in given.items()}

    def convert(self, groups: Mapping[str, torch.Tensor], device: str) -> TensorDict:
        """Return copies of groups as rsl_rl's models read them, batch size [num_envs]."""
        # Copies: rsl_rl stores observations after the next step, and a suite that steps in place
        # overwrites its own arrays in that step.
        tensors = {
            name: self.as_read(name, group).to(device, copy=True) for name, group in groups.items()
        }
        rows = next(iter(tensors.values())).shape[0]
        return TensorDict(tensors, batch_size=[rows], device=device)

    def as_read(self, name: str, group: torch.Tensor) -> torch.Tensor:
        """Return a group as rsl_rl's models read it: shape (B, D), or (B, C, H, W) for an image."""
        if name in self._images:
            group = group.movedim(-1, 1)
            return group if group.dtype == torch.uint8 else group.to(torch.float32)
        return group.reshape(group.shape[0], *(group.shape[1:] or (1,))).to(torch.float32)


class Actions(nn.Module):
    """Converts a policy's output to a suite's actions.

    If an action has two finite bounds, the output is clamped to [-1, 1] and mapped to them, so that
    0 is the middle of the range. If a bound is infinite, the output is not scaled. `clip` is a
    bound to which the output is clamped first. Tensors have the shape (size,); an action in the
    suite has `shape`.
    """

    low: torch.Tensor
    """What the output is clamped to, from below; `high` from above."""
    high: torch.Tensor
    scale: torch.Tensor
    """What the output is then multiplied with; then `offset` is added."""
    offset: torch.Tensor

    def __init__(self, space: Space[Any], clip: float | None = None) -> None:
        super().__init__()
        if not isinstance(space, Box):
            raise UsageError(
                f"rsl_rl's policies have continuous actions (Box), not {space}. Choose a task with "
                "continuous actions, or another library."
            )
        self.shape = space.shape
        low = torch.as_tensor(space.low.reshape(-1), dtype=torch.float32)
        high = torch.as_tensor(space.high.reshape(-1), dtype=torch.float32)
        self.size = low.numel()
        finite = low.isfinite() & high.isfinite()
        limit = torch.full_like(low, torch.inf if clip is None else clip)
        one = torch.ones_like(low)
        self.register_buffer("low", torch.maximum(torch.where(finite, -one, low), -limit))
        self.register_buffer("high", torch.minimum(torch.where(finite, one, high), limit))
        self.register_buffer("scale", torch.where(finite, high / 2 - low / 2, one))
        center = torch.where(finite, high / 2 + low / 2, torch.zeros_like(low))
        self.register_buffer("offset", center)

    def forward(self, output: torch.Tensor) -> torch.Tensor:
        """Return the actions for a policy's output, shape (B, size)."""
        clamped = output.to(torch.float32).clamp(self.low, self.high)
        return (clamped * self.scale + self.offset).reshape(output.shape[0], *self.shape)

    def described(self) -> dict[str, list[float]]:
        """Return the numbers by name, without bounds that are infinite for all actions.

        The bounds are those of the scaled output, as `PolicyModule` has them.
        """
        numbers = {"scale": self.scale, "offset": self.offset}
        limits = {"low": self.low, "high": self.high}
        bounds = {name: limit * self.scale + self.offset for name, limit in limits.items()}
        numbers |= {name: bound for name, bound in bounds.items() if bound.isfinite().any()}
        return {name: number.tolist() for name, number in numbers.items()}


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
