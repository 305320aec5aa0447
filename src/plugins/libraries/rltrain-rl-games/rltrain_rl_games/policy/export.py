"""A policy as one function of arrays, for export.

This is the only file that changes the layers of a model of rl_games, and it does so in a copy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from rl_games.algos_torch.torch_ext import CoordConv2d, LayerNorm2d

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule
from rltrain.types import ArrayInfo
from rltrain_rl_games.policy.actor import Actor
from rltrain_rl_games.run.upstream import GroupsMeanStd

_NORMALIZED = 5.0
"""The bound of what `RunningMeanStd` returns."""


def policy_module(actor: Actor, inputs: Mapping[str, ArrayInfo], has_groups: bool) -> PolicyModule:
    """Return a copy of an actor in evaluation mode, on the CPU, as one function of arrays.

    `inputs` are the observations of one environment that it reads, by group; `has_groups` says
    whether the suite's observations are a mapping of groups.
    """
    if any(isinstance(layer, LayerNorm2d) for layer in actor.modules()):
        raise UsageError(
            "This policy cannot be exported: by params.network.normalization: layer_norm, rl_games "
            "normalizes an image by all images of the batch, so that its action depends on the "
            "others. Train without the option."
        )
    actor = copy.deepcopy(actor).cpu().requires_grad_(False)
    _strip(actor.model)
    function = _Function(actor, tuple(inputs), has_groups)
    states = actor.initial_states(1)[: function.num_states]
    names = ("hidden", "cell")
    return PolicyModule(
        function=function.eval(),
        inputs=inputs,
        states={
            name: ArrayInfo((state.shape[0], state.shape[2]))
            for name, state in zip(names, states, strict=False)
        },
        output=_output(function, inputs),
        normalization=_normalization(actor, inputs),
        actions=_actions(actor),
    )


class _Function(torch.nn.Module):
    """From arrays of observations and states to actions and states, all with the batch first."""

    def __init__(self, actor: Actor, groups: tuple[str, ...], has_groups: bool) -> None:
        super().__init__()
        self.actor = actor
        self._groups = groups
        self._has_groups = has_groups
        # A separate critic has states like the actor's; they come last, and nothing reads them.
        states = len(actor.initial_states(1))
        network = getattr(actor.model, "a2c_network", None)
        self._copies = 2 if network is not None and network.is_separate_critic() else 1
        self.num_states = states // self._copies

    def forward(self, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the actions, and the new states, shape (B, layers, units) each."""
        parts, states = arrays[: len(self._groups)], arrays[len(self._groups) :]
        observations = dict(zip(self._groups, parts, strict=True)) if self._has_groups else parts[0]
        layers_first = tuple(state.transpose(0, 1).contiguous() for state in states)
        actions, new_states = self.actor(observations, layers_first * self._copies)
        # While it exports, torch 2.7 takes the states of an LSTM for arrays with four axes.
        shaped = (
            new.reshape(old.shape) for new, old in zip(new_states, layers_first, strict=False)
        )
        return actions, *(state.transpose(0, 1) for state in shaped)


class _CoordConv2d(torch.nn.Module):
    """`CoordConv2d` without its cache of coordinates, whose keys are sizes of batches."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = images.shape
        identity = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        grid = torch.nn.functional.affine_grid(identity, [1, 1, height, width], align_corners=False)
        coordinates = grid.permute(0, 3, 1, 2).expand(batch, -1, -1, -1)
        layer = self.layer
        return torch.nn.functional.conv2d(
            torch.cat([images, coordinates], 1),
            *(layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups),
        )


class _NoFeatures(torch.nn.Module):
    """Has the interface of the convolutions of a separate critic."""

    def forward(self, observations: Any) -> torch.Tensor:
        # Something of the batch's size, which no action depends on.
        if isinstance(observations, dict):
            observations = next(iter(observations.values()))
        flat: torch.Tensor = observations.flatten(1)
        return flat


class _NoRnn(torch.nn.Module):
    """Has the interface of the recurrent layers of a separate critic."""

    def forward(self, x: Any, states: Any, dones: Any, bptt_len: int) -> tuple[Any, Any]:
        return x, states


def _strip(model: Any) -> None:
    """Remove what does not act, and what cannot be exported, from a model of rl_games."""
    if getattr(model, "a2c_network", None) is None:
        model.sac_network.critic = model.sac_network.critic_target = None
    else:
        _strip_critic(model.a2c_network)
    model.value_mean_std = None
    if isinstance(getattr(model, "running_mean_std", None), torch.jit.ScriptModule):
        model.running_mean_std = _unscripted(model.running_mean_std)
    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, CoordConv2d):
                setattr(parent, name, _CoordConv2d(layer))


def _strip_critic(network: Any) -> None:
    network.value = network.value_act = torch.nn.Identity()
    if not network.is_separate_critic():
        return
    network.critic_cnn, network.critic_mlp = _NoFeatures(), torch.nn.Identity()
    if network.is_rnn():
        network.c_rnn, network.c_layer_norm = _NoRnn(), torch.nn.Identity()


def _unscripted(scripted: Any) -> RunningMeanStd:
    """Return a normalizer without TorchScript, which cannot be exported."""
    normalizer = RunningMeanStd(scripted.insize, scripted.epsilon, norm_only=scripted.norm_only)
    normalizer.load_state_dict(scripted.state_dict())
    return normalizer


def _output(function: _Function, inputs: Mapping[str, ArrayInfo]) -> ArrayInfo:
    """Return what the function returns for one environment."""
    arrays = [
        torch.zeros(1, *info.shape, dtype=getattr(torch, info.dtype)) for info in inputs.values()
    ]
    states = function.actor.initial_states(1)[: function.num_states]
    actions, *_ = function.eval()(*arrays, *(state.transpose(0, 1) for state in states))
    return ArrayInfo(tuple(actions.shape[1:]), str(actions.dtype).removeprefix("torch."))


def _normalization(actor: Actor, inputs: Mapping[str, ArrayInfo]) -> dict[str, dict[str, Any]]:
    """Return how observations are normalized, in their own units; see `PolicyModule`."""
    found: dict[str, dict[str, Any]] = {}
    bound = actor.conversion.wrapping.clip_observations
    if math.isfinite(bound):
        floats = [name for name, info in inputs.items() if info.dtype.startswith("float")]
        found = {name: {"input_clip": bound} for name in floats}
    if not actor.model.normalize_input:
        return found
    for name, (mean, std) in _moments(actor, inputs).items():
        # What is one for the network, for bytes 255.
        one = actor.observed(torch.ones((), dtype=getattr(torch, inputs[name].dtype)))
        moments = {"mean": (mean / one).tolist(), "std": (std / one).tolist()}
        found[name] = {**found.get(name, {}), **moments, "clip": _NORMALIZED}
    return found


def _moments(
    actor: Actor, inputs: Mapping[str, ArrayInfo]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return mean and standard deviation of each group that is normalized."""

    def of(normalizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        variance = normalizer.running_var.float() + normalizer.epsilon
        return normalizer.running_mean.float(), variance.sqrt()

    normalizer = actor.model.running_mean_std
    if isinstance(normalizer, GroupsMeanStd):
        return {name: of(part) for name, part in normalizer.running_mean_std.items()}
    mean, std = of(normalizer)
    sizes = [info.shape[0] if len(inputs) > 1 else len(mean) for info in inputs.values()]
    parts = zip(torch.split(mean, sizes), torch.split(std, sizes), strict=True)
    return dict(zip(inputs, parts, strict=True))


def _actions(actor: Actor) -> dict[str, Any]:
    """Return what is done with the network's continuous actions; see `PolicyModule`."""
    found: dict[str, Any] = {"squash": "tanh"} if actor.squashes else {}
    low, high, bound = actor.low, actor.high, actor.conversion.wrapping.clip_actions
    if low is not None and high is not None:
        scale, offset = (high - low) / 2.0, (high + low) / 2.0
        found |= {"scale": scale.tolist(), "offset": offset.tolist()}
        low, high = low.clamp(min=-bound), high.clamp(max=bound)
    elif spaces.Box in actor.ACTIONS and math.isfinite(bound):
        high = torch.full(actor.conversion.action_space().shape or (), bound)
        low = -high
    if low is not None and high is not None:
        found |= {"low": low.tolist(), "high": high.tolist()}
    return found
