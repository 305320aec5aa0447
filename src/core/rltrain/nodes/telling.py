"""The other nodes or ranks, which may wait already, learn why this process does not start."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltrain.config.declare import Scope, scoped
from rltrain.files.secrets import hide_in_text
from rltrain.nodes.meeting import meetings, refuse
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster, join
from rltrain.placement.resolve import unplaced
from rltrain.plugins.manager import usual_of
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec

OF_RANKS = scoped(RunOptions, Scope.RANKS)
"""The options that decide where ranks meet."""


@contextlib.contextmanager
def telling_others(options: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Let the others of the run know what is raised inside, unless they have begun to meet.

    After a failure only, `options` is called for what is known of the run's options.
    """
    before = meetings()
    try:
        yield
    except Exception as error:
        if meetings() == before:
            # It may not know who the others are.
            with contextlib.suppress(Exception):
                _tell(options(), error)
        raise


def _tell(options: Mapping[str, Any], error: Exception) -> None:
    given = {name: value for name, value in options.items() if name in OF_RANKS}
    requested = RunOptions.from_mapping(given)
    registry = discover(requested.no_plugins)
    found = find_cluster(requested, registry, os.environ)
    requested, world = join(requested, found, os.environ)
    config = unplaced(requested, requested.backend or "", "cpu")
    if world is not None and found is not None and found[0].order == 0:
        # Its variables stay as they are.
        host = os.environ.get("MASTER_ADDR", config.master_addr)
        port = int(os.environ.get("MASTER_PORT", config.master_port))
        config = dataclasses.replace(config, master_addr=host, master_port=port)
    if config.distributed and _others_wait(requested, registry, is_rank=world is not None):
        refuse(config, world, hide_in_text(str(error) or type(error).__name__, options))


def _others_wait(requested: RunOptions, registry: Registry, *, is_rank: bool) -> bool:
    """Return whether ranks, or the launchers of their nodes, meet at the master's address.

    Where the name that was given is wrong, that is the error: others may wait by the usual one.
    """
    if is_rank:
        backend = requested.backend
        unknown = backend not in registry.names(BackendSpec)
        return unknown or registry.get(BackendSpec, backend or "").needs_master
    name = requested.launcher
    if name not in registry.names(LauncherSpec):
        name = usual_of(registry, requested.framework, "launcher", requested.backend)
    launcher = registry.get(LauncherSpec, name) if name is not None else None
    return launcher is not None and not (launcher.starts_nodes or "nnodes" in launcher.unsupported)
