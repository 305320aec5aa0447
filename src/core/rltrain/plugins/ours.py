"""What our own plugins provide that is not installed with the core: each says how to install it."""

from __future__ import annotations

COMMANDS = {
    "doctor": "rltrain-doctor",
    "new": "rltrain-devkit",
    **dict.fromkeys(("tasks", "play", "evaluate", "export"), "rltrain-play"),
    **dict.fromkeys(("report", "scale"), "rltrain-report"),
    **dict.fromkeys(("check", "complete"), "rltrain-devkit"),
}
"""The distribution of each command, in the order in which commands are listed."""

NODES: dict[str, dict[str, str | None]] = {
    "rltrain-clouds": {
        "AWS_BATCH_JOB_NUM_NODES": "1",
        **dict.fromkeys(("SM_HOSTS", "SKYPILOT_NODE_IPS", "CLUSTER_SPEC")),
    },
    "rltrain-kubernetes": {
        **dict.fromkeys(("PET_NNODES", "WORLD_SIZE", "NUM_PROCESSES", "JAX_NUM_PROCESSES"), "1"),
        **dict.fromkeys(("VC_TASK_INDEX", "JOB_COMPLETION_INDEX")),
    },
}
"""Variables that a plugin's clusters set where there may be several nodes, and the value that says
that there is one. Where no launcher of ranks is found, WORLD_SIZE counts nodes."""


def _same(*names: str) -> dict[str, str]:
    return {name: f"rltrain-{name.replace('_', '-')}" for name in names}


_OURS = {
    "command": COMMANDS,
    "library": _same("rl_games", "rsl_rl", "skrl"),
    "suite": _same("gymnasium", "envpool", "isaaclab", "mjlab", "playground"),
    "writer": _same("tensorboard", "wandb", "mlflow"),
    "launcher": _same("slurm", "ray", "mpi"),
    "backend": _same("jax", "mpi") | dict.fromkeys(("gloo", "nccl"), "rltrain-torch"),
    "observer": {"video": "rltrain-play"},
    "cluster": {
        **dict.fromkeys(("aws-batch", "sagemaker", "skypilot", "vertex"), "rltrain-clouds"),
        **dict.fromkeys(
            ("kubeflow", "pytorchjob", "jaxjob", "volcano", "indexed-job"), "rltrain-kubernetes"
        ),
    },
}


def how_to_install(kind: str, name: str) -> str | None:
    """Return how to install what one of our plugins provides; None if none does."""
    plugin = _OURS.get(kind, {}).get(name)
    article = "an" if kind[0] in "aeiou" else "a"
    return plugin and f"{name}: is {article} {kind} of {plugin}. {install(plugin)}."


def install(plugin: str) -> str:
    """Return the line that installs one of our plugins."""
    return f"pip install '{plugin}[library]' (`make wheels` in rltrain's clone lets pip find it)"
