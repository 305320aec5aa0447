"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import ClusterSpec, Spec
from rltrain_htcondor.cluster import find

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the cluster."""
    return [
        ClusterSpec(
            name="htcondor",
            find=find,
            order=30,  # It starts one process on each node.
            variables=("_CONDOR_PROCNO", "_CONDOR_NPROCS"),
            summary="nodes of a job in HTCondor's parallel universe",
        )
    ]
