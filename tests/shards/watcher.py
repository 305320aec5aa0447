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

__all__ = ["State", "Watcher", "differences"]

State = dict[str, torch.Tensor]

NOT_COMPARED = ("time/", "diagnostics/exp_var")
"""Figures that no number of ranks has alike: times, and a share of the variance, which is the mean
of the ranks' own."""


class Watcher:
    """An observer that keeps the learned state and the metrics after every iteration.

    That is: parameters and buffers of every model; of every optimizer that has made a step its
    learning rate and moments, wherever the adapter keeps them; and all metrics except times.
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
        """Note the optimizers that make a step in this rank's thread."""
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
        for number, optimizer in enumerate(self.optimizers):
            for group in optimizer.param_groups:
                found[f"optimizer {number} learning rate"] = torch.as_tensor(float(group["lr"]))
                for index, parameter in enumerate(group["params"]):
                    for name, value in optimizer.state.get(parameter, {}).items():
                        found[f"optimizer {number} {name} {index}"] = torch.as_tensor(value)
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()}


def _metrics(record: Scalars) -> State:
    """Return a record's metrics over all ranks, except times."""
    figures = {
        **record.values,
        "frames": record.frames,
        "episode return": record.episode_return,
        "episode length": record.episode_length,
    }
    return {
        f"recorded {name}": torch.tensor(value, dtype=torch.float64)
        for name, value in figures.items()
        if value is not None and not name.startswith(NOT_COMPARED) and not name.endswith("(ms)")
    }


def differences(state: State, expected: State) -> dict[str, float]:
    """Return the differences of tensors by name, relative where they are larger than 1.

    One element in a thousand counts a tenth: the gradient of a unit changes if the sum before its
    ReLU is 0 but for rounding, which differs between CPUs. A fault changes nearly all elements.

    Raises:
        AssertionError: the two do not have the same tensors.
    """
    assert state.keys() == expected.keys(), sorted(state.keys() ^ expected.keys())
    assert state, "nothing was learned"

    def apart(name: str) -> float:
        x, y = state[name].double(), expected[name].double()
        assert x.shape == y.shape, name
        each = ((x - y).abs() / y.abs().clamp(min=1.0)).flatten()
        nearly_all = each.kthvalue(len(each) - len(each) // 1000).values
        return float(torch.maximum(nearly_all, each.max() / 10))

    return {name: apart(name) for name in state}
