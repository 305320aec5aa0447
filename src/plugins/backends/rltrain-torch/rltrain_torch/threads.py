"""How many threads torch computes with in one process."""

from __future__ import annotations

import os

import torch

from rltrain.launch import cores_of_rank
from rltrain.session import Session
from rltrain.types import World
from rltrain_torch.policy import groups_of

__all__ = ["add_for", "begin_with_few", "share_cores"]

_WORK = 500_000_000
"""Floating-point operations of a forward pass for each thread. With less, a second thread makes a
pass at most 1.8 times as fast on an idle machine; where other programs compute, ten times as slow
and more, as one thread waits for the other at each layer (docs/clusters.md)."""


def share_cores(world: World) -> None:
    """Give this rank's torch as many threads as it has cores, unless the user has chosen."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(cores_of_rank(world))


def begin_with_few(session: Session) -> None:
    """Give torch on the CPU one thread, or with images one for each core, before there are models.

    Convolutions compute more than their parameters suggest. OMP_NUM_THREADS comes first.
    """
    if _is_chosen(session):
        return
    groups = groups_of(session.env.single_observation_space).values()
    torch.set_num_threads(cores_of_rank(session.world) if any(x.is_image for x in groups) else 1)


def add_for(session: Session, model: torch.nn.Module) -> None:
    """Give torch on the CPU the threads that one more model pays for, at most one for each core."""
    if _is_chosen(session):
        return
    work = 2 * sum(x.numel() for x in model.parameters()) * session.batch_rows
    paid = min(cores_of_rank(session.world), work // _WORK)
    torch.set_num_threads(max(torch.get_num_threads(), paid))


def _is_chosen(session: Session) -> bool:
    return session.world.device != "cpu" or "OMP_NUM_THREADS" in os.environ
