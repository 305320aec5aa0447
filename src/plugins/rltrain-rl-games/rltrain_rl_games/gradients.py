"""Gradients averaged where rl_games leaves no place between `backward` and its clipping."""

from __future__ import annotations

from typing import Any

import torch

from rltrain.session import Session
from rltrain_torch.gradients import synchronise

__all__ = ["average_before_step"]


def average_before_step(
    session: Session, optimizer: torch.optim.Optimizer, max_norm: float | None = None
) -> None:
    """Average an optimiser's gradients over ranks whenever it is about to step. Collective.

    Args:
        session: this rank's side of the run.
        optimizer: of the parameters.
        max_norm: clip the averages to this norm. rl_games' own clipping comes before the step, and
            has to be switched off.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sync = session.gradient_sync(parameters)

    def before_step(*arguments: Any) -> None:
        synchronise(sync, parameters)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    optimizer.register_step_pre_hook(before_step)
