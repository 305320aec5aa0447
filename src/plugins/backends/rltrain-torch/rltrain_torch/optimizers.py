"""The divergence check of optimizers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch

from rltrain.session import Session
from rltrain_torch.fingerprints import fingerprints

__all__ = ["watch_optimizer"]


def watch_optimizer(
    session: Session, optimizer: torch.optim.Optimizer, role: str = "optimizer"
) -> None:
    """Register an optimizer's learning rates and moments with the divergence check.

    Args:
        session: this rank's session.
        optimizer: the optimizer; its state may still be empty.
        role: its name in messages, such as "critic optimizer".
    """
    session.watch(role, lambda: _fingerprints(optimizer))


def _fingerprints(optimizer: torch.optim.Optimizer) -> Mapping[str, Any]:
    rates = {
        "learning rate" if index == 0 else f"learning rate of group {index}": float(group["lr"])
        for index, group in enumerate(optimizer.param_groups)
    }
    parameters = itertools.chain.from_iterable(g["params"] for g in optimizer.param_groups)
    moments = (
        (f"{name} of parameter {index}", value)
        for index, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    )
    return {**rates, **fingerprints(moments)}
