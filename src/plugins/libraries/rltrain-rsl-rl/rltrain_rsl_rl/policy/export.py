"""rsl_rl's policies as one function of arrays, which can be exported."""

from __future__ import annotations

import copy
from typing import Any

import torch
from rsl_rl.modules import EmpiricalNormalization
from torch import nn

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule
from rltrain.types import ArrayInfo
from rltrain_rsl_rl.run.spaces import Actions, ByteCNNModel, Observations, in_unit_range
from rltrain_torch.policy import array_info


class ExportedModel(nn.Module):
    """A model of rsl_rl between a suite's observations and actions.

    What rsl_rl itself exports, `as_onnx`, lies in the middle: it reads the concatenated vectors,
    then the images, then the recurrent states, whose second dimension is the batch.
    """

    def __init__(
        self, model: Any, groups: tuple[str, ...], observations: Observations, actions: Actions
    ) -> None:
        super().__init__()
        self.network = copy.deepcopy(model).as_onnx(verbose=False).cpu().eval()
        self.actions = copy.deepcopy(actions).cpu()
        self.observations = observations
        self.groups = groups
        self.vectors = tuple(model.obs_groups)
        self.images = tuple(getattr(model, "obs_groups_2d", ()))
        self.divides_bytes = isinstance(model, ByteCNNModel)

    def forward(self, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the actions and the new states for the groups and the states."""
        given, states = arrays[: len(self.groups)], arrays[len(self.groups) :]
        read = {
            name: self.observations.as_read(name, group)
            for name, group in zip(self.groups, given, strict=True)
        }
        vectors = [read[name] for name in self.vectors] or [torch.zeros(given[0].shape[0], 0)]
        images = [read[name] for name in self.images]
        if self.divides_bytes:
            images = [in_unit_range(image) for image in images]
        # torch's recurrent layers want contiguous states, with the layers first.
        inside = [state.transpose(0, 1).contiguous() for state in states]
        output = self.network(torch.cat(vectors, dim=-1), *images, *inside)
        if not states:
            return (self.actions(output),)
        # Of a GRU, rsl_rl returns None in the place of an LSTM's cell state.
        following = [state.transpose(0, 1) for state in output[1 : len(states) + 1]]
        return self.actions(output[0]), *following


def export(
    model: Any, groups: tuple[str, ...], observations: Observations, actions: Actions
) -> PolicyModule:
    """Return a policy, whose model reads these groups, as one function of arrays."""
    try:
        function = ExportedModel(model, groups, observations, actions)
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise UsageError(
            f"The model {type(model).__name__} cannot be exported: {error}. Its class must have a "
            "method as_onnx, as rsl_rl's own models have."
        ) from error
    return PolicyModule(
        function=function,
        inputs={observations.of_suite(x): array_info(observations.spaces[x]) for x in groups},
        states=_states(function.network) if model.is_recurrent else {},
        output=ArrayInfo(tuple(actions.shape)),
        normalization=_normalization(model, observations),
        actions=actions.described(),
    )


def _states(network: Any) -> dict[str, ArrayInfo]:
    """Return the states of what rsl_rl exports: "h", and "c" of an LSTM."""
    examples = zip(network.input_names, network.get_dummy_inputs(), strict=True)
    return {
        name.removesuffix("_in"): ArrayInfo((example.shape[0], example.shape[2]))
        for name, example in list(examples)[1:]
    }


def _normalization(model: Any, observations: Observations) -> dict[str, dict[str, Any]]:
    """Return mean and divisor of each group that is normalized."""
    normalizer = model.obs_normalizer
    if not isinstance(normalizer, EmpiricalNormalization):
        return {}
    sizes = [(observations.spaces[name].shape or (1,))[0] for name in model.obs_groups]
    means = normalizer.mean.split(sizes)
    divisors = (normalizer.std + normalizer.eps).split(sizes)
    return {
        observations.of_suite(name): {"mean": mean.tolist(), "std": divisor.tolist()}
        for name, mean, divisor in zip(model.obs_groups, means, divisors, strict=True)
    }
