"""What jax finds in the variables of clusters, rltrain finds too."""

from __future__ import annotations

import inspect

from cluster_variables import (
    OPEN_MPI,
    SLURM,
    found,
)
from jax._src.clusters import ompi_cluster, slurm_cluster


def test_jax_reads_the_same_variables(monkeypatch):
    """Users of jax find the same ranks, address and port."""
    for name, cluster, variables in (
        ("slurm", slurm_cluster.SlurmCluster, SLURM),
        ("open-mpi", ompi_cluster.OmpiCluster, OPEN_MPI),
    ):
        with monkeypatch.context() as patch:
            for variable, value in variables.items():
                patch.setenv(variable, value)
            assert cluster.is_env_present()
            address = cluster.get_coordinator_address
            newer = "override_coordinator_port" in inspect.signature(address).parameters
            theirs = address(
                timeout_secs=1, **({"override_coordinator_port": None} if newer else {})
            )
            numbers = (cluster.get_process_id(), cluster.get_local_process_id())
            count = cluster.get_process_count()
        spec, ours = found(variables, framework="jax")
        assert spec.name == name
        assert (*numbers, count) == (ours.world.rank, ours.world.local_rank, ours.world.world_size)
        assert theirs == f"{ours.master_addr}:{ours.master_port}"
