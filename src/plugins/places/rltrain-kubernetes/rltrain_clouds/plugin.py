"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import ClusterSpec
from rltrain_clouds import clusters


@hookimpl
def rltrain_provides() -> list[ClusterSpec]:
    """Declare the clusters."""
    return [
        ClusterSpec(
            name="aws-batch",
            find=clusters.aws_batch,
            order=30,
            variables=("AWS_BATCH_JOB_*",),
            summary="nodes of a multi-node parallel job of AWS Batch",
        ),
        ClusterSpec(
            name="sagemaker",
            find=clusters.sagemaker,
            order=30,
            variables=("SM_HOSTS", "SM_CURRENT_HOST", "SM_NUM_GPUS"),
            summary="nodes of a SageMaker training job",
        ),
        ClusterSpec(
            name="skypilot",
            find=clusters.skypilot,
            order=30,
            variables=("SKYPILOT_N*",),
            summary="nodes of a SkyPilot task",
        ),
        ClusterSpec(
            name="vertex",
            find=clusters.vertex,
            order=30,
            variables=("CLUSTER_SPEC",),
            summary="nodes of a Vertex AI custom job",
        ),
    ]
