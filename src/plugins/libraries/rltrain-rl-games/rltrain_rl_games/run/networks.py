"""A network for images and vectors, with the options of rl_games' own `actor_critic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.network_builder import A2CBuilder

from rltrain_rl_games.declare.options import GROUPS_NETWORK
from rltrain_rl_games.run.upstream import GroupsMeanStd

Shapes = Mapping[str, tuple[int, ...]]


class GroupsEncoder(torch.nn.Module):
    """Encodes images by convolutions, which expect channels first; vectors pass unchanged.

    `shapes` are those of one environment's groups; `convolutions` has one for each that is an
    image. `size` is the number of features of one environment.
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
        # A list, since a ModuleDict does not accept every group's name as a key.
        self.convolutions = torch.nn.ModuleList(convolutions.values())
        empty = {name: torch.zeros(1, *shape) for name, shape in shapes.items()}
        with torch.no_grad():
            self.size = int(self(empty).shape[1])

    def forward(self, groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return features, shape (B, size), of groups of shape (B, ...)."""
        features = [groups[name].flatten(1) for name in self._vectors]
        for name, convolutions in zip(self._images, self.convolutions, strict=True):
            image = groups[name]
            if self._channels_last:
                image = image.permute(0, 3, 1, 2)
            features.append(convolutions(image).flatten(1))
        return torch.cat(features, 1)


class GroupsNetwork(A2CBuilder.Network):  # type: ignore[misc]
    """rl_games' network for a dictionary of observations, with a `cnn` for each image in it."""

    def load(self, params: dict[str, Any]) -> None:
        """Read rl_games' options."""
        super().load(params)
        # The encoder permutes. rl_games would expect an array with four axes.
        self._channels_last: bool = self.cnn.get("permute_input", True)
        self.permute_input = False

    def _build_conv(self, ctype: str, **kwargs: Any) -> torch.nn.Module:
        """Return the encoder that rl_games uses as convolutions of the actor or critic."""
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
        """Return the input size of the layers after the convolutions."""
        return int(cnn_layers.size)


class _Builder(A2CBuilder):  # type: ignore[misc]
    """Builds the network from the loaded options."""

    def build(self, name: str, **kwargs: Any) -> GroupsNetwork:
        """Return the network for observations with the shapes `input_shape`."""
        return GroupsNetwork(self.params, **kwargs)


def normalizes_groups(params: Mapping[str, Any]) -> bool:
    """Return whether the options have the network's groups normalized."""
    normalizes: bool = params["config"]["normalize_input"]
    return normalizes and params["network"]["name"] == GROUPS_NETWORK


def add_groups_normalizer(model: Any, shapes: Shapes) -> None:
    """Give rl_games' model the normalizer of groups, which rl_games cannot create."""
    model.normalize_input = True
    device = next(model.parameters()).device
    model.running_mean_std = GroupsMeanStd(shapes).to(device)


def register_network() -> None:
    """Register the network with rl_games under its name in the options."""
    model_builder.register_network(GROUPS_NETWORK, _Builder)
