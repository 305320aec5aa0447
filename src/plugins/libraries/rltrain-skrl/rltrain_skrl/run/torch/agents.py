"""Connects an agent of skrl for torch to the session: optimizers, schedules, checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from rltrain.session import Session
from rltrain_skrl.run.agents import SessionAgent
from rltrain_skrl.run.spaces import holds_bytes, observation_groups
from rltrain_skrl.run.torch.env import with_final_observations
from rltrain_skrl.run.torch.memory import PooledMemory
from rltrain_skrl.run.torch.normalizers import AsFloats, PooledScaler
from rltrain_torch.checkpoints import as_file
from rltrain_torch.gradients import sync_before_step, synchronize
from rltrain_torch.optimizers import watch_optimizer
from rltrain_torch.policy import read_checkpoint


class TorchAgent(SessionAgent):
    """Mixin for an agent of skrl for torch."""

    memory_class: type[PooledMemory]
    scaler_class = PooledScaler
    suffix = "pt"
    with_final_observations = staticmethod(with_final_observations)

    # skrl's, read by this class.
    scaler: torch.amp.GradScaler

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`.

        Observations of bytes are stored as such in the memory, and converted to float32 on reading.
        With a scaler they are stored as floats: the moments of a whole update are pooled from the
        memory.
        """
        super().__init__(session=session, **components)
        groups = observation_groups(session.env.single_observation_space).spaces
        for group, source in (("observation", "policy"), ("state", "critic")):
            if holds_bytes(groups.get(source)):
                read = getattr(self, f"_{group}_preprocessor")
                setattr(self, f"_{group}_preprocessor", AsFloats(read))
                if not isinstance(read, self.scaler_class):
                    self.memory.bytes |= {f"{group}s", f"next_{group}s"}

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizers by their names in a checkpoint."""
        modules = self.checkpoint_modules.items()
        return {name: x for name, x in modules if isinstance(x, torch.optim.Optimizer)}

    def average_together(self, *roles: str) -> None:
        """Average all gradients of the optimizer of these models in one collective.

        skrl reduces them in this order, before it clips and steps. The last one does it for all.
        """
        models = [getattr(self, role) for role in roles]
        stepped = {x for model in models for x in model.parameters()}
        of_optimizers = ((x, _parameters(x)) for x in self.optimizers.values())
        optimizer, parameters = next(x for x in of_optimizers if set(x[1]) == stepped)
        sync = self._session.gradient_sync(parameters, may_overflow=self.scaler.is_enabled())
        models[-1].average_gradients = functools.partial(synchronize, sync, parameters)
        if self._session.group.world_size == 1:  # Then skrl reduces no model.
            sync_before_step(optimizer, sync, parameters)

    def watch_optimizers(self) -> None:
        """Register learning rates and moments with the divergence check."""
        for name, optimizer in self.optimizers.items():
            watch_optimizer(self._session, optimizer, name)

    def learning_rates(self) -> Mapping[str, float]:
        """Return the learning rates by the names of the optimizers."""
        return {
            name.removesuffix("optimizer").replace("_", " ").strip(): float(
                optimizer.param_groups[0]["lr"]
            )
            for name, optimizer in self.optimizers.items()
        }

    def make_progress(self) -> Progress:
        """Return what skrl leaves out of its checkpoints."""
        return Progress(self._unsaved())

    def _unsaved(self) -> dict[str, Any]:
        """Return the schedules, the scaler of mixed precision, and the count of gradient steps."""
        parts: dict[str, Any] = {n: x for n, x in vars(self).items() if isinstance(x, LRScheduler)}
        if self.scaler.is_enabled():
            parts["scaler"] = self.scaler
        if {"policy_delay", "target_update_interval"} & vars(self.cfg).keys():
            parts["updates"] = UpdateCounter(self)  # skrl starts to count in `init`.
        return parts

    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return a checkpoint's parts by name; only if it is trusted may it run code."""
        return read_checkpoint(path, "cpu", trusted)

    def load_parts(self, parts: Mapping[str, Any]) -> None:
        """Load parts as skrl loads a checkpoint."""
        self.load(as_file(parts))  # type: ignore[attr-defined]

    def write(self, path: Path) -> None:
        """Save as skrl does."""
        with path.open("wb") as file:  # Given a path, torch writes its name into the file.
            self.save(file)  # type: ignore[attr-defined]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return list(dict.fromkeys(p for group in optimizer.param_groups for p in group["params"]))


class Progress:
    """What skrl's checkpoints leave out: the iteration, and parts with a `state_dict`, by name."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.iteration = 0
        self._parts = parts

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {"iteration": self.iteration, "parts": parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint holds."""
        self.iteration = int(state["iteration"])
        for name, part in self._parts.items():
            if name in state["parts"]:
                part.load_state_dict(state["parts"][name])


class UpdateCounter:
    """The number of gradient steps, by which an agent of skrl delays updates of other models."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def state_dict(self) -> dict[str, int]:
        """Return what a checkpoint holds."""
        return {"updates": self._agent._update_counter}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore the count."""
        self._agent._update_counter = int(state["updates"])
