"""Connects an agent of skrl for torch to the session: optimizers, schedules, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from rltrain.session import Session
from rltrain_skrl.agent import SessionAgent
from rltrain_skrl.spaces import holds_bytes, observation_groups
from rltrain_skrl.torch.env import with_final_observations
from rltrain_skrl.torch.memory import PooledMemory
from rltrain_skrl.torch.models import SessionModel
from rltrain_skrl.torch.progress import Progress
from rltrain_skrl.torch.scaler import AsFloats, PooledScaler
from rltrain_torch.checkpoints import as_file
from rltrain_torch.gradients import synchronize
from rltrain_torch.late_mean import LateMean
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
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(session=session, **components)
        groups = observation_groups(session.env.single_observation_space).spaces
        for group, source in (("observation", "policy"), ("state", "critic")):
            if holds_bytes(groups.get(source)):
                self._read_bytes(group)

    def _read_bytes(self, group: str) -> None:
        """Store observations as bytes in the memory, and convert them to float32 on reading.

        With a scaler they are stored as floats: the moments of a whole update are pooled from the
        memory.
        """
        read = getattr(self, f"_{group}_preprocessor")
        setattr(self, f"_{group}_preprocessor", AsFloats(read))
        if not isinstance(read, self.scaler_class):
            self.memory.bytes |= {f"{group}s", f"next_{group}s"}

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizers by their names in a checkpoint."""
        modules = self.checkpoint_modules.items()
        return {name: x for name, x in modules if isinstance(x, torch.optim.Optimizer)}

    def average_together(
        self,
        optimizer: torch.optim.Optimizer,
        *models: SessionModel,
        divergence: LateMean | None = None,
    ) -> None:
        """Average all gradients of an optimizer in one collective.

        Args:
            optimizer: steps the parameters of `models`, and no others.
            models: in the order in which skrl reduces them, before it clips and steps. The last
                one does the work for all.
            divergence: what decides on its learning rate, averaged in the same collective.
        """
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        parameters = list(dict.fromkeys(parameters))
        extras = [] if divergence is None else [divergence.number]
        sync = self._session.gradient_sync(
            [*parameters, *extras], extras=len(extras), may_overflow=self.scaler.is_enabled()
        )

        def average() -> None:
            averaged = synchronize(sync, parameters, extras)
            if divergence is not None:
                divergence.take(averaged)

        if self._session.group.world_size == 1:  # Then skrl reduces no model.
            optimizer.register_step_pre_hook(lambda *_: average())
        models[-1].average_gradients = average

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
        """Return the schedules, and the scaler of mixed precision."""
        parts = {name: x for name, x in vars(self).items() if isinstance(x, LRScheduler)}
        return parts | ({"scaler": self.scaler} if self.scaler.is_enabled() else {})

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
