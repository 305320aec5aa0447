"""All checks of `rltrain doctor`, in order."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

from rltrain import __version__
from rltrain.commands import print_json
from rltrain.config import Placement
from rltrain.errors import RltrainError, UsageError, suggest
from rltrain.options import RunOptions
from rltrain.plugins import Registry, discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain.types import World
from rltrain.work import place_run
from rltrain_doctor.command import DoctorOptions
from rltrain_doctor.devices import devices
from rltrain_doctor.findings import Finding, print_section, print_summary, run_check
from rltrain_doctor.limits import limits
from rltrain_doctor.network import network
from rltrain_doctor.ranks import ranks
from rltrain_doctor.variables import variables
from rltrain_doctor.versions import versions

Placed = World | None | Exception
"""This process' place among ranks that were started; None if it starts them."""


def checkup(options: Mapping[str, Any], own: DoctorOptions) -> int:
    """Run all checks, print each section when it is done, and return 1 if there is a problem."""
    requested = RunOptions.from_mapping({**options, "distributed": True})
    registry, environ = discover(requested.no_plugins), os.environ
    library = options.get("library")
    _check_names(requested, library, registry)
    placement, placed = _place(requested, registry)
    # One report per node: if a launcher started this process, only its node's first rank prints.
    shown = not isinstance(placed, World) or placed.slot == 0

    def report(text: str) -> None:
        if shown:
            print(text, file=sys.stderr, flush=True)

    settled = placement or requested
    several = placed.num_nodes > 1 if isinstance(placed, World) else settled.nnodes > 1
    hosted = placed is None and settled.node_rank == 0
    master = settled.master_addr, settled.master_port
    checks = {
        "Versions": lambda: versions(registry, library),
        "Devices": lambda: devices(environ, registry, requested.framework, report),
        "Launcher": lambda: variables(environ, registry, placement, placed),
        "Network": lambda: network(master, several=several, hosted=hosted),
        "Limits": lambda: limits(requested.log_root),
    }
    if not own.no_ranks and placement is not None and not isinstance(placed, Exception):
        where = placement, placed, registry, environ
        checks["Ranks"] = lambda: ranks(*where, own.timeout, report)
    sections: dict[str, list[Finding]] = {}
    for title, check in checks.items():
        sections[title] = run_check(title, check)
        if shown and not own.json:
            print_section(title, sections[title])
    findings = [finding for section in sections.values() for finding in section]
    status = int(any(finding.level == "problem" for finding in findings))
    if shown and own.json:
        about = {"rltrain": __version__, "host": socket.gethostname()}
        about["status"] = "problem" if status else "ok"
        shapes = {title.lower(): [x.as_json() for x in each] for title, each in sections.items()}
        print_json({**about, "sections": shapes})
    elif shown:
        print_summary(findings)
    return status


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


def _place(requested: RunOptions, registry: Registry) -> tuple[Placement | None, Placed]:
    """Place the run as the plan does. An error is returned, to be reported as a finding."""
    try:
        placement, world = place_run(requested, registry, os.environ)
    except RltrainError as error:
        return None, error
    few = placement.nproc_per_node == 1 and requested.nproc_per_node is None
    if world is None and few and placement.device_kind == "cpu":
        # The default for one core is one rank, which has no peer to talk to.
        placement = dataclasses.replace(placement, nproc_per_node=2)
    return placement, world
