"""A run as the custom resources of Kubernetes that start several pods together.

In each of them a pod is a node, and the pods find their place by rltrain's clusters: by PET_NNODES
and PET_NODE_RANK in a TrainJob and a PyTorchJob, by JOB_COMPLETION_INDEX in a JobSet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rltrain_kubernetes.inside import Inside

__all__ = ["KINDS", "Job"]

NODE = "node"
"""The group of pods in a JobSet, and in the runtimes of Kubeflow Trainer."""


@dataclass(frozen=True)
class Job:
    """What a manifest is made of."""

    name: str
    image: str
    inside: Inside
    namespace: str | None
    env: Mapping[str, str]
    claim: str | None
    """The PersistentVolumeClaim for run folders."""
    volume: str | None
    """Where it is mounted."""
    runtime: str
    """The ClusterTrainingRuntime of a TrainJob."""


def trainjob(job: Job) -> dict[str, Any]:
    """Return a TrainJob of Kubeflow Trainer, from 2.2 on.

    Its runtime makes the pods, a JobSet with stable host names, and sets PET_....
    """
    patch = {"volumes": _volumes(job), "containers": [{"name": NODE, "volumeMounts": _mounts(job)}]}
    spec = {
        "runtimeRef": {"name": job.runtime},
        "trainer": {
            "numNodes": job.inside.nodes,
            "image": job.image,
            **_command(job),
            **({"resourcesPerNode": _resources(job)} if job.inside.gpus else {}),
        },
        "runtimePatches": [
            {
                "manager": "rltrain.internal/manifest",  # Must have a domain.
                "trainingRuntimeSpec": {"template": {"spec": _of_jobs({"spec": patch})}},
            }
        ],
    }
    return _resource("trainer.kubeflow.org/v1alpha1", "TrainJob", job, spec)


def pytorchjob(job: Job) -> dict[str, Any]:
    """Return a PyTorchJob of Kubeflow's Training Operator, version 1.

    `nprocPerNode` is left out: the command says how many ranks a node starts.
    """
    counts = {"Master": 1, "Worker": job.inside.nodes - 1}
    spec = {
        "pytorchReplicaSpecs": {
            role: {
                "replicas": count,
                "restartPolicy": "Never",
                "template": {"spec": _pod(job, "pytorch")},
            }
            for role, count in counts.items()
            if count
        }
    }
    return _resource("kubeflow.org/v1", "PyTorchJob", job, spec)


def jobset(job: Job) -> dict[str, Any]:
    """Return a JobSet, whose pods know their number, and the name of the first one."""
    inside = job.inside
    if inside.nodes > 1:
        first = f"{job.name}-{NODE}-0-0.{job.name}"
        job = dataclasses.replace(job, env={**job.env, "MASTER_ADDR": first})
    elif inside.distributed:  # Kubernetes does not tell a pod that it is the only one.
        alone = dataclasses.replace(inside, words=(*inside.words, "--cluster", "none"))
        job = dataclasses.replace(job, inside=alone)
    pods = {
        "completionMode": "Indexed",
        "completions": inside.nodes,
        "parallelism": inside.nodes,
        "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never", **_pod(job, NODE)}},
    }
    spec = {
        "network": {"enableDNSHostnames": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": NODE, "replicas": 1, "template": {"spec": pods}}],
    }
    return _resource("jobset.x-k8s.io/v1alpha2", "JobSet", job, spec)


KINDS: Mapping[str, Callable[[Job], dict[str, Any]]] = {
    "trainjob": trainjob,
    "pytorchjob": pytorchjob,
    "jobset": jobset,
}
"""What `--kind` chooses."""


def _resource(version: str, kind: str, job: Job, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": job.name, **({"namespace": job.namespace} if job.namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _of_jobs(template: Mapping[str, Any]) -> dict[str, Any]:
    return {"replicatedJobs": [{"name": NODE, "template": {"spec": {"template": dict(template)}}}]}


def _pod(job: Job, container: str) -> dict[str, Any]:
    """Return the specification of a pod of one container."""
    return {
        "containers": [
            {
                "name": container,
                "image": job.image,
                **_command(job),
                **({"resources": _resources(job)} if job.inside.gpus else {}),
                "volumeMounts": _mounts(job),
            }
        ],
        "volumes": _volumes(job),
    }


def _command(job: Job) -> dict[str, Any]:
    """Return what a container runs, and its environment variables."""
    env = [{"name": name, "value": _literal(value)} for name, value in job.env.items()]
    args = [_literal(word) for word in job.inside.words]
    return {"command": ["rltrain"], "args": args, **({"env": env} if env else {})}


def _literal(text: str) -> str:
    """Keep Kubernetes from expanding $(NAME) in a word or a value."""
    return text.replace("$", "$$")


def _resources(job: Job) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": job.inside.gpus}}


def _volumes(job: Job) -> list[dict[str, Any]]:
    """Return the shared memory, of which a pod has 64 MiB by default, and the volume of runs.

    Ranks on one node exchange data through it: NCCL, and torch's loaders.
    """
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    runs = {"name": "runs", "persistentVolumeClaim": {"claimName": job.claim}}
    return [shared, runs] if job.claim else [shared]


def _mounts(job: Job) -> list[dict[str, Any]]:
    shared = {"name": "shared-memory", "mountPath": "/dev/shm"}
    runs = {"name": "runs", "mountPath": job.volume}
    return [shared, runs] if job.claim else [shared]
