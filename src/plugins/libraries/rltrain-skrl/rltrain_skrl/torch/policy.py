"""skrl's trained agents for torch as they act."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_skrl import actor, components, policy
from rltrain_skrl.torch.conversion import TorchConversion
from rltrain_skrl.torch.runner import CheckedRunner
from rltrain_skrl.torch.workarounds import forget_shared_output
from rltrain_torch.policy import read_checkpoint


class PolicyRunner(components.PolicyRunner, CheckedRunner):
    """Builds an agent for torch that acts."""


class Actor(actor.Actor):
    """An agent for torch between a task's observations and actions."""

    framework = "torch"
    conversion_class = TorchConversion
    runner_class = PolicyRunner

    def device_of(self, name: str) -> torch.device:
        """Return a device, such as "cpu"."""
        return torch.device(name)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load the parts of a checkpoint, by name."""
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])

    def flat(self, observations: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return skrl's observations and states, bytes as float32 too."""
        flat = self.conversion.flat_observations(observations).to(torch.float32)
        if not self.reads_states:
            return flat, None
        return flat, self.conversion.flat_states(observations).to(torch.float32)

    def likeliest(self, observations: torch.Tensor, states: torch.Tensor | None) -> torch.Tensor:
        """Return the most likely actions, shape (N, A)."""
        output: torch.Tensor
        output, _ = self.model.compute(self.inputs(observations, states), role=self.role)
        forget_shared_output(self.model)
        space = self.conversion.action_space
        if isinstance(space, spaces.Discrete):
            return output.argmax(dim=1, keepdim=True)
        if isinstance(space, spaces.MultiDiscrete):
            choices = torch.split(output, space.nvec.tolist(), dim=-1)
            return torch.stack([choice.argmax(dim=-1) for choice in choices], dim=-1)
        return output

    def native(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions as the task's environments take them."""
        taken: torch.Tensor = self.conversion.native(actions)
        return taken


class ActorModule(torch.nn.Module):
    """An actor as a module of its observation groups."""

    def __init__(self, actor: Actor) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleDict(actor.parts)
        self._actor = actor

    def forward(self, *groups: torch.Tensor) -> tuple[torch.Tensor]:
        """Return the most likely actions."""
        actor = self._actor
        named = dict(zip(actor.groups, groups, strict=True))
        observations = named if actor.conversion.grouped else named["policy"]
        return (actor.native(actor.likeliest(*actor.flat(observations))),)


class TorchPolicy(policy.SkrlPolicy):
    """A trained agent for torch; see `rltrain_skrl.policy.SkrlPolicy`."""

    actor_class = Actor

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = True) -> torch.Tensor:
        """Choose actions; see `rltrain_skrl.policy.SkrlPolicy`."""
        with self._precision():
            actions: torch.Tensor = super().act(observations, deterministic)
        return actions

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which skrl's agent calls its model."""
        agent = self._actor.agent
        return torch.autocast(agent.device.type, enabled=bool(agent.cfg.mixed_precision))

    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return the parts of a checkpoint by name; only if it is trusted may it run code."""
        return read_checkpoint(path, "cpu", trusted)

    def copy_of(self, actor: actor.Actor) -> Mapping[str, Any]:
        """Return what `Actor.load` takes to make another one equal: it copies."""
        return {name: part.state_dict() for name, part in actor.parts.items()}

    def function_of(self, actor: actor.Actor) -> ActorModule:
        """Return an actor as a function of its groups."""
        assert isinstance(actor, Actor)
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


def load_policy(session: Session) -> TorchPolicy:
    """Load the policy of a session's checkpoint; see the hook `rltrain_load_policy`."""
    return TorchPolicy(session)
