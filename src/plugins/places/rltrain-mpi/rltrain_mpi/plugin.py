"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import BackendSpec, Checkup, LauncherSpec, Spec


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
            options="rltrain_mpi.options:MpiOptions",
            frameworks=("torch",),
            lacks=("max_restarts",),
            summary="mpiexec, on one node",
        ),
    ]


@hookimpl
def rltrain_checkup() -> Checkup:
    """Say which MPI there is."""
    return Checkup(facts={"torch": "rltrain_mpi.library:about"})
