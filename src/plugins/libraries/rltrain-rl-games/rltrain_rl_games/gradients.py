"""Gradient averaging where rl_games has no hook between `backward` and its clipping."""

from __future__ import annotations

from typing import Any

import torch

from rltrain.session import Session
from rltrain_torch.gradients import synchronize


def average_before_step(
    session: Session, optimizer: torch.optim.Optimizer, max_norm: float | None = None
) -> None:
    """Average an optimizer's gradients over ranks before each of its steps. Collective.

    Args:
        session: this rank's session.
        optimizer: the optimizer of the parameters.
        max_norm: norm to which the averages are clipped. rl_games clips before the step, so its
            own clipping must be switched off.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sync = session.gradient_sync(parameters)

    def before_step(*arguments: Any) -> None:
        synchronize(sync, parameters)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    optimizer.register_step_pre_hook(before_step)
