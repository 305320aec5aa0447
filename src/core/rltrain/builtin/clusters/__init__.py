"""What launchers and schedulers set: pure functions of the environment variables, and their specs.

Each module has a group of clusters that look alike.
"""

from __future__ import annotations

from rltrain.builtin.clusters import clouds, kubernetes, mpi, slurm, torchrun
from rltrain.specs import ClusterSpec

__all__ = ["CLUSTERS"]

CLUSTERS = (
    ClusterSpec(
        name="torchrun",
        find=torchrun.find,
        order=0,
        variables=(
            *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
            *("GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"),
        ),
        summary="ranks of torchrun, Ray Train, DeepSpeed, Azure ML",
    ),
    ClusterSpec(
        name="open-mpi",
        find=mpi.open_mpi,
        order=10,
        variables=("OMPI_COMM_WORLD_*", "OMPI_MCA_orte_hnp_uri", "AZ_BATCH_MASTER_NODE"),
        summary="ranks of Open MPI's mpirun",
    ),
    ClusterSpec(
        name="mpich",
        find=mpi.mpich,
        order=10,
        variables=("PMI_*", "MPI_LOCAL*"),
        summary="ranks of mpiexec of MPICH and Intel MPI",
    ),
    ClusterSpec(
        name="mvapich",
        find=mpi.mvapich,
        order=10,
        variables=("MV2_COMM_WORLD_*",),
        summary="ranks of MVAPICH2",
    ),
    ClusterSpec(
        name="jsrun",
        find=mpi.jsrun,
        order=10,
        variables=("JSM_NAMESPACE_*",),
        summary="ranks of LSF's jsrun",
    ),
    ClusterSpec(
        name="pals",
        find=mpi.pals,
        order=10,
        variables=("PALS_*", "PMI_*"),
        summary="ranks of Cray's mpiexec",
    ),
    ClusterSpec(
        name="flux",
        find=mpi.flux,
        order=20,
        variables=("FLUX_*",),
        summary="tasks of flux run",
    ),
    ClusterSpec(
        name="slurm",
        find=slurm.find,
        order=20,
        variables=("SLURM_*",),
        resolve=slurm.resolve,
        summary="tasks of srun",
    ),
    ClusterSpec(
        name="pmix",
        find=mpi.pmix,
        order=25,
        variables=("PMIX_*",),
        summary="ranks of prterun alone, which are refused: their number is unknown",
    ),
    ClusterSpec(
        name="kubeflow",
        find=kubernetes.kubeflow,
        order=30,
        variables=("PET_*",),
        summary="nodes of a TrainJob or PyTorchJob with PET_NNODES",
    ),
    ClusterSpec(
        name="aws-batch",
        find=clouds.aws_batch,
        order=30,
        variables=("AWS_BATCH_JOB_*",),
        summary="nodes of a multi-node parallel job of AWS Batch",
    ),
    ClusterSpec(
        name="sagemaker",
        find=clouds.sagemaker,
        order=30,
        variables=("SM_HOSTS", "SM_CURRENT_HOST", "SM_NUM_GPUS"),
        summary="nodes of a SageMaker training job",
    ),
    ClusterSpec(
        name="skypilot",
        find=clouds.skypilot,
        order=30,
        variables=("SKYPILOT_N*",),
        summary="nodes of a SkyPilot task",
    ),
    ClusterSpec(
        name="vertex",
        find=clouds.vertex,
        order=30,
        variables=("CLUSTER_SPEC",),
        summary="nodes of a Vertex AI custom job",
    ),
    ClusterSpec(
        name="pytorchjob",
        find=kubernetes.counted,
        order=40,
        variables=("NPROC_PER_NODE",),
        summary="nodes of PyTorchJob, Volcano, PAI-DLC: WORLD_SIZE and RANK count them",
    ),
    ClusterSpec(
        name="jaxjob",
        find=kubernetes.jaxjob,
        order=40,
        variables=(
            *("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
            *("NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
        ),
        summary="nodes of a JAXJob, or of a TrainJob for jax",
    ),
    ClusterSpec(
        name="volcano",
        find=kubernetes.volcano,
        order=50,
        variables=("VC_*",),
        summary="nodes of a Volcano job without its plugin for torch",
    ),
    ClusterSpec(
        name="gke-tpu",
        find=clouds.gke_tpu,
        order=50,
        variables=("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"),
        frameworks=("jax",),
        summary="nodes of a slice of TPUs on GKE",
    ),
    ClusterSpec(
        name="indexed-job",
        find=kubernetes.indexed_job,
        order=60,
        variables=("JOB_COMPLETION_INDEX",),
        resolve=kubernetes.domain_of,
        summary="nodes of an Indexed Job or a JobSet of Kubernetes",
    ),
)
