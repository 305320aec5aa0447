"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.specs import BackendSpec, DoctorChecks, LauncherSpec, Spec


@dataclass(frozen=True)
class MpiOptions:
    """How ranks are started."""

    mpiexec: str = field(default="", metadata=naming("command"))
    """The command that starts ranks, with its flags, such as "mpirun --bind-to core". By default,
    the mpiexec next to this Python, else the one on PATH."""

    def __post_init__(self) -> None:
        try:
            shlex.split(self.mpiexec)
        except ValueError as error:
            raise ValueError(f"mpiexec={self.mpiexec}: {error}. Close the quotation.") from None


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare a backend and a launcher."""
    return [
        BackendSpec(
            name="mpi",
            factory="rltrain_mpi.backend:MpiBackend",
            framework="torch",
            arrays="rltrain_torch.arrays:TorchArrays",
            exporter="rltrain_torch.exporter:TorchExporter",
            needs_master=False,
            launcher="mpi",
            grad_sync="flat",
            device="cpu",
            summary="MPI, fast where each rank has a core of its own",
        ),
        LauncherSpec(
            name="mpi",
            factory="rltrain_mpi.launcher:MpiLauncher",
            options="rltrain_mpi.plugin:MpiOptions",
            frameworks=("torch",),
            unsupported=("nnodes", "max_restarts"),
            summary="mpiexec, on one node",
        ),
    ]


@hookimpl
def rltrain_checkup() -> DoctorChecks:
    """Say which MPI there is."""
    return DoctorChecks(facts={"torch": "rltrain_mpi.backend:about"})
