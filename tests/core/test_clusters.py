"""What each cluster sets, and the place that follows: by the variables that they document."""

from __future__ import annotations

import dataclasses
import inspect
import json
import socket

import pytest

from rltrain.clusters import StartedNode, StartedRank
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.place.cluster import find_place, join
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import ClusterSpec
from rltrain.types import World

REGISTRY = discover()

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
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,192.168.0.9:34911",
}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH = {f"MV2{name[4:]}": value for name, value in list(OPEN_MPI.items())[:4]}
JSRUN = {
    name.replace("OMPI_COMM_WORLD", "JSM_NAMESPACE"): value
    for name, value in list(OPEN_MPI.items())[:4]
}
FLUX = {
    "FLUX_TASK_RANK": "3",
    "FLUX_JOB_SIZE": "4",
    "FLUX_TASK_LOCAL_ID": "1",
    "FLUX_JOB_NNODES": "2",
}
PALS = {
    "PALS_RANKID": "3",
    "PMI_RANK": "3",
    "PMI_SIZE": "4",
    "PMI_LOCAL_RANK": "1",
    "PMI_LOCAL_SIZE": "2",
}
TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
SKRL = {
    "JAX_RANK": "1",
    "JAX_LOCAL_RANK": "1",
    "JAX_WORLD_SIZE": "2",
    "JAX_COORDINATOR_ADDR": "10.0.0.1",
    "JAX_COORDINATOR_PORT": "5000",
}
PAI_DLC = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "dlc-0", "MASTER_PORT": "23456"}
TRAIN_JOB = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "8",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29400",
}
PYTORCH_JOB = {**TRAIN_JOB, "WORLD_SIZE": "16", "RANK": "1"}
"""With `nprocPerNode`: WORLD_SIZE counts ranks."""


JAX_JOB = {
    "COORDINATOR_ADDRESS": "job-worker-0",
    "COORDINATOR_PORT": "6666",
    "NUM_PROCESSES": "2",
    "PROCESS_ID": "1",
}
JAX_TRAIN_JOB = {
    "JAX_COORDINATOR_ADDRESS": "job-node-0-0.job:29500",
    "JAX_NUM_PROCESSES": "2",
    "JAX_PROCESS_ID": "1",
}
VOLCANO = {
    "VC_TASK_INDEX": "1",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job",
    "VC_WORKER_NUM": "2",
    "HOSTNAME": "job-worker-1",
}
VOLCANO_WITH_MASTER = {**VOLCANO, "VC_MASTER_HOSTS": "job-master-0.job", "VC_MASTER_NUM": "1"}
INDEXED_JOB = {"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-workers-0-1"}

AWS_BATCH = {
    "AWS_BATCH_JOB_NUM_NODES": "3",
    "AWS_BATCH_JOB_NODE_INDEX": "0",
    "AWS_BATCH_JOB_MAIN_NODE_INDEX": "2",
    "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.7",
}
SAGEMAKER = {
    "SM_HOSTS": '["algo-2", "algo-1"]',
    "SM_CURRENT_HOST": "algo-2",
    "SM_NUM_GPUS": "4",
}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1",
    "SKYPILOT_NODE_IPS": "10.0.0.5\n10.0.0.6",
    "SKYPILOT_NUM_GPUS_PER_NODE": "8",
}
VERTEX = {
    "CLUSTER_SPEC": json.dumps(
        {
            "cluster": {"workerpool0": ["a:2222"], "workerpool1": ["b:2222", "c:2222"]},
            "task": {"type": "workerpool1", "index": 1, "trial": ""},
            "environment": "cloud",
        }
    )
}


def without(variables, *names):
    return {name: value for name, value in variables.items() if name not in names}


def found(environ, **options):
    return find_place(RunOptions(**options), REGISTRY, environ)


def joined(environ, **options):
    asked = RunOptions(distributed=True, **options)
    return join(asked, find_place(asked, REGISTRY, environ), environ)


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
    ("mvapich", MVAPICH, FOUR_ON_TWO, None, None),
    ("jsrun", JSRUN, FOUR_ON_TWO, None, None),
    ("flux", FLUX, FOUR_ON_TWO, None, None),
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


NODES = [
    ("sagemaker", SAGEMAKER, (1, 2, 4, "algo-1", None)),
    ("sagemaker", {**SAGEMAKER, "SM_NUM_GPUS": "0"}, (1, 2, None, "algo-1", None)),
    ("skypilot", SKYPILOT, (1, 2, 8, "10.0.0.5", None)),
    ("aws-batch", AWS_BATCH, (1, 3, None, "10.0.0.7", None)),
    (
        "aws-batch",
        {**without(AWS_BATCH, list(AWS_BATCH)[3]), "AWS_BATCH_JOB_NODE_INDEX": "2"},
        (0, 3, None, None, None),
    ),
    ("vertex", VERTEX, (2, 3, None, "a", 2222)),
    # Its own images of torch count nodes, too.
    ("vertex", {**VERTEX, "RANK": "2", "WORLD_SIZE": "3"}, (2, 3, None, "a", 2222)),
    ("pytorchjob", PAI_DLC, (1, 2, None, "dlc-0", 23456)),
    ("pytorchjob", {**PAI_DLC, "NPROC_PER_NODE": "4"}, (1, 2, 4, "dlc-0", 23456)),
    ("kubeflow", TRAIN_JOB, (1, 2, 8, "job-node-0-0.job", 29400)),
    ("kubeflow", PYTORCH_JOB, (1, 2, 8, "job-node-0-0.job", 29400)),
    (
        "kubeflow",
        {**TRAIN_JOB, "PET_NPROC_PER_NODE": "gpu"},
        (1, 2, None, *("job-node-0-0.job",), 29400),
    ),
    ("jaxjob", JAX_JOB, (1, 2, None, "job-worker-0", 6666)),
    ("jaxjob", JAX_TRAIN_JOB, (1, 2, None, "job-node-0-0.job", 29500)),
    ("volcano", VOLCANO, (1, 2, None, "job-worker-0.job", None)),
    ("volcano", VOLCANO_WITH_MASTER, (2, 3, None, "job-master-0.job", None)),
    # With Volcano's plugin for torch.
    ("pytorchjob", {**VOLCANO, **PAI_DLC}, (1, 2, None, "dlc-0", 23456)),
    ("indexed-job", INDEXED_JOB, (1, None, None, "train-workers-0-0", None)),
    ("indexed-job", {"JOB_COMPLETION_INDEX": "0"}, (0, None, None, None, None)),
]


@pytest.mark.parametrize(("name", "environ", "node"), NODES)
def test_a_node_is_found(name, environ, node):
    spec, place = found(environ)
    assert spec.name == name
    assert isinstance(place, StartedNode)
    assert node == (
        *(place.node_rank, place.num_nodes, place.nproc_per_node),
        *(place.master_addr, place.master_port),
    )


def test_ranks_of_skrls_launcher_are_found_for_jax():
    spec, place = found(SKRL, framework="jax")
    assert (spec.name, place.world) == ("skrl-jax", World(1, 1, 0, 2, 2, 1))
    assert (place.master_addr, place.master_port) == ("10.0.0.1", 5000)
    with pytest.raises(UsageError, match=r"for jax, and the run is on torch. Add --framework jax"):
        found(SKRL)
    with pytest.raises(UsageError, match="JAX_RANK=x, JAX_LOCAL_RANK=1, JAX_WORLD_SIZE=2 are not"):
        found({**SKRL, "JAX_RANK": "x"}, framework="jax")
    with pytest.raises(UsageError, match="contradict each other: JAX_RANK=2"):
        found({**SKRL, "JAX_RANK": "2"}, framework="jax")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        # A batch script itself, outside of srun, is no step.
        without(SLURM, "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"),
        # The shell of an allocation for several tasks is a step of one.
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        {**PAI_DLC, "WORLD_SIZE": "1"},
        {**JAX_JOB, "NUM_PROCESSES": "1", "PROCESS_ID": "0"},
        without(JAX_JOB, "COORDINATOR_ADDRESS"),
        {**VOLCANO, "VC_TASK_INDEX": "0", "VC_WORKER_HOSTS": "job-worker-0.job"},
        without(VOLCANO, "VC_WORKER_HOSTS"),
        {**AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "1"},
        {**TRAIN_JOB, "PET_NNODES": "1"},
        # The only pod of a TrainJob, which is an Indexed Job.
        {**TRAIN_JOB, "PET_NNODES": "1", "PET_NODE_RANK": "0", "JOB_COMPLETION_INDEX": "0"},
        # The only pod of a PyTorchJob: WORLD_SIZE counts its ranks.
        {**PYTORCH_JOB, "PET_NNODES": "1", "PET_NODE_RANK": "0", "WORLD_SIZE": "8", "RANK": "0"},
        {**SAGEMAKER, "SM_HOSTS": '["algo-2"]'},
        {**SKYPILOT, "SKYPILOT_NODE_IPS": "10.0.0.5"},
        {"CLUSTER_SPEC": '{"cluster": {"w": ["a:1"]}, "task": {"type": "w", "index": 0}}'},
        without(PAI_DLC, "RANK"),
        without(PAI_DLC, "WORLD_SIZE"),
        {"RANK": "", "WORLD_SIZE": "2"},
    ],
)
def test_a_process_that_is_not_one_of_several_is_not_found(environ):
    assert found(environ) is None


@pytest.mark.parametrize(
    "environ",
    [
        {**SLURM, "SLURM_PROCID": "x"},
        {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2"},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "x"},
        {**PAI_DLC, "RANK": "one"},
        {**TRAIN_JOB, "PET_NODE_RANK": "a"},
        # Incomplete.
        without(SLURM, "SLURM_PROCID"),
        without(OPEN_MPI, "OMPI_COMM_WORLD_SIZE"),
        without(MVAPICH, "MV2_COMM_WORLD_RANK"),
        without(JSRUN, "JSM_NAMESPACE_SIZE"),
        without(FLUX, "FLUX_JOB_SIZE"),
        without(PALS, "PMI_SIZE"),
        without(SKYPILOT, "SKYPILOT_NODE_RANK"),
        without(JAX_JOB, "PROCESS_ID"),
        without(AWS_BATCH, "AWS_BATCH_JOB_NODE_INDEX"),
        {"JOB_COMPLETION_INDEX": "one"},
    ],
)
def test_variables_that_are_no_numbers_are_shown(environ):
    with pytest.raises(UsageError, match="are not valid rank numbers"):
        found(environ)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "0"}, "contradict each other: OMPI_COMM"),
        ({**TORCHRUN, "RANK": "4"}, "contradict each other: RANK=4, LOCAL_RANK=1, WORLD_SIZE=4"),
        (
            without(HYDRA, "MPI_LOCALRANKID"),
            r"PMI_RANK=3, PMI_SIZE=4, MPI_LOCALRANKID \(not set\): several ranks were started",
        ),
        (without(PALS, "PMI_LOCAL_RANK"), r"PMI_LOCAL_RANK \(not set\): several ranks were"),
        (
            without(AWS_BATCH, list(AWS_BATCH)[3]),
            r"PRIVATE_IPV4_ADDRESS \(not set\): the main node's address is missing",
        ),
        ({**VOLCANO_WITH_MASTER, "HOSTNAME": "x"}, "this pod is in none of the lists of hosts"),
        (without(SAGEMAKER, "SM_CURRENT_HOST"), "the host is not in the list of hosts"),
        ({**SAGEMAKER, "SM_CURRENT_HOST": "x"}, "the host is not in the list of hosts"),
        ({**SAGEMAKER, "SM_HOSTS": "[a"}, r"SM_HOSTS=\[a: rltrain cannot read it"),
        ({"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC=.*rltrain cannot read it"),
        ({**AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "-3"}, "are not valid rank numbers"),
        ({**AWS_BATCH, "AWS_BATCH_JOB_NODE_INDEX": "-1"}, "are not valid rank numbers"),
        ({**TRAIN_JOB, "PET_NNODES": "1:4"}, "PET_NNODES=1:4.*add --nnodes 1:4 --rdzv-backend"),
        (without(TRAIN_JOB, "PET_NODE_RANK"), r"PET_NODE_RANK \(not set\): rltrain cannot tell"),
        (
            {**OPEN_MPI, **HYDRA, "PMI_RANK": "2"},
            r"mpich \(PMI_RANK=2.*open-mpi \(OMPI_COMM_WORLD_RANK=3.*contradict each other. Choose",
        ),
    ],
)
def test_incomplete_or_contradictory_variables_are_shown(environ, message):
    with pytest.raises(UsageError, match=message):
        found(environ)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        # Each of these starts the next one in practice.
        ({**SLURM, **OPEN_MPI}, "open-mpi"),
        ({**SLURM, **OPEN_MPI, **TORCHRUN}, "torchrun"),
        ({**TRAIN_JOB, **TORCHRUN}, "torchrun"),
        ({**PAI_DLC, **OPEN_MPI}, "open-mpi"),
        # srun with --mpi=pmi2.
        ({**SLURM, "PMI_RANK": "3", "PMI_SIZE": "5"}, "slurm"),
        # srun with --mpi=pmix.
        ({**SLURM, "PMIX_RANK": "3"}, "slurm"),
        # A JobSet in which the user has set torchrun's flags.
        ({**INDEXED_JOB, **TRAIN_JOB}, "kubeflow"),
        # Two that agree.
        ({**OPEN_MPI, **HYDRA}, "open-mpi"),
    ],
)
def test_the_innermost_of_several_is_right(environ, name):
    assert found(environ)[0].name == name


def test_torchrun_comes_before_skrls_launcher():
    environ = {**SKRL, **TORCHRUN, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    assert found(environ, framework="jax")[1].world == World(1, 1, 0, 2, 2, 1)


def test_the_user_may_name_a_cluster_or_none():
    both = {**OPEN_MPI, **HYDRA, "PMI_RANK": "2"}
    assert found(both, cluster="open-mpi")[1].world.rank == 3
    assert found(both, cluster="mpich")[1].world.rank == 2
    assert found(both, cluster="none") is None
    with pytest.raises(UsageError, match=r"--cluster flux: its variables \(FLUX_\*\) do not say"):
        found(both, cluster="flux")
    with pytest.raises(UsageError, match=r"Unknown cluster 'slrum'. Did you mean 'slurm'"):
        found(both, cluster="slrum")


# What follows for the run


def test_a_rank_meets_the_others_where_the_cluster_says():
    asked, world = joined(SLURM)
    assert world == World(3, 1, 1, 5, 2, 3)
    assert (asked.cluster, asked.master_addr, asked.master_port) == ("slurm", "n1", 61452)


def test_steps_of_a_job_that_run_side_by_side_meet_at_ports_of_their_own():
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
    with pytest.raises(
        UsageError, match=r"Job 12 of SLURM has 2 nodes \(n\[1-2\]\), and .* Type `srun rltrain"
    ):
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


def test_flags_and_master_addr_come_before_the_cluster():
    asked, _ = joined({**SLURM, "MASTER_ADDR": "10.1.1.1", "MASTER_PORT": "77"})
    assert (asked.master_addr, asked.master_port) == ("10.1.1.1", 77)
    asked, _ = joined({**SLURM, "MASTER_ADDR": "10.1.1.1"}, master_addr="me", master_port=5)
    assert (asked.master_addr, asked.master_port) == ("me", 5)


def test_ranks_that_cannot_know_where_to_meet_need_an_address():
    with pytest.raises(UsageError, match=r"mpich \(.*\) does not say on which host rank 0 is. Add"):
        joined(HYDRA)
    asked, world = joined(HYDRA, master_addr="10.0.0.1")
    assert (asked.master_addr, world) == ("10.0.0.1", FOUR_ON_TWO)
    one_node = {**HYDRA, "PMI_RANK": "1", "PMI_SIZE": "2"}
    assert joined(one_node)[0].master_addr == "127.0.0.1"


def test_a_node_starts_its_ranks():
    asked, world = joined(TRAIN_JOB)
    assert world is None
    assert (asked.nnodes, asked.node_rank, asked.nproc_per_node) == (2, 1, 8)
    assert (asked.master_addr, asked.master_port) == ("job-node-0-0.job", 29400)
    assert joined(TRAIN_JOB, nproc_per_node=2)[0].nproc_per_node == 2
    assert joined(TRAIN_JOB, num_gpus=2)[0].nproc_per_node is None


@pytest.mark.parametrize(
    "options", [{"nnodes": 3, "node_rank": 2}, {"rdzv_endpoint": "host:29400"}]
)
@pytest.mark.parametrize("environ", [TRAIN_JOB, {**TRAIN_JOB, "PET_NNODES": "1:4"}, SLURM])
def test_nodes_that_the_user_counts_are_believed(environ, options):
    asked, world = joined(environ, **options)
    assert world is None
    assert asked == RunOptions(distributed=True, **options)


@pytest.mark.parametrize("options", [{"nproc_per_node": 2}, {"launcher": "x"}, {"num_gpus": 2}])
def test_the_only_task_on_a_node_may_start_ranks(options):
    a_node = {**SLURM, "SLURM_LOCALID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3"}
    a_node["SLURM_STEP_TASKS_PER_NODE"] = "1(x3)"
    asked, world = joined(a_node, **options)
    assert world is None
    assert (asked.nnodes, asked.node_rank, asked.master_addr) == (3, 1, "n1")
    with pytest.raises(UsageError, match=r"several tasks on this node.*Start one task a node"):
        joined(SLURM, **options)


def test_nodes_that_the_user_only_counts_are_numbered_by_the_cluster():
    assert joined(TRAIN_JOB, nnodes=2)[0].node_rank == 1
    with pytest.raises(UsageError, match=r"--nnodes 3: kubeflow counts 2 nodes \(PET_NNODES=2"):
        joined(TRAIN_JOB, nnodes=3)
    asked, world = joined(INDEXED_JOB, nnodes=4)
    assert (asked.nnodes, asked.node_rank, world) == (4, 1, None)
    with pytest.raises(UsageError, match=r"JOB_COMPLETION_INDEX=1.*how many nodes.*--nnodes N"):
        joined(INDEXED_JOB)


def test_the_first_pod_of_a_job_is_looked_up_in_this_pods_domain(monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "job-1.job.ns.svc.cluster.local")
    asked, _ = joined({**INDEXED_JOB, "HOSTNAME": "job.invalid-1"}, nnodes=2)
    assert asked.master_addr == "job.invalid-0.job.ns.svc.cluster.local"


def test_the_first_node_may_be_its_own_master(monkeypatch):
    monkeypatch.setattr("rltrain.place.cluster.own_address", lambda: "10.0.0.7")
    main = {**without(AWS_BATCH, list(AWS_BATCH)[3]), "AWS_BATCH_JOB_NODE_INDEX": "2"}
    assert joined(main)[0].master_addr == "10.0.0.7"
    with pytest.raises(UsageError, match=r"indexed-job \(.*does not say on which host rank 0 is"):
        joined({"JOB_COMPLETION_INDEX": "1"}, nnodes=2)


@pytest.mark.parametrize(
    ("environ", "plugin"),
    [
        *((each, "rltrain-clouds") for each in (SAGEMAKER, SKYPILOT, AWS_BATCH, VERTEX)),
        *((each, "rltrain-kubernetes") for each in (PAI_DLC, TRAIN_JOB, PYTORCH_JOB, JAX_JOB)),
        *((each, "rltrain-kubernetes") for each in (JAX_TRAIN_JOB, VOLCANO, INDEXED_JOB)),
    ],
)
def test_nodes_whose_plugin_is_not_installed_do_not_train_alone_in_silence(environ, plugin):
    registry = Registry(each for each in REGISTRY.records if each.distribution != plugin)
    wanted = RunOptions(distributed=True)
    with pytest.raises(UsageError, match=f"several nodes, and {plugin}, .*pip install '{plugin}"):
        find_place(wanted, registry, environ)
    for given in ({"cluster": "none"}, {"nnodes": 2, "node_rank": 0}):
        assert find_place(dataclasses.replace(wanted, **given), registry, environ) is None
    assert find_place(wanted, registry, {"WORLD_SIZE": "1", "RANK": "0"}) is None


def test_started_ranks_do_not_train_alone_in_silence():
    for environ in (SLURM, OPEN_MPI, TORCHRUN):
        with pytest.raises(UsageError, match=r"Add --distributed, or say --cluster none"):
            join(RunOptions(), found(environ), environ)
        assert join(RunOptions(), found(environ, cluster="none"), environ) == (RunOptions(), None)
    # Independent runs on several nodes are common.
    assert join(RunOptions(), found(TRAIN_JOB), TRAIN_JOB) == (RunOptions(), None)


def test_every_cluster_shows_its_variables_and_is_light():
    specs = REGISTRY.all(ClusterSpec)
    assert len(specs) == len({spec.name for spec in specs}) >= 10
    for spec in specs:
        assert spec.variables
        assert spec.summary
        assert spec.find({}) is None


def test_jax_reads_the_same_variables(monkeypatch):
    """Users of jax find the same ranks, address and port."""
    pytest.importorskip("jax")
    from jax._src.clusters import ompi_cluster, slurm_cluster

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


@pytest.mark.parametrize("variables", [TORCHRUN, SLURM])
@pytest.mark.parametrize("port", ["none", "70000", "-1"])
def test_a_master_port_that_is_none_is_reported(variables, port):
    with pytest.raises(UsageError, match=f"MASTER_PORT={port}: is no port from 1 to 65535"):
        joined({**variables, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port})


def test_a_job_of_no_nodes_is_one_process():
    assert found({**AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "0"}) is None
