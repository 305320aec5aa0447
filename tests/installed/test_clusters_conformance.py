"""Every cluster of this repository keeps the rules of the kit."""

from __future__ import annotations

import cluster_variables as of

from rltrain.plugins import discover
from rltrain.specs import ClusterSpec
from rltrain_devkit import ClusterConformance

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
