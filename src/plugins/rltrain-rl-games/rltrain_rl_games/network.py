"""A network of images beside vectors, with the options of rl_games' own `actor_critic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.network_builder import A2CBuilder

from rltrain_rl_games.refusals import SEVERAL_GROUPS

__all__ = ["GroupsNetwork", "register_network"]

Shapes = Mapping[str, tuple[int, ...]]


class GroupsEncoder(torch.nn.Module):
    """Convolutions for each image; vectors pass.

    Args:
        shapes: of one environment's groups, by name. What has three axes is an image.
        convolutions: by the names of the images; they read channels first.
        channels_last: whether images come with their channels last.

    Attributes:
        size: numbers in what it returns for one environment.
    """

    def __init__(
        self,
        shapes: Shapes,
        convolutions: Mapping[str, torch.nn.Module],
        channels_last: bool,
    ) -> None:
        super().__init__()
        self._images = list(convolutions)
        self._vectors = [name for name in shapes if name not in convolutions]
        self._channels_last = channels_last
        # A list: a group may have a name that a ModuleDict cannot take.
        self.convolutions = torch.nn.ModuleList(convolutions.values())
        empty = {name: torch.zeros(1, *shape) for name, shape in shapes.items()}
        with torch.no_grad():
            self.size = int(self(empty).shape[1])

    def forward(self, groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return features of shape (B, size) of groups of shape (B, ...)."""
        features = [groups[name].flatten(1) for name in self._vectors]
        for name, convolutions in zip(self._images, self.convolutions, strict=True):
            image = groups[name]
            if self._channels_last:
                image = image.permute(0, 3, 1, 2)
            features.append(convolutions(image).flatten(1))
        return torch.cat(features, 1)


class GroupsNetwork(A2CBuilder.Network):  # type: ignore[misc]
    """rl_games' network, whose `cnn` is one for each image of what it observes, a dictionary."""

    def load(self, params: dict[str, Any]) -> None:
        """Read the options, those of rl_games."""
        super().load(params)
        # The encoder permutes: rl_games would look for four axes of a dictionary.
        self._channels_last: bool = self.cnn.get("permute_input", True)
        self.permute_input = False

    def _build_conv(self, ctype: str, **kwargs: Any) -> torch.nn.Module:
        """Return what rl_games takes for the convolutions of an actor or a critic."""
        shapes: Shapes = kwargs.pop("input_shape")
        build = super()._build_conv
        convolutions = {
            name: build(ctype, input_shape=self._channels_first(shape), **kwargs)
            for name, shape in shapes.items()
            if len(shape) == 3
        }
        return GroupsEncoder(shapes, convolutions, self._channels_last)

    def _channels_first(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[-1], *shape[:-1]) if self._channels_last else shape

    def _calc_input_size(self, input_shape: Any, cnn_layers: Any = None) -> int:
        """Return the numbers that the layers after the convolutions read."""
        return int(cnn_layers.size)


class _Builder(A2CBuilder):  # type: ignore[misc]
    """Makes the network from options that it has loaded."""

    def build(self, name: str, **kwargs: Any) -> GroupsNetwork:
        """Return the network for observations of the shapes in `input_shape`."""
        return GroupsNetwork(self.params, **kwargs)


def register_network() -> None:
    """Let options name the network."""
    model_builder.register_network(SEVERAL_GROUPS, _Builder)
