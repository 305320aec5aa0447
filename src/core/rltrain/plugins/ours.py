"""What our own plugins provide that is not installed with the core: each says how to install it."""

from __future__ import annotations

COMMANDS = {
    "demo": "rltrain-tools[evaluate,report]",
    "doctor": "rltrain-tools",
    "new": "rltrain-devkit",
    "tasks": "rltrain-tools",
    "play": "rltrain-tools",
    "evaluate": "rltrain-tools[evaluate]",
    "export": "rltrain-tools",
    **dict.fromkeys(("report", "scale"), "rltrain-tools[report]"),
    "sweep": "rltrain-sweep[report]",
    **dict.fromkeys(("check", "complete"), "rltrain-devkit"),
}
"""What to install for each command, in the order in which commands are listed."""

NODES: dict[str, str | None] = {
    **dict.fromkeys(("AWS_BATCH_JOB_NUM_NODES", "PET_NNODES", "WORLD_SIZE"), "1"),
    **dict.fromkeys(("NUM_PROCESSES", "JAX_NUM_PROCESSES"), "1"),
    **dict.fromkeys(("SM_HOSTS", "SKYPILOT_NODE_IPS", "CLUSTER_SPEC")),
    **dict.fromkeys(("VC_TASK_INDEX", "JOB_COMPLETION_INDEX")),
}
"""Variables that the clusters of CLUSTERS set where there may be several nodes, and the value that
says that there is one. Where no launcher of ranks is found, WORLD_SIZE counts nodes."""

CLUSTERS = "rltrain-kubernetes"
"""The distribution that reads them."""

_CLUSTERS = {"aws-batch", "sagemaker", "skypilot", "vertex"}
_CLUSTERS |= {"kubeflow", "pytorchjob", "jaxjob", "volcano", "indexed-job"}


def _library(*names: str) -> dict[str, str]:
    return {name: f"rltrain-{name.replace('_', '-')}[library]" for name in names}


_OURS = {
    "command": COMMANDS,
    "library": _library("rl_games", "rsl_rl", "skrl"),
    "suite": _library("gymnasium", "envpool", "isaaclab", "mjlab", "playground"),
    "writer": {name: f"rltrain-writers[{name}]" for name in ("tensorboard", "wandb", "mlflow")},
    "launcher": _library("slurm", "ray") | {"mpi": "rltrain-torch[library,mpi]"},
    "backend": {
        **_library("jax"),
        **dict.fromkeys(("gloo", "nccl"), "rltrain-torch[library]"),
        "mpi": "rltrain-torch[library,mpi]",
    },
    "observer": {"video": "rltrain-tools[video]"},
    "cluster": dict.fromkeys(_CLUSTERS, CLUSTERS),
}


def how_to_install(kind: str, name: str) -> str | None:
    """Return how to install what one of our plugins provides; None if none does."""
    wanted = _OURS.get(kind, {}).get(name)
    return wanted and f"{name}: a {kind} of {wanted.partition('[')[0]}. pip install '{wanted}'."
