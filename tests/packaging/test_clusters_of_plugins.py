"""Clusters of plugins find nodes, and ranks of jax; every cluster keeps the rules of the kit."""

from __future__ import annotations

import dataclasses
import socket

import cluster_variables as of
import pytest
from cluster_variables import found, joined, without
from messages import says

from rltrain.clusters import StartedNode
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster
from rltrain.plugins import discover
from rltrain.plugins.registry import Registry
from rltrain.specs import ClusterSpec
from rltrain.types import World
from rltrain_devkit import ClusterConformance

NODES = [
    ("sagemaker", of.SAGEMAKER, (1, 2, 4, "algo-1", None)),
    ("sagemaker", {**of.SAGEMAKER, "SM_NUM_GPUS": "0"}, (1, 2, None, "algo-1", None)),
    ("skypilot", of.SKYPILOT, (1, 2, 8, "10.0.0.5", None)),
    ("aws-batch", of.AWS_BATCH, (1, 3, None, "10.0.0.7", None)),
    (
        "aws-batch",
        {**without(of.AWS_BATCH, list(of.AWS_BATCH)[3]), "AWS_BATCH_JOB_NODE_INDEX": "2"},
        (0, 3, None, None, None),
    ),
    ("vertex", of.VERTEX, (2, 3, None, "a", 2222)),
    # Its own images of torch count nodes, too.
    ("vertex", {**of.VERTEX, "RANK": "2", "WORLD_SIZE": "3"}, (2, 3, None, "a", 2222)),
    ("pytorchjob", of.PAI_DLC, (1, 2, None, "dlc-0", 23456)),
    ("pytorchjob", {**of.PAI_DLC, "NPROC_PER_NODE": "4"}, (1, 2, 4, "dlc-0", 23456)),
    ("kubeflow", of.TRAIN_JOB, (1, 2, 8, "job-node-0-0.job", 29400)),
    ("kubeflow", of.PYTORCH_JOB, (1, 2, 8, "job-node-0-0.job", 29400)),
    (
        "kubeflow",
        {**of.TRAIN_JOB, "PET_NPROC_PER_NODE": "gpu"},
        (1, 2, None, *("job-node-0-0.job",), 29400),
    ),
    ("jaxjob", of.JAX_JOB, (1, 2, None, "job-worker-0", 6666)),
    ("jaxjob", of.JAX_TRAIN_JOB, (1, 2, None, "job-node-0-0.job", 29500)),
    ("volcano", of.VOLCANO, (1, 2, None, "job-worker-0.job", None)),
    ("volcano", of.VOLCANO_WITH_MASTER, (2, 3, None, "job-master-0.job", None)),
    # With Volcano's plugin for torch.
    ("pytorchjob", {**of.VOLCANO, **of.PAI_DLC}, (1, 2, None, "dlc-0", 23456)),
    ("indexed-job", of.INDEXED_JOB, (1, None, None, "train-workers-0-0", None)),
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
    spec, place = found(of.SKRL, framework="jax")
    assert (spec.name, place.world) == ("skrl-jax", World(1, 1, 0, 2, 2, 1))
    assert (place.master_addr, place.master_port) == ("10.0.0.1", 5000)
    with says(UsageError):
        found(of.SKRL)
    with says(UsageError):
        found({**of.SKRL, "JAX_RANK": "x"}, framework="jax")
    assert found({"JAX_RANK": "1", "JAX_LOCAL_RANK": "1"}, framework="jax") is None
    with says(UsageError):
        found({**of.SKRL, "JAX_RANK": "2"}, framework="jax")


def test_torchrun_comes_before_skrls_launcher():
    environ = {**of.SKRL, **of.TORCHRUN, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    assert found(environ, framework="jax")[1].world == World(1, 1, 0, 2, 2, 1)


def test_a_node_starts_its_ranks():
    asked, world = joined(of.TRAIN_JOB)
    assert world is None
    assert (asked.nnodes, asked.node_rank, asked.nproc_per_node) == (2, 1, 8)
    assert (asked.master_addr, asked.master_port) == ("job-node-0-0.job", 29400)
    assert joined(of.TRAIN_JOB, nproc_per_node=2)[0].nproc_per_node == 2


def test_nodes_that_the_user_only_counts_are_numbered_by_the_cluster():
    assert joined(of.TRAIN_JOB, nnodes=2)[0].node_rank == 1
    with says(UsageError):
        joined(of.TRAIN_JOB, nnodes=3)
    asked, world = joined(of.INDEXED_JOB, nnodes=4)
    assert (asked.nnodes, asked.node_rank, world) == (4, 1, None)
    with says(UsageError):
        joined(of.INDEXED_JOB)


def test_the_first_pod_of_a_job_is_looked_up_in_this_pods_domain(monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "job-1.job.ns.svc.cluster.local")
    asked, _ = joined({**of.INDEXED_JOB, "HOSTNAME": "job.invalid-1"}, nnodes=2)
    assert asked.master_addr == "job.invalid-0.job.ns.svc.cluster.local"


def test_the_first_node_may_be_its_own_master(monkeypatch):
    monkeypatch.setattr("rltrain.placement.cluster.own_address", lambda: "10.0.0.7")
    main = {**without(of.AWS_BATCH, list(of.AWS_BATCH)[3]), "AWS_BATCH_JOB_NODE_INDEX": "2"}
    assert joined(main)[0].master_addr == "10.0.0.7"
    with says(UsageError):
        joined({"JOB_COMPLETION_INDEX": "1"}, nnodes=2)


@pytest.mark.parametrize(
    ("environ", "plugin"),
    [
        *(
            (each, "rltrain-kubernetes")
            for each in (of.SAGEMAKER, of.SKYPILOT, of.AWS_BATCH, of.VERTEX)
        ),
        *(
            (each, "rltrain-kubernetes")
            for each in (of.PAI_DLC, of.TRAIN_JOB, of.PYTORCH_JOB, of.JAX_JOB)
        ),
        *((each, "rltrain-kubernetes") for each in (of.JAX_TRAIN_JOB, of.VOLCANO, of.INDEXED_JOB)),
    ],
)
def test_nodes_whose_plugin_is_not_installed_do_not_train_alone_in_silence(environ, plugin):
    registry = Registry(each for each in of.REGISTRY.records if each.distribution != plugin)
    wanted = RunOptions(distributed=True)
    with says(UsageError):
        find_cluster(wanted, registry, environ)
    for given in ({"cluster": "none"}, {"nnodes": 2, "node_rank": 0}):
        assert find_cluster(dataclasses.replace(wanted, **given), registry, environ) is None
    assert find_cluster(wanted, registry, {"WORLD_SIZE": "1", "RANK": "0"}) is None


def test_a_job_of_no_nodes_is_one_process():
    assert found({**of.AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "0"}) is None


@pytest.mark.parametrize(
    "environ",
    [
        {**of.PAI_DLC, "WORLD_SIZE": "1"},
        {**of.JAX_JOB, "NUM_PROCESSES": "1", "PROCESS_ID": "0"},
        without(of.JAX_JOB, "COORDINATOR_ADDRESS"),
        {**of.VOLCANO, "VC_TASK_INDEX": "0", "VC_WORKER_HOSTS": "job-worker-0.job"},
        without(of.VOLCANO, "VC_WORKER_HOSTS"),
        {**of.AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "1"},
        {**of.TRAIN_JOB, "PET_NNODES": "1"},
        # The only pod of a TrainJob, which is an Indexed Job.
        {**of.TRAIN_JOB, "PET_NNODES": "1", "PET_NODE_RANK": "0", "JOB_COMPLETION_INDEX": "0"},
        # The only pod of a PyTorchJob: WORLD_SIZE counts its ranks.
        {**of.PYTORCH_JOB, "PET_NNODES": "1", "PET_NODE_RANK": "0", "WORLD_SIZE": "8", "RANK": "0"},
        {**of.SAGEMAKER, "SM_HOSTS": '["algo-2"]'},
        {**of.SKYPILOT, "SKYPILOT_NODE_IPS": "10.0.0.5"},
        {"CLUSTER_SPEC": '{"cluster": {"w": ["a:1"]}, "task": {"type": "w", "index": 0}}'},
        without(of.PAI_DLC, "RANK"),
        without(of.PAI_DLC, "WORLD_SIZE"),
    ],
)
def test_a_node_that_is_alone_is_not_found(environ):
    assert found(environ) is None


@pytest.mark.parametrize(
    "environ",
    [
        without(of.AWS_BATCH, list(of.AWS_BATCH)[3]),
        {**of.VOLCANO_WITH_MASTER, "HOSTNAME": "x"},
        {**of.VOLCANO, "VC_TASK_INDEX": "2"},
        without(of.SAGEMAKER, "SM_CURRENT_HOST"),
        {**of.SAGEMAKER, "SM_CURRENT_HOST": "x"},
        {**of.SAGEMAKER, "SM_HOSTS": "[a"},
        {"CLUSTER_SPEC": '{"cluster": {}}'},
        {"CLUSTER_SPEC": "[" * 100_000},
        {**of.AWS_BATCH, "AWS_BATCH_JOB_NUM_NODES": "-3"},
        {**of.AWS_BATCH, "AWS_BATCH_JOB_NODE_INDEX": "-1"},
        {**of.TRAIN_JOB, "PET_NNODES": "1:4"},
        without(of.TRAIN_JOB, "PET_NODE_RANK"),
    ],
)
def test_incomplete_or_contradictory_variables_are_shown(environ):
    with says(UsageError):
        found(environ)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({**of.TRAIN_JOB, **of.TORCHRUN}, "torchrun"),
        ({**of.PAI_DLC, **of.OPEN_MPI}, "open-mpi"),
        # A JobSet in which the user has set torchrun's flags.
        ({**of.INDEXED_JOB, **of.TRAIN_JOB}, "kubeflow"),
    ],
)
def test_the_innermost_of_several_is_right(environ, name):
    assert found(environ)[0].name == name


# The rules of the kit

ENVIRONMENTS = {
    "torchrun": of.TORCHRUN,
    "open-mpi": of.OPEN_MPI,
    "mpich": of.HYDRA,
    "pals": of.PALS,
    "flux": of.FLUX,
    "slurm": of.SLURM,
    "skrl-jax": of.SKRL,
    "aws-batch": {**of.AWS_BATCH, "AWS_BATCH_JOB_NODE_INDEX": "1"},
    "sagemaker": of.SAGEMAKER,
    "skypilot": of.SKYPILOT,
    "vertex": of.VERTEX,
    "kubeflow": of.TRAIN_JOB,
    "pytorchjob": of.PAI_DLC,
    "jaxjob": of.JAX_JOB,
    "volcano": of.VOLCANO,
    "indexed-job": of.INDEXED_JOB,
}

for name, environ in ENVIRONMENTS.items():
    words = f"Test_{name.replace('-', '_')}"
    globals()[words] = type(
        words, (ClusterConformance,), {"cluster": name, "environ": environ, "__module__": __name__}
    )


def test_every_cluster_is_judged():
    assert set(discover().names(ClusterSpec)) == set(ENVIRONMENTS)
