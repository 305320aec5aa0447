"""All checks of `rltrain doctor`, in order."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rltrain import __version__
from rltrain.config import RunConfig
from rltrain.doctor.devices import devices
from rltrain.doctor.findings import Finding, Section, look
from rltrain.doctor.limits import limits
from rltrain.doctor.network import network
from rltrain.doctor.page import print_section, print_summary
from rltrain.doctor.ranks import ranks
from rltrain.doctor.variables import variables
from rltrain.doctor.versions import versions
from rltrain.errors import RltrainError, UsageError, suggest
from rltrain.placement import DEFAULT_BACKENDS, place
from rltrain.plan import choose_launcher
from rltrain.plugins import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain.types import World
from rltrain.user_config import saved_variables

__all__ = ["checkup"]

Placed = World | None | Exception
Check = tuple[str, Callable[[], Iterable[Finding]]]


def checkup(
    options: Mapping[str, Any], *, as_json: bool, fix: bool, start_ranks: bool, timeout: float
) -> int:
    """Make all checks, and print each section once it is done.

    Args:
        options: fields of `RunConfig`: where the run is to run.
        as_json: whether to print one JSON object at the end instead.
        fix: whether to save variables that help, if any are needed.
        start_ranks: whether to make the real check too.
        timeout: seconds for each start of ranks.

    Returns:
        1 if there is a problem, else 0.

    Raises:
        UsageError: an option is wrong.
    """
    config = RunConfig.from_options({**options, "distributed": True})
    registry = discover(config.no_plugins)
    library = options.get("library")
    _check_names(config, library, registry)
    config, placed = _placed(config, registry, given=options)
    # One page a node: of several ranks that somebody started, the others keep quiet.
    shown = not isinstance(placed, World) or placed.local_rank == 0
    checks = _checks(config, placed, registry, library)
    if start_ranks and not isinstance(placed, Exception):

        def say(text: str) -> None:
            if shown:
                print(text, file=sys.stderr, flush=True)

        where = (config, placed, registry, os.environ)
        checks.append(("Ranks", lambda: ranks(*where, timeout, fix, say)))
    sections: list[Section] = []
    for title, check in checks:
        sections.append(look(title, check))
        if shown and not as_json:
            print_section(sections[-1])
    status = int(any(each.level == "problem" for x in sections for each in x.findings))
    if shown and as_json:
        print(json.dumps(_as_json(sections, status), indent=2))
    elif shown:
        print_summary(sections)
    return status


def _checks(
    config: RunConfig, placed: Placed, registry: Registry, library: str | None
) -> list[Check]:
    starts = placed is None and config.node_rank == 0
    several = placed.num_nodes > 1 if isinstance(placed, World) else config.nnodes > 1
    master = _master(config, placed)
    return [
        ("Versions", lambda: versions(registry, library)),
        ("Devices", lambda: devices(os.environ, registry, config.framework)),
        ("Launcher", lambda: variables(os.environ, config, placed)),
        ("Network", lambda: network(os.environ, master, several=several, hosted=starts)),
        ("Limits", lambda: limits(config.log_root)),
    ]


def _check_names(config: RunConfig, library: str | None, registry: Registry) -> None:
    """Refuse names that nothing installed has; of a plugin that is not ready the page tells."""
    asleep = {record.name for record in registry.records if record.status != "ready"}
    if library is not None and library not in asleep:
        registry.get(LibrarySpec, library)
    if config.backend is not None:
        registry.get(BackendSpec, config.backend)
    if config.launcher is not None:
        registry.get(LauncherSpec, config.launcher)
    backends = [registry.get(BackendSpec, name) for name in registry.names(BackendSpec)]
    frameworks = sorted({*DEFAULT_BACKENDS, *(spec.framework for spec in backends)})
    if config.framework not in frameworks:
        raise UsageError(
            f"--framework {config.framework}: there is {', '.join(frameworks)}."
            f"{suggest(config.framework, frameworks)}"
        )


def _placed(
    config: RunConfig, registry: Registry, given: Mapping[str, Any]
) -> tuple[RunConfig, Placed]:
    """Do what a run does to find its place; that it cannot is no end, but a finding."""
    try:
        config, world = place(config, registry, os.environ)
        launcher = choose_launcher(config, registry)
    except RltrainError as error:
        return config, error
    saved_variables(config.backend or "")  # What the user's file holds wrongly is said at once.
    if world is None and config.nproc_per_node == 1 and "nproc_per_node" not in given:
        backend = registry.get(BackendSpec, config.backend or "")
        if backend.device == "cpu":  # One rank on the one core: of two, more is to be learned.
            config = dataclasses.replace(config, nproc_per_node=2)
    return dataclasses.replace(config, launcher=launcher.name), world


def _master(config: RunConfig, placed: Placed) -> tuple[str, int]:
    """Return where the ranks meet."""
    host, port = config.master_addr, str(config.master_port)
    if isinstance(placed, World) and config.coordinator_address is None:
        host, port = os.environ.get("MASTER_ADDR", host), os.environ.get("MASTER_PORT", port)
    elif config.rdzv_endpoint is not None:
        host, _, port = config.rdzv_endpoint.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else config.master_port


def _as_json(sections: Iterable[Section], status: int) -> dict[str, Any]:
    return {
        "rltrain": __version__,
        "host": socket.gethostname(),
        "status": "problem" if status else "ok",
        "sections": {
            section.title.lower(): [finding.as_json() for finding in section.findings]
            for section in sections
        },
    }
