"""What each cluster sets, and the place that follows: by the variables that they document."""

from __future__ import annotations

import pytest
from cluster_variables import (
    FLUX,
    HYDRA,
    OPEN_MPI,
    PALS,
    SLURM,
    TORCHRUN,
    TRAIN_JOB,
    found,
    joined,
    without,
)
from messages import says

from rltrain.clusters import StartedRank
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import join
from rltrain.types import World

FOUR_ON_TWO = World(3, 1, 1, 4, 2, 2)

RANKS = [
    ("torchrun", TORCHRUN, FOUR_ON_TWO, None, None),
    ("slurm", SLURM, World(3, 1, 1, 5, 2, 3), "n1", 61452),
    ("open-mpi", OPEN_MPI, FOUR_ON_TWO, "10.96.0.1", 62624),
    ("open-mpi", without(OPEN_MPI, "OMPI_MCA_orte_hnp_uri"), FOUR_ON_TWO, None, None),
    (
        "open-mpi",
        {**dict(list(OPEN_MPI.items())[:4]), "PMIX_NAMESPACE": "prterun-a-1@1"},
        *(FOUR_ON_TWO, None, 63321),
    ),
    ("mpich", HYDRA, FOUR_ON_TWO, None, None),
    ("flux", FLUX, FOUR_ON_TWO, None, None),
    # Three tasks on two nodes: two on the first one.
    (
        "flux",
        {**FLUX, "FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "3"},
        *(World(1, 1, 0, 3, 2, 2), None, None),
    ),
    # With Flux's simple PMI.
    ("flux", {**FLUX, "PMI_RANK": "3", "PMI_SIZE": "4"}, FOUR_ON_TWO, None, None),
    ("pals", PALS, FOUR_ON_TWO, None, None),
    # Ray Train, Azure ML and DeepSpeed, the latter two without the ranks on this node.
    ("torchrun", {**TORCHRUN, "NODE_RANK": "1"}, FOUR_ON_TWO, None, None),
    (
        "torchrun",
        {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "NODE_RANK": "0"},
        *(World(3, 3, 0, 4, 4, 1), "a", None),
    ),
    # Azure ML's jobs of Open MPI.
    (
        "open-mpi",
        {**dict(list(OPEN_MPI.items())[:4]), "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"},
        *(FOUR_ON_TWO, "10.0.0.4", None),
    ),
]


@pytest.mark.parametrize(
    ("name", "environ", "world", "host", "port"), RANKS, ids=[each[0] for each in RANKS]
)
def test_a_started_rank_is_found(name, environ, world, host, port):
    spec, place = found(environ)
    assert spec.name == name
    assert isinstance(place, StartedRank)
    assert (place.world, place.master_addr, place.master_port) == (world, host, port)
    assert set(place.variables) <= set(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        # A batch script itself, outside of srun, is no step.
        without(SLURM, "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"),
        # The shell of an allocation for several tasks is a step of one.
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        {"RANK": "", "WORLD_SIZE": "2"},
    ],
)
def test_a_process_that_is_not_one_of_several_is_not_found(environ):
    assert found(environ) is None


@pytest.mark.parametrize(
    "environ",
    [
        {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "0"},
        {**TORCHRUN, "RANK": "4"},
        without(HYDRA, "MPI_LOCALRANKID"),
        without(PALS, "PMI_LOCAL_RANK"),
        {**OPEN_MPI, **HYDRA, "PMI_RANK": "2"},
    ],
)
def test_incomplete_or_contradictory_variables_are_shown(environ):
    with says(UsageError):
        found(environ)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        # Each of these starts the next one in practice.
        ({**SLURM, **OPEN_MPI}, "open-mpi"),
        ({**SLURM, **OPEN_MPI, **TORCHRUN}, "torchrun"),
        # srun with --mpi=pmi2.
        ({**SLURM, "PMI_RANK": "3", "PMI_SIZE": "5"}, "slurm"),
        # srun with --mpi=pmix.
        ({**SLURM, "PMIX_RANK": "3"}, "slurm"),
        # Two that agree.
        ({**OPEN_MPI, **HYDRA}, "open-mpi"),
    ],
)
def test_the_innermost_of_several_is_right(environ, name):
    assert found(environ)[0].name == name


def test_the_user_may_name_a_cluster_or_none():
    both = {**OPEN_MPI, **HYDRA, "PMI_RANK": "2"}
    assert found(both, cluster="open-mpi")[1].world.rank == 3
    assert found(both, cluster="mpich")[1].world.rank == 2
    assert found(both, cluster="none") is None
    with says(UsageError):
        found(both, cluster="flux")
    with says(UsageError):
        found(both, cluster="slrum")


def test_a_rank_meets_the_others_where_the_cluster_says():
    asked, world = joined(SLURM)
    assert world == World(3, 1, 1, 5, 2, 3)
    assert (asked.cluster, asked.master_addr, asked.master_port) == ("slurm", "n1", 61452)
    # Steps of a job that run side by side meet at ports of their own.
    ports = {joined({**SLURM, "SLURM_STEP_ID": step})[0].master_port for step in ("0", "1", "2")}
    assert len(ports) == 3
    assert 61452 in ports


@pytest.mark.parametrize(
    "environ",
    [
        # In the script of sbatch, in the shell of salloc, and in one that is a step.
        without(SLURM, "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"),
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "4294967290"},
    ],
)
def test_a_job_of_several_nodes_does_not_train_on_one_of_them_without_a_word(environ):
    environ = {**environ, "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    with says(UsageError):
        found(environ)
    assert found(environ, cluster="none") is None
    assert found(environ, distributed=True, nnodes=2, node_rank=1) is None
    assert found({**environ, "SLURM_JOB_NUM_NODES": "1"}) is None
    assert found({**environ, **OPEN_MPI})[0].name == "open-mpi"


def test_a_node_whose_name_does_not_resolve_is_looked_up_with_scontrol(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho NodeName=n1 CPUTot=2 NodeAddr=10.7.0.1 NodeHostName=$4\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert joined({**SLURM, "SLURM_STEP_NODELIST": "n1.invalid"})[0].master_addr == "10.7.0.1"
    assert joined({**SLURM, "SLURM_STEP_NODELIST": "localhost"})[0].master_addr == "localhost"
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    assert joined({**SLURM, "SLURM_STEP_NODELIST": "n1.invalid"})[0].master_addr == "n1.invalid"


def test_flags_come_before_the_cluster_and_ranks_that_cannot_know_where_to_meet_need_them():
    asked, _ = joined({**SLURM, "MASTER_ADDR": "10.1.1.1", "MASTER_PORT": "1"})
    assert (asked.master_addr, asked.master_port) == ("10.1.1.1", 1)
    asked, _ = joined({**SLURM, "MASTER_ADDR": "10.1.1.1"}, master_addr="me", master_port=5)
    assert (asked.master_addr, asked.master_port) == ("me", 5)
    with says(UsageError):
        joined(HYDRA)
    asked, world = joined(HYDRA, master_addr="10.0.0.1")
    assert (asked.master_addr, world) == ("10.0.0.1", FOUR_ON_TWO)
    one_node = {**HYDRA, "PMI_RANK": "1", "PMI_SIZE": "2"}
    assert joined(one_node)[0].master_addr == "127.0.0.1"


@pytest.mark.parametrize("environ", [TRAIN_JOB, {**TRAIN_JOB, "PET_NNODES": "1:4"}, SLURM])
def test_nodes_that_the_user_counts_are_believed(environ):
    options = {"nnodes": 3, "node_rank": 2}
    asked, world = joined(environ, **options)
    assert world is None
    assert asked == RunOptions(distributed=True, **options)


@pytest.mark.parametrize("options", [{"nproc_per_node": 2}, {"launcher": "x"}])
def test_the_only_task_on_a_node_may_start_ranks(options):
    a_node = {**SLURM, "SLURM_LOCALID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}
    a_node["SLURM_STEP_TASKS_PER_NODE"] = "1(x3)"
    asked, world = joined(a_node, **options)
    assert world is None
    assert (asked.nnodes, asked.node_rank, asked.master_addr) == (3, 1, "n1")
    with says(UsageError):
        joined(SLURM, **options)


def test_started_ranks_do_not_train_alone_in_silence():
    for environ in (SLURM, OPEN_MPI, TORCHRUN):
        with says(UsageError):
            join(RunOptions(), found(environ), environ)
        assert join(RunOptions(), found(environ, cluster="none"), environ) == (RunOptions(), None)
    # Independent runs on several nodes are common.
    assert join(RunOptions(), found(TRAIN_JOB), TRAIN_JOB) == (RunOptions(), None)


@pytest.mark.parametrize("variables", [TORCHRUN, SLURM])
@pytest.mark.parametrize("port", ["none", "65536", "0"])
def test_a_master_port_that_is_none_is_reported(variables, port):
    with says(UsageError):
        joined({**variables, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port})
