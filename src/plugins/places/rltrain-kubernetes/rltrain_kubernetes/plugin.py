"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import ClusterSpec, CommandSpec, Spec
from rltrain_kubernetes import clusters


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare the command, and the clusters in whose pods a run finds its place."""
    return [
        CommandSpec(
            name="manifest",
            factory="rltrain_kubernetes.command:ManifestCommand",
            summary="writes a Kubernetes manifest of a run: TrainJob, PyTorchJob or JobSet",
        ),
        ClusterSpec(
            name="kubeflow",
            find=clusters.kubeflow,
            order=30,
            variables=("PET_*",),
            summary="nodes of a TrainJob or PyTorchJob with PET_NNODES",
        ),
        ClusterSpec(
            name="pytorchjob",
            find=clusters.counted,
            order=40,
            variables=(
                *("WORLD_SIZE", "RANK", "LOCAL_RANK", "NPROC_PER_NODE"),
                *("MASTER_ADDR", "MASTER_PORT"),
            ),
            summary="nodes of PyTorchJob, Volcano, PAI-DLC: WORLD_SIZE and RANK count them",
        ),
        ClusterSpec(
            name="jaxjob",
            find=clusters.jaxjob,
            order=40,
            variables=(
                *("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
                *("NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
            ),
            summary="nodes of a JAXJob, or of a TrainJob for jax",
        ),
        ClusterSpec(
            name="volcano",
            find=clusters.volcano,
            order=50,
            variables=("VC_*",),
            summary="nodes of a Volcano job without its plugin for torch",
        ),
        ClusterSpec(
            name="indexed-job",
            find=clusters.indexed_job,
            order=60,
            variables=("JOB_COMPLETION_INDEX",),
            resolve=clusters.domain_of,
            summary="nodes of an Indexed Job or a JobSet of Kubernetes",
        ),
    ]
