"""The others of a run are told why this process does not start: they wait for it already."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltrain.config import Placement
from rltrain.launch.meeting import Member, meetings, refuse
from rltrain.launch.rank_log import say
from rltrain.options.run import RunOptions
from rltrain.options.secrets import hide_in_text
from rltrain.plan.cluster import find_place, join
from rltrain.plan.placement import unplaced
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec
from rltrain.terminal import one_line

__all__ = ["of_the_nodes", "telling_others"]

_PATIENCE = {"node": 15.0, "rank": 60.0}
"""Seconds in which the others are told: all of a job start at about the same time, and ranks import
their framework before they meet."""

_MORE = ("distributed", "framework", "cluster", "num_gpus")
"""Options that, besides those of `Placement`, decide where ranks meet."""


def of_the_nodes() -> tuple[str, ...]:
    """Return the names of the options that decide where ranks, or nodes, meet."""
    names = {field.name for field in dataclasses.fields(Placement)} | set(_MORE)
    return tuple(each.name for each in dataclasses.fields(RunOptions) if each.name in names)


@contextlib.contextmanager
def telling_others(options: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Tell the others of the run what is raised inside, unless they have begun to meet.

    Args:
        options: returns what is known of the run's options; called after a failure only.
    """
    before = meetings()
    try:
        yield
    except Exception as error:
        if meetings() == before:
            # Nobody is told by a process that does not know its place either.
            with contextlib.suppress(Exception):
                _tell(options(), error)
        raise


def _tell(options: Mapping[str, Any], error: Exception) -> None:
    names = of_the_nodes()
    given = {name: value for name, value in options.items() if name in names}
    requested = RunOptions.from_mapping(given)
    registry = discover(requested.no_plugins)
    starting = [spec.name for spec in registry.all(LauncherSpec) if spec.starts_nodes]
    found = None if requested.launcher in starting else _place(requested, registry)
    if found is None:
        return
    member, host, port = found
    patience = _PATIENCE[member.kind]
    text = hide_in_text(str(error) or type(error).__name__, options)
    if member.number == 0:
        say(f"{one_line(text)}\nThe others are told so, for up to {patience:g} s.")
    refuse(member, host, port, text, patience)


def _place(requested: RunOptions, registry: Registry) -> tuple[Member, str, int] | None:
    """Return who this process is at the meeting, and where that is; None if there is none."""
    environ = os.environ
    backend = requested.backend
    if (
        backend in registry.names(BackendSpec)
        and not registry.get(BackendSpec, backend).needs_master
    ):
        return None  # Its own launcher tells the others.
    found = find_place(requested, registry, environ)
    requested, world = join(requested, found, environ)
    config = unplaced(requested, requested.backend or "", "cpu")
    run = requested.rdzv_id or ""
    if world is None:
        if not requested.distributed or not config.nodes_are_numbered:
            return None
        return Member("node", config.node_rank, config.nnodes, run=run), *config.meeting_point
    if world.world_size == 1 or environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    host, port = config.master_addr, config.master_port
    if found is not None and found[0].order == 0:  # Its variables stay as they are.
        host, port = environ.get("MASTER_ADDR", host), int(environ.get("MASTER_PORT", port))
    return Member("rank", world.rank, world.world_size, run=run), host, port
