"""Nodes that wait for one that does not start are told why, also where nodes number themselves."""

from __future__ import annotations

import dataclasses

import rltrain_nodes
from rltrain.config import Placement
from rltrain.launch import say
from rltrain.terminal import one_line
from rltrain.types import World

_PATIENCE = 15
"""Seconds in which the others are told: all of a job start at about the same time."""


def refuse(config: Placement, world: World | None, words: str) -> None:
    """Tell those who wait for this node why it does not start; see `LauncherSpec.refuse`.

    Where nodes come and go, the others go on without it.

    Args:
        config: where the run runs.
        world: the rank's place; None for a node.
        words: why.
    """
    if world is not None or config.rdzv_backend != "c10d":
        rltrain_nodes.refuse(config, world, words)
    elif config.nnodes > 1 and config.min_nodes in (None, config.nnodes):
        from rltrain_torch.elastic import rendezvous_of
        from rltrain_torch.rendezvous import create

        say(f"{one_line(words)}\nThe others are told so, for up to {_PATIENCE} s.")
        own = create(rendezvous_of(dataclasses.replace(config, join_timeout=_PATIENCE)))
        own.refuse(words, _PATIENCE)
        own.shutdown()
