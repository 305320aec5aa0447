"""How many threads torch computes with in one process."""

from __future__ import annotations

import os

import torch

from rltrain.launch import cores_of_rank
from rltrain.session import Session
from rltrain.types import World
from rltrain_torch.policy import groups_of

__all__ = ["choose_threads", "share_cores"]

_WORK = 500_000_000
"""Floating-point operations of a forward pass for each thread. With less, a second one gains little
on an idle machine, and where other programs compute, a pass takes ten times as long or more: one
thread waits for the other at each layer (benchmarks/threads.py)."""


def share_cores(world: World) -> None:
    """Give this rank's torch as many threads as it has cores, unless the user has chosen."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(cores_of_rank(world))


def choose_threads(session: Session, model: torch.nn.Module | None = None) -> None:
    """Give torch on the CPU the threads that the work pays for, at most one for each core.

    What a user sets by OMP_NUM_THREADS stays. Images are for all cores: convolutions do more than
    their parameters tell.

    Args:
        session: has its environments; its mini-batches have `session.batch_rows` rows.
        model: it is to be run from now on, as well as those before it; None before there is one.
    """
    if session.world.device != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return
    cores, threads = cores_of_rank(session.world), 1
    if any(x.is_image for x in groups_of(session.env.single_observation_space).values()):
        threads = cores
    elif model is not None:
        work = 2 * sum(x.numel() for x in model.parameters()) * session.batch_rows
        threads = max(torch.get_num_threads(), min(cores, work // _WORK))
    torch.set_num_threads(threads)
