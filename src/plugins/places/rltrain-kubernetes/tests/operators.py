"""What the operators make of a manifest: each pod's words and environment variables.

By their sources: pkg/runtime/framework/plugins/torch/torch.go of Kubeflow Trainer 2.3, envvar.go
and master.go in pkg/controller.v1/pytorch of Training Operator 1.9, and JobSet 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Pod", "pods_of"]


@dataclass(frozen=True)
class Pod:
    """One container's command and its variables."""

    words: list[str]
    environ: dict[str, str]
    host: str
    """The name by which the other pods reach it."""


def pods_of(manifest: Mapping[str, Any]) -> list[Pod]:
    """Return the pods in the order of the nodes."""
    return {"TrainJob": _trainjob, "PyTorchJob": _pytorchjob, "JobSet": _jobset}[manifest["kind"]](
        manifest["metadata"]["name"], manifest["spec"]
    )


def _trainjob(name: str, spec: Mapping[str, Any]) -> list[Pod]:
    """The runtime torch-distributed makes a JobSet with one replicated job, "node"."""
    trainer = spec["trainer"]
    gpus = trainer.get("resourcesPerNode", {}).get("limits", {}).get("nvidia.com/gpu", 0)
    torch = {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": "auto" if gpus else "1",
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
        "PET_MASTER_PORT": "29500",
    }
    return [
        _pod(trainer, {**torch, "PET_NODE_RANK": str(index)} | _indexed(name, index), name)
        for index in range(trainer["numNodes"])
    ]


def _pytorchjob(name: str, spec: Mapping[str, Any]) -> list[Pod]:
    """Without nprocPerNode, which is then "auto", WORLD_SIZE counts pods."""
    assert "nprocPerNode" not in spec
    roles = spec["pytorchReplicaSpecs"]
    names = [(role, i) for role, replica in roles.items() for i in range(replica["replicas"])]
    assert names[0] == ("Master", 0)
    torch = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": f"{name}-master-0",
        "MASTER_PORT": "23456",
        "PET_MASTER_ADDR": f"{name}-master-0",
        "PET_MASTER_PORT": "23456",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NNODES": str(len(names)),
        "WORLD_SIZE": str(len(names)),
    }
    pods = []
    for rank, (role, index) in enumerate(names):
        (container,) = roles[role]["template"]["spec"]["containers"]
        assert container["name"] == "pytorch"
        host = f"{name}-{role.lower()}-{index}"
        environ = {**torch, "RANK": str(rank), "PET_NODE_RANK": str(rank), "HOSTNAME": host}
        pods.append(_pod(container, environ, None))
    return pods


def _jobset(name: str, spec: Mapping[str, Any]) -> list[Pod]:
    (jobs,) = spec["replicatedJobs"]
    job = jobs["template"]["spec"]
    assert (jobs["replicas"], job["completionMode"]) == (1, "Indexed")
    assert job["completions"] == job["parallelism"]
    (container,) = job["template"]["spec"]["containers"]
    return [
        _pod(container, _indexed(name, index, jobs["name"]), name)
        for index in range(job["completions"])
    ]


def _indexed(name: str, index: int, job: str = "node") -> dict[str, str]:
    return {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{name}-{job}-0-{index}"}


def _pod(container: Mapping[str, Any], environ: dict[str, str], domain: str | None) -> Pod:
    """Return a pod, with $$ for $ in what the manifest says."""
    own = {each["name"]: _expanded(each["value"]) for each in container.get("env", ())}
    words = [_expanded(word) for word in (*container["command"], *container["args"])]
    host = environ["HOSTNAME"]
    return Pod(words, {**own, **environ}, f"{host}.{domain}" if domain else host)


def _expanded(text: str) -> str:
    assert "$(" not in text.replace("$$", ""), "Kubernetes would expand it"
    return text.replace("$$", "$")
