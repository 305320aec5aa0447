"""Inference with skrl's trained agents for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from rltrain.types import ArrayInfo
from rltrain_skrl.policy import actor, policy
from rltrain_skrl.run.torch.env import TorchConversion
from rltrain_skrl.run.torch.runner import CheckedRunner
from rltrain_skrl.run.torch.workarounds import forget_shared_output
from rltrain_torch.policy import read_checkpoint


class PolicyRunner(actor.PolicyRunner, CheckedRunner):
    """Builds an agent for torch that acts."""


class Actor(actor.Actor):
    """An agent for torch between a task's observations and actions."""

    framework = "torch"
    conversion_class = TorchConversion
    runner_class = PolicyRunner
    concatenate = staticmethod(torch.cat)

    def device_of(self, name: str) -> torch.device:
        """Return a device, such as "cpu"."""
        return torch.device(name)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load the parts of a checkpoint, by name."""
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])

    def output(self, observations: torch.Tensor, states: torch.Tensor | None) -> torch.Tensor:
        """Return the model's output."""
        output: torch.Tensor
        output, _ = self.model.compute(self.inputs(observations, states), role=self.role)
        forget_shared_output(self.model)
        return output


class ActorModule(torch.nn.Module):
    """An actor as a module of its observation groups."""

    def __init__(self, actor: actor.Actor) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleDict(actor.parts)
        self._actor = actor

    def forward(self, *groups: torch.Tensor) -> tuple[torch.Tensor]:
        """Return the most likely actions."""
        return (self._actor.act_on(groups),)


class Policy(policy.SkrlPolicy):
    """A trained agent for torch; see `SkrlPolicy`."""

    actor_class = Actor

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = True) -> torch.Tensor:
        """Choose actions; see `SkrlPolicy`."""
        agent = self._actor.agent
        # As skrl's agent calls its model.
        with torch.autocast(agent.device.type, enabled=bool(agent.cfg.mixed_precision)):
            actions: torch.Tensor = super().act(observations, deterministic)
        return actions

    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return the parts of a checkpoint by name; only if it is trusted may it run code."""
        return read_checkpoint(path, "cpu", trusted)

    def copy_of(self, actor: actor.Actor) -> Mapping[str, Any]:
        """Return what `Actor.load` takes to make another one equal: it copies."""
        return {name: part.state_dict() for name, part in actor.parts.items()}

    def function_of(self, actor: actor.Actor) -> ActorModule:
        """Return an actor as a function of its groups."""
        return ActorModule(actor).eval().requires_grad_(False)

    def shape_of(self, function: Callable[..., Any], inputs: Mapping[str, ArrayInfo]) -> ArrayInfo:
        """Return what such a function returns for one environment."""
        zeros = [
            torch.zeros(1, *info.shape, dtype=getattr(torch, info.dtype))
            for info in inputs.values()
        ]
        with torch.no_grad():
            (actions,) = function(*zeros)
        return ArrayInfo(tuple(actions.shape[1:]), str(actions.dtype).removeprefix("torch."))
