"""The manifest of a run: command, versions, seeds, config. Also the check that all ranks agree."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from rltrain.config import RunConfig
from rltrain.config.declare import NAMES, SCOPE, Scope, scoped
from rltrain.config.options import Options
from rltrain.data import parse_json
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten
from rltrain.files.reading import read_text
from rltrain.files.secrets import hide, hide_words, without_secrets
from rltrain.plugins.installed import folders, installed_plugins, version_of
from rltrain.seeding import STREAMS, SeedPlan
from rltrain.storage.run_folder import RunFolder
from rltrain.types import ProcessGroup, World

_LARGEST = 64 << 20
"""Bytes of a manifest that is read. Each rank has its seeds in it."""


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python, every plugin, and what the plugins adapt.

    Cached: what is installed does not change while a process trains.
    """
    plugins = installed_plugins(folders())
    names = {plugin.distribution for plugin in plugins}
    for text in {text for plugin in plugins for text in plugin.requires}:
        with contextlib.suppress(InvalidRequirement):
            names.add(Requirement(text).name)
    found = {name: version_of(name) for name in sorted(names)}
    return {"python": platform.python_version()} | {
        name: version for name, version in found.items() if version
    }


def manifest(config: RunConfig, world: World, seeds: SeedPlan) -> dict[str, Any]:
    """Return everything needed to know what was run, and to repeat it; no secrets."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": shlex.join(hide_words(sys.argv)),
        "host": socket.gethostname(),
        "folder": os.getcwd(),
        "versions": dict(versions()),
        "world_size": world.world_size,
        "num_nodes": world.num_nodes,
        "seed": seeds.base,
        "seeds": [
            {"rank": rank} | {name: SeedPlan(seeds.base, rank).seed(name) for name in STREAMS}
            for rank in range(world.world_size)
        ],
        "config": hide(dataclasses.asdict(config)),
    }


def read_manifest(run: Path) -> dict[str, Any] | None:
    """Return the manifest in a run folder; None if there is none, or it cannot be read."""
    try:
        found = parse_json(read_text(run / "manifest.json", _LARGEST, run))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("config"), dict) else None


def write_config(folder: RunFolder, config: RunConfig) -> None:
    """Write `config.yaml`, from which `rltrain --config` repeats the run, and `agent.yaml`.

    Secrets are left out.
    """
    from omegaconf import OmegaConf

    left_out = {"agent", "plugins", *scoped(Options, Scope.COMMAND)}
    if config.total_envs:  # num_envs is computed from it for any number of ranks.
        left_out.add("num_envs")
    resolved = dataclasses.asdict(config)
    options = {
        each.name: list(value) if isinstance(value, tuple) else value
        for each in dataclasses.fields(Options)
        if each.name not in left_out and (value := resolved[each.name]) not in (None, {})
    }
    agent = OmegaConf.create(without_secrets(config.agent))
    folder.write_atomically("agent.yaml", lambda path: OmegaConf.save(agent, path))
    options["agent_config"] = str(folder.path / "agent.yaml")
    options.update({name: dict(given) for name, given in config.plugins.items()})
    run = OmegaConf.create(without_secrets(options))
    folder.write_atomically("config.yaml", lambda path: OmegaConf.save(run, path))


def check_agreement(group: ProcessGroup, config: RunConfig) -> None:
    """Check that the resolved run and all versions are the same on all ranks. Collective.

    Nodes can have different packages installed, and each joined rank reads its own files. Ranks
    that run different things would hang or train nonsense. Paths and addresses are as each node
    sees them: of a file, what was read from it counts.
    """
    if group.world_size == 1:
        return
    own = hide(dataclasses.asdict(config))
    options = {
        each.name: own[each.name]
        for each in dataclasses.fields(config)
        if each.metadata.get(NAMES) not in ("path", "host")
        and not each.metadata[SCOPE] & (Scope.NODE | Scope.OUTPUT)
    }
    said = {**dict(flatten(options)), **{f"version of {k}": v for k, v in versions().items()}}
    # As text: ranks send each other data only, and an option's value may be of any class.
    ranks = group.gather_objects({name: repr(value) for name, value in said.items()})
    for rank, other in enumerate(ranks):
        for name in {**ranks[0], **other}:
            mine, theirs = ranks[0].get(name, "None"), other.get(name, "None")
            if mine != theirs:
                raise UsageError(
                    f"The ranks do not agree: {name} is {mine} on rank 0 and {theirs} "
                    f"on rank {rank}. Start every node with the same options, files and versions."
                )
