"""Records the learned state after every iteration, for any library."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from rltrain import hookimpl
from rltrain.records import Scalars
from rltrain_devkit.as_one.alike import is_compared

State = dict[str, torch.Tensor]


class Watcher:
    """An observer that keeps the learned state and the metrics after every iteration.

    That is: parameters and buffers of every model; of every optimizer that has made a step its
    learning rates and moments, and those of its parameters that belong to no model, wherever the
    adapter keeps them; and the metrics.
    """

    def __init__(self) -> None:
        self.models: dict[str, Any] = {}
        self.optimizers: list[torch.optim.Optimizer] = []
        self.states: list[State] = []
        """After each iteration, on rank 0."""
        self.last: State = {}
        """When training ended, on every rank."""

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role: str) -> Any:
        self.models[role] = model = yield
        return model

    @hookimpl
    def rltrain_write(self, record: Any) -> None:
        if isinstance(record, Scalars):
            self.states.append(self._state() | _metrics(record))

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Any:
        with self._steps_seen():
            result = yield
        self.last = self._state()
        return result

    @contextlib.contextmanager
    def _steps_seen(self) -> Iterator[None]:
        here = threading.get_ident()

        def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if threading.get_ident() == here and optimizer not in self.optimizers:
                self.optimizers.append(optimizer)

        handle = register_optimizer_step_post_hook(note)
        try:
            yield
        finally:
            handle.remove()

    def _state(self) -> State:
        found = {
            f"{role}.{name}": tensor
            for role, model in self.models.items()
            for name, tensor in model.state_dict().items()
        }
        of_models = {id(x) for model in self.models.values() for x in model.parameters()}
        for number, optimizer in enumerate(self.optimizers):
            parameters = [x for group in optimizer.param_groups for x in group["params"]]
            for index, group in enumerate(optimizer.param_groups):
                rate = torch.tensor(float(group["lr"]), dtype=torch.float64)
                found[f"optimizer {number} learning rate {index}"] = rate
            for index, parameter in enumerate(parameters):
                if id(parameter) not in of_models:
                    found[f"optimizer {number} parameter {index}"] = parameter
                for name, value in optimizer.state.get(parameter, {}).items():
                    found[f"optimizer {number} {name} {index}"] = torch.as_tensor(value)
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()}


def _metrics(record: Scalars) -> State:
    """Return a record's metrics over all ranks, except those that no number of ranks has alike."""
    figures = {
        **record.values,
        "frames": record.frames,
        "episode return": record.episode_return,
        "episode length": record.episode_length,
    }
    return {
        f"recorded {name}": torch.tensor(value, dtype=torch.float64)
        for name, value in figures.items()
        if value is not None and is_compared(name)
    }
