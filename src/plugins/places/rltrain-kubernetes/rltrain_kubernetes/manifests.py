"""A run as the custom resources of Kubernetes that start several pods together.

In each of them a pod is a node, and the pods find their place by rltrain's clusters: by PET_NNODES
and PET_NODE_RANK in a TrainJob and a PyTorchJob, by JOB_COMPLETION_INDEX in a JobSet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltrain_kubernetes.inside import Inside
from rltrain_kubernetes.patching import merged

_GRACE = {"terminationGracePeriodSeconds": 120}
"""A run that must make room ends after its iteration, with a checkpoint: 30 s are often too few."""

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
    restarts: int = 0
    """How often all pods are started again. A TrainJob has the policy of its runtime."""
    requests: Mapping[str, Any] = field(default_factory=dict)
    """CPUs and memory that each pod requests."""
    queue: str | None = None
    """Kueue's queue, which starts all pods or none."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """What is merged into the pods' specification."""

    @property
    def resources(self) -> dict[str, Any]:
        """What each pod requests, and its limits; empty for neither."""
        limits = {"nvidia.com/gpu": self.inside.gpus} if self.inside.gpus else {}
        limits |= {name: self.requests[name] for name in ("memory",) if name in self.requests}
        both = {"limits": limits, "requests": dict(self.requests)}
        return {name: each for name, each in both.items() if each}


def trainjob(job: Job) -> dict[str, Any]:
    """Return a TrainJob of Kubeflow Trainer, from 2.2 on.

    Its runtime makes the pods, a JobSet with stable host names, and sets PET_....
    """
    pod = {
        "volumes": _volumes(job),
        "containers": [{"name": NODE, "volumeMounts": _mounts(job)}],
        **_GRACE,
    }
    patch = merged(pod, job.patch)
    spec = {
        "runtimeRef": {"name": job.runtime},
        "trainer": {
            "numNodes": job.inside.nodes,
            "image": job.image,
            **_command(job),
            **({"resourcesPerNode": job.resources} if job.resources else {}),
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
        "runPolicy": {"backoffLimit": job.restarts},
        "pytorchReplicaSpecs": {
            role: {
                "replicas": count,
                # When a node fails, the launchers of all end: each pod is started again.
                "restartPolicy": "OnFailure" if job.restarts else "Never",
                "template": {"spec": _pod(job, "pytorch")},
            }
            for role, count in counts.items()
            if count
        },
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
        "failurePolicy": {"maxRestarts": job.restarts},
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
    metadata: dict[str, Any] = {"name": job.name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    if job.queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": job.queue}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _of_jobs(template: Mapping[str, Any]) -> dict[str, Any]:
    return {"replicatedJobs": [{"name": NODE, "template": {"spec": {"template": dict(template)}}}]}


def _pod(job: Job, container: str) -> dict[str, Any]:
    """Return the specification of a pod of one container."""
    pod = {
        "containers": [
            {
                "name": container,
                "image": job.image,
                **_command(job),
                **({"resources": job.resources} if job.resources else {}),
                "volumeMounts": _mounts(job),
            }
        ],
        "volumes": _volumes(job),
        **_GRACE,
    }
    return merged(pod, job.patch)


def _command(job: Job) -> dict[str, Any]:
    """Return what a container runs, and its environment variables."""
    env = [{"name": name, "value": _literal(value)} for name, value in job.env.items()]
    args = [_literal(word) for word in job.inside.words]
    return {"command": ["rltrain"], "args": args, **({"env": env} if env else {})}


def _literal(text: str) -> str:
    """Keep Kubernetes from expanding $(NAME) in a word or a value."""
    return text.replace("$", "$$")


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
