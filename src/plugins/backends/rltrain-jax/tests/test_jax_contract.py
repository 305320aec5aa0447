"""The private parts and options of jax on which the plugin relies, and its clusters."""

from __future__ import annotations

import inspect

import jax
from cluster_variables import OPEN_MPI, SLURM, found
from jax._src import distributed
from jax._src.clusters import ompi_cluster, slurm_cluster

from rltrain_jax.compat import PREEMPTION, RECOVERABILITY


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


def test_a_process_has_one_client_and_one_service():
    assert {"client", "service"} <= set(dir(distributed.global_state))


def test_the_options_that_the_backends_set_exist():
    for name in ("jax_num_cpu_devices", "jax_platforms"):
        assert hasattr(jax.config, name), name
    # Older versions choose it by default.
    assert jax.config.jax_cpu_collectives_implementation in ("gloo", None)
    # A version with neither is older than both.
    assert hasattr(jax.config, PREEMPTION) == hasattr(jax.config, RECOVERABILITY)
    arguments = inspect.signature(jax.distributed.initialize).parameters
    assert {"cluster_detection_method", "coordinator_bind_address"} <= set(arguments)
