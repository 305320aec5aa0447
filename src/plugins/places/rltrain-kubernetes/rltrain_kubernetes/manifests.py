"""A run as the custom resources of Kubernetes that start several pods together.

In each of them a pod is a node, and the pods find their place by rltrain's clusters: by PET_NNODES
and PET_NODE_RANK in a TrainJob and a PyTorchJob, by JOB_COMPLETION_INDEX in a JobSet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

NODE = "node"
"""The group of pods in a JobSet, and in the runtimes of Kubeflow Trainer."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a manifest is made of."""

    name: str
    image: str
    words: tuple[str, ...]
    """The words after `rltrain` in each pod."""
    nodes: int
    """The number of pods."""
    gpus: int
    """The number of GPUs of each pod; 0 for a run on the CPU."""
    distributed: bool
    env: Mapping[str, str]
    claim: str | None
    """The PersistentVolumeClaim for run folders."""
    volume: str | None
    """Where it is mounted."""
    runtime: str
    """The ClusterTrainingRuntime of a TrainJob."""
    restarts: int = 0
    """How often all pods are started again. A TrainJob has the policy of its runtime."""
    requests: Mapping[str, str] = field(default_factory=dict)
    """CPUs and memory that each pod requests."""
    queue: str | None = None
    """Kueue's queue, which starts all pods or none."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """What is merged into the pods' specification."""


def trainjob(job: Job) -> dict[str, Any]:
    """Return a TrainJob of Kubeflow Trainer, from 2.2 on.

    Its runtime makes the pods, a JobSet with stable host names, and sets PET_....
    """
    own = _container(job)
    resources = {"resourcesPerNode": own.pop("resources")} if "resources" in own else {}
    template = {"template": {"spec": {"template": {"spec": _pod(job, {"name": NODE})}}}}
    patch = {"template": {"spec": {"replicatedJobs": [{"name": NODE, **template}]}}}
    spec = {
        "runtimeRef": {"name": job.runtime},
        "trainer": {"numNodes": job.nodes, **own, **resources},
        "runtimePatches": [
            # The manager must have a domain.
            {"manager": "rltrain.internal/manifest", "trainingRuntimeSpec": patch}
        ],
    }
    return _resource("trainer.kubeflow.org/v1alpha1", "TrainJob", job, spec)


def pytorchjob(job: Job) -> dict[str, Any]:
    """Return a PyTorchJob of Kubeflow's Training Operator, version 1.

    `nprocPerNode` is left out: the command says how many ranks a node starts.
    """
    group = {
        # When a node fails, the launchers of all end: each pod is started again.
        "restartPolicy": "OnFailure" if job.restarts else "Never",
        "template": {"spec": _pod(job, {"name": "pytorch", **_container(job)})},
    }
    groups = {"Master": {"replicas": 1, **group}}
    if job.nodes > 1:
        groups["Worker"] = {"replicas": job.nodes - 1, **group}
    spec = {"runPolicy": {"backoffLimit": job.restarts}, "pytorchReplicaSpecs": groups}
    return _resource("kubeflow.org/v1", "PyTorchJob", job, spec)


def jobset(job: Job) -> dict[str, Any]:
    """Return a JobSet, whose pods know their number, and the name of the first one."""
    if job.nodes > 1:
        first = f"{job.name}-{NODE}-0-0.{job.name}"
        job = dataclasses.replace(job, env={**job.env, "MASTER_ADDR": first})
    elif job.distributed:  # Kubernetes does not report to a pod that it is the only one.
        job = dataclasses.replace(job, words=(*job.words, "--cluster", "none"))
    pod = _pod(job, {"name": NODE, **_container(job)})
    pods = {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never", **pod}},
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
    labels = {"labels": {"kueue.x-k8s.io/queue-name": job.queue}} if job.queue else {}
    metadata = {"name": job.name, **labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _container(job: Job) -> dict[str, Any]:
    """Return what a container runs, and what it requests."""
    env = [{"name": name, "value": _literal(value)} for name, value in job.env.items()]
    gpus = {"nvidia.com/gpu": job.gpus} if job.gpus else {}
    memory = {name: value for name, value in job.requests.items() if name == "memory"}
    resources = {"limits": gpus | memory, "requests": dict(job.requests)}
    resources = {name: each for name, each in resources.items() if each}
    found = {
        "image": job.image,
        "command": ["rltrain"],
        "args": [_literal(word) for word in job.words],
        "env": env,
        "resources": resources,
    }
    return {name: each for name, each in found.items() if each or name == "args"}


def _literal(text: str) -> str:
    """Keep Kubernetes from expanding $(NAME) in a word or a value."""
    return text.replace("$", "$$")


def _pod(job: Job, container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a pod of one container, with what the user adds.

    A pod has 64 MiB of shared memory by default. Ranks on one node exchange data through it: NCCL,
    and torch's loaders.
    """
    volumes: list[dict[str, Any]] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    if job.claim:
        volumes.append({"name": "runs", "persistentVolumeClaim": {"claimName": job.claim}})
        mounts.append({"name": "runs", "mountPath": str(job.volume)})
    pod = {
        "containers": [{**container, "volumeMounts": mounts}],
        "volumes": volumes,
        # To end after an iteration, with a checkpoint: 30 s are often too few.
        "terminationGracePeriodSeconds": 120,
    }
    return merged(pod, job.patch)


def merged(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification with a patch merged into it, as `kubectl patch` does.

    Mappings are merged. So are the elements of lists that have a name, by it; one without a name is
    meant for the first element, as the pod has one container.

    Examples:
        >>> merged({"containers": [{"name": "a", "image": "i"}]}, {"containers": [{"tty": True}]})
        {'containers': [{'name': 'a', 'image': 'i', 'tty': True}]}
    """
    found = dict(spec)
    for key, value in patch.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            found[key] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            named = {each["name"]: each for each in before}
            for each in value:
                name = each.get("name", before[0]["name"])
                named[name] = merged(named.get(name, {}), each)
            found[key] = list(named.values())
        else:
            found[key] = value
    return found
