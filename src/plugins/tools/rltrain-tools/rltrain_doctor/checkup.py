"""All checks of `rltrain doctor`, in order."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rltrain import __version__
from rltrain.commands import print_json
from rltrain.config import Placement
from rltrain.errors import RltrainError, UsageError, suggest
from rltrain.options import RunOptions, saved_variables
from rltrain.plugins import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain.types import World
from rltrain.work import place_run
from rltrain_doctor.devices import devices
from rltrain_doctor.findings import Finding, Section, look
from rltrain_doctor.limits import limits
from rltrain_doctor.network import network
from rltrain_doctor.page import print_section, print_summary
from rltrain_doctor.ranks import ranks
from rltrain_doctor.variables import variables
from rltrain_doctor.versions import versions

Placed = World | None | Exception
Check = tuple[str, Callable[[], Iterable[Finding]]]


def checkup(
    options: Mapping[str, Any], *, as_json: bool, fix: bool, start_ranks: bool, timeout: float
) -> int:
    """Run all checks, and print each section when it is done.

    Args:
        options: fields of `RunOptions` that say where the run will run.
        as_json: whether to print one JSON object at the end instead.
        fix: whether to save environment variables that help, if any are needed.
        start_ranks: whether to also start ranks.
        timeout: seconds for each start of ranks.

    Returns:
        1 if there is a problem, else 0.
    """
    requested = RunOptions.from_mapping({**options, "distributed": True})
    registry = discover(requested.no_plugins)
    library = options.get("library")
    _check_names(requested, library, registry)
    placement, placed = _placed(requested, registry)
    # One report per node: if a launcher started this process, only its node's first rank prints.
    shown = not isinstance(placed, World) or placed.slot == 0

    def report(text: str) -> None:
        if shown:
            print(text, file=sys.stderr, flush=True)

    checks = _checks(requested, placement, placed, registry, library, report)
    if start_ranks and placement is not None and not isinstance(placed, Exception):
        where = (placement, placed, registry, os.environ)
        checks.append(("Ranks", lambda: ranks(*where, timeout, fix, report)))
    sections: list[Section] = []
    for title, check in checks:
        sections.append(look(title, check))
        if shown and not as_json:
            print_section(sections[-1])
    status = int(any(each.level == "problem" for x in sections for each in x.findings))
    if shown and as_json:
        print_json(_as_json(sections, status))
    elif shown:
        print_summary(sections)
    return status


def _checks(
    requested: RunOptions,
    placement: Placement | None,
    placed: Placed,
    registry: Registry,
    library: str | None,
    report: Callable[[str], None],
) -> list[Check]:
    settled = placement or requested
    starts = placed is None and settled.node_rank == 0
    several = placed.num_nodes > 1 if isinstance(placed, World) else settled.nnodes > 1
    master = settled.master_addr, settled.master_port
    return [
        ("Versions", lambda: versions(registry, library)),
        ("Devices", lambda: devices(os.environ, registry, requested.framework, report)),
        ("Launcher", lambda: variables(os.environ, registry, placement, placed)),
        ("Network", lambda: network(os.environ, master, several=several, hosted=starts)),
        ("Limits", lambda: limits(requested.log_root)),
    ]


def _check_names(requested: RunOptions, library: str | None, registry: Registry) -> None:
    """Refuse unknown names. A library whose plugin is not ready is reported in its section."""
    not_ready = {record.name for record in registry.records if record.status != "ready"}
    if library is not None and library not in not_ready:
        registry.get(LibrarySpec, library)
    if requested.backend is not None:
        registry.get(BackendSpec, requested.backend)
    launcher = requested.launcher and registry.get(LauncherSpec, requested.launcher)
    if launcher and launcher.starts_nodes:
        raise UsageError(
            f"--launcher {launcher.name}: the doctor checks the machine that it runs on. Leave it "
            "out, and start the doctor on the nodes."
        )
    frameworks = sorted({spec.framework for spec in registry.all(BackendSpec)})
    if requested.framework not in {*frameworks, *not_ready}:
        raise UsageError(
            f"--framework {requested.framework}: unknown. Choose from {', '.join(frameworks)}."
            f"{suggest(requested.framework, frameworks)}"
        )


def _placed(requested: RunOptions, registry: Registry) -> tuple[Placement | None, Placed]:
    """Place the run as the plan does. An error is returned, to be reported as a finding."""
    try:
        placement, world = place_run(requested, registry, os.environ)
    except RltrainError as error:
        return None, error
    saved_variables(placement.backend)  # A mistake in the user's file is reported at once.
    few = placement.nproc_per_node == 1 and requested.nproc_per_node is None
    if world is None and few and placement.device_kind == "cpu":
        # The default for one core is one rank, which has no peer to talk to.
        placement = dataclasses.replace(placement, nproc_per_node=2)
    return placement, world


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
