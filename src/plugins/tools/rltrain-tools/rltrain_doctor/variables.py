"""The environment variables that clusters and libraries have set, and how rltrain reads them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping

from rltrain.config import Placement
from rltrain.options import hide
from rltrain.plugins import Registry
from rltrain.specs import ClusterSpec
from rltrain.types import World
from rltrain_doctor.findings import Finding, ok, problem, warning

_OTHERS = (
    *("CUDA_*", "*_VISIBLE_DEVICES", "NCCL_*", "GLOO_*", "TORCH_*", "UCX_*", "FI_PROVIDER"),
    *("*_NUM_THREADS", "PJRT_NPROC", "JAX_*", "COORDINATOR_ADDRESS", "NUM_PROCESSES"),
    *("PROCESS_ID", "XLA_*", "PYTORCH_*", "RLTRAIN_*"),
)
"""Patterns of variables to show that are not of a cluster."""

_SIZES = {
    "srun": "SLURM_STEP_NUM_TASKS",
    "mpiexec": "PMI_SIZE",
    "PALS": "PALS_SIZE",
    "a scheduler": "NUM_PROCESSES",
}
"""By who starts processes: the variable with their number, where no cluster joins them."""

_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def variables(
    environ: Mapping[str, str],
    registry: Registry,
    placement: Placement | None,
    placed: World | Exception | None,
) -> Iterator[Finding]:
    """Report which variables are set, and how rltrain interprets them.

    `placed` is this process' place; None if it will start ranks; the error if neither is possible.
    """
    groups = {spec.name: spec.variables for spec in registry.all(ClusterSpec)}
    groups["others"] = _OTHERS
    for who, patterns in groups.items():
        values = {
            name: hide(environ[name], name)
            for name in sorted(environ)
            if any(fnmatch.fnmatchcase(name, each) for each in patterns)
        }
        if values:
            yield ok(who, " ".join(f"{n}={v}" for n, v in values.items()), variables=values)
    yield _interpreted(placement, placed)
    if placed is not None or placement is None or placement.cluster or placement.nnodes > 1:
        return
    given = [name for name in _RANK if environ.get(name)]
    lacking = [name for name in _RANK if name not in given]
    if given and lacking:
        found = " ".join(f"{name}={environ[name]}" for name in given)
        text = f"{found} without {' and '.join(lacking)}: rltrain does not treat this as a rank"
        hint = f"Unset {' '.join(given)}, or set all of {', '.join(_RANK)}."
        yield warning("ranks", text, hint)
    for who, name in _SIZES.items():
        number = environ.get(name, "")
        if number.isdecimal() and int(number) > 1:
            text = f"{who} started {number} processes ({name}={number}), which rltrain does not "
            hint = (
                "Start rltrain once per node, with --nnodes, --node-rank and --master-addr; or "
                "start the ranks with torchrun."
            )
            yield problem("ranks", f"{text}join: each would train alone", hint)


def _interpreted(placement: Placement | None, placed: World | Exception | None) -> Finding:
    if isinstance(placed, Exception):
        return problem("this process", str(placed), "")
    assert placement is not None, "without an error there is a placement"
    by = f", started by {placement.cluster}" if placement.cluster not in (None, "none") else ""
    if placed is None:
        text = f"starts {placement.nproc_per_node} rank(s) here, by {placement.launcher}"
        if placement.nnodes > 1:
            text += f", as node {placement.node_rank} of {placement.nnodes}{by}"
        return ok("this process", text)
    return ok(
        "this process",
        f"joins as rank {placed.rank} of {placed.world_size}: local rank {placed.local_rank} of "
        f"{placed.local_world_size} on node {placed.node_rank} of {placed.num_nodes}, device "
        f"{placed.device}{by}",
    )
