"""Ranks of SLURM and Open MPI, from their documented variables."""

from __future__ import annotations

import inspect

import pytest

from rltrain.errors import UsageError
from rltrain.launch.schedulers import check_alone, scheduled_world
from rltrain.types import World

SLURM = {
    "SLURM_JOB_ID": "12",
    "SLURM_NTASKS": "5",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "n[1-3]",
}
"""Of the second task on the second of three nodes, as srun sets them."""

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911",
}


def without(variables, *names):
    return {name: value for name, value in variables.items() if name not in names}


def test_a_task_of_srun_is_a_rank():
    assert scheduled_world(SLURM, False) == World(3, 1, 1, 5, 2, 3)
    last = {**SLURM, "SLURM_PROCID": "4", "SLURM_LOCALID": "0", "SLURM_NODEID": "2"}
    assert scheduled_world(last, False) == World(4, 0, 2, 5, 1, 3)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        # In a batch script itself, outside of srun, there is no step.
        without(SLURM, "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"),
        # The shell of an allocation for several tasks is a step of one.
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
    ],
)
def test_a_process_that_is_not_one_of_several_ranks_is_not_joined(variables):
    assert scheduled_world({**variables, "SLURM_NODEID": "0"}, False) is None


def test_a_rank_of_mpirun_is_a_rank():
    assert scheduled_world(OPEN_MPI, False) == World(3, 1, 1, 4, 2, 2)


def test_mpirun_without_a_known_host_needs_an_address():
    five = without(OPEN_MPI, "OMPI_MCA_orte_hnp_uri")
    with pytest.raises(UsageError, match=r"mpirun started 4 ranks.*Add --coordinator-address"):
        scheduled_world(five, False)
    assert scheduled_world(five, True) == World(3, 1, 1, 4, 2, 2)


@pytest.mark.parametrize(
    "variables",
    [
        {**SLURM, "SLURM_PROCID": "x"},
        {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "x"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "0"},
    ],
)
def test_invalid_rank_variables_are_refused(variables):
    with pytest.raises(UsageError, match="are not valid rank numbers"):
        scheduled_world(variables, False)


PAI_DLC = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "dlc-0", "MASTER_PORT": "23456"}
KUBEFLOW = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "WORLD_SIZE": "4", "RANK": "1"}


@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        (
            PAI_DLC,
            "--nnodes $WORLD_SIZE --node-rank $RANK --master-addr $MASTER_ADDR "
            "--master-port $MASTER_PORT.",
        ),
        (
            without(PAI_DLC, "MASTER_ADDR", "MASTER_PORT"),
            "--nnodes $WORLD_SIZE --node-rank $RANK --master-addr HOST_OF_NODE_0.",
        ),
        # WORLD_SIZE counts ranks there.
        (KUBEFLOW, "--nnodes $PET_NNODES --node-rank $PET_NODE_RANK --master-addr HOST_OF_NODE_0."),
        ({**KUBEFLOW, "PET_NNODES": "1:4"}, "--nnodes $PET_NNODES "),
    ],
)
def test_one_of_several_nodes_may_not_train_alone(variables, flags):
    with pytest.raises(UsageError) as caught:
        check_alone(variables)
    assert f"For one run on all nodes add {flags}" in str(caught.value)


@pytest.mark.parametrize(
    "variables",
    [{}, {**PAI_DLC, "WORLD_SIZE": "1"}, without(PAI_DLC, "RANK"), without(PAI_DLC, "WORLD_SIZE")],
)
def test_the_only_node_may_train_alone(variables):
    check_alone(variables)


def test_jax_knows_the_same_variables(monkeypatch):
    """jax finds the coordinator itself, so both must read the same variables."""
    pytest.importorskip("jax")
    from jax._src.clusters import ompi_cluster, slurm_cluster

    def of(cluster, variables):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert cluster.is_env_present()
            address = cluster.get_coordinator_address
            newer = "override_coordinator_port" in inspect.signature(address).parameters
            return (
                cluster.get_process_id(),
                cluster.get_local_process_id(),
                cluster.get_process_count(),
                address(timeout_secs=1, **({"override_coordinator_port": None} if newer else {})),
            )

    world = scheduled_world(SLURM, False)
    *place, address = of(slurm_cluster.SlurmCluster, SLURM)
    assert place == [world.rank, world.local_rank, world.world_size]
    assert address.startswith("n1:")
    world = scheduled_world(OPEN_MPI, False)
    *place, address = of(ompi_cluster.OmpiCluster, OPEN_MPI)
    assert place == [world.rank, world.local_rank, world.world_size]
    assert address.startswith("10.96.0.1:")
