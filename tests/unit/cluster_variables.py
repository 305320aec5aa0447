"""The variables that clusters set, by their documentation, and what the core finds in them."""

from __future__ import annotations

import json

from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster, join
from rltrain.plugins.registry import discover


def named(prefix, **variables):
    return {f"{prefix}{name}": value for name, value in variables.items()}


SLURM = named(
    "SLURM_",
    JOB_ID="12",
    NTASKS="5",
    PROCID="3",
    LOCALID="1",
    NODEID="1",
    STEP_NUM_TASKS="5",
    STEP_NUM_NODES="3",
    STEP_TASKS_PER_NODE="2(x2),1",
    STEP_NODELIST="n[1-3]",
)
"""Of the second task on the second of three nodes, as srun sets them."""
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,192.168.0.9:34911",
}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
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
SKRL = named(
    "JAX_",
    RANK="1",
    LOCAL_RANK="1",
    WORLD_SIZE="2",
    COORDINATOR_ADDR="10.0.0.1",
    COORDINATOR_PORT="5000",
)
PAI_DLC = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "dlc-0", "MASTER_PORT": "23456"}
TRAIN_JOB = named(
    "PET_",
    NNODES="2",
    NODE_RANK="1",
    NPROC_PER_NODE="8",
    MASTER_ADDR="job-node-0-0.job",
    MASTER_PORT="29400",
)
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
SAGEMAKER = {"SM_HOSTS": '["algo-2", "algo-1"]', "SM_CURRENT_HOST": "algo-2", "SM_NUM_GPUS": "4"}
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


REGISTRY = discover()


def found(environ, **options):
    return find_cluster(RunOptions(**options), REGISTRY, environ)


def joined(environ, **options):
    asked = RunOptions(distributed=True, **options)
    return join(asked, find_cluster(asked, REGISTRY, environ), environ)
