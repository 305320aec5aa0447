"""The environment variables that launchers, schedulers and libraries have set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rltrain.doctor.findings import Finding, ok, problem, warning
from rltrain.options.run import RunOptions
from rltrain.types import World

__all__ = ["variables"]

_GROUPS = {
    "torchrun": r"(LOCAL_|GROUP_|NODE_)?RANK|((LOCAL|GROUP)_)?WORLD_SIZE|MASTER_(ADDR|PORT)|"
    r"TORCHELASTIC_(RUN_ID|RESTART_COUNT|USE_AGENT_STORE)",
    "Kubeflow": r"PET_\w+",
    "SLURM": r"SLURM_(JOB_ID|PROCID|LOCALID|NODEID|NTASKS|NNODES|(JOB_|STEP_)?NODELIST|"
    r"STEP_NUM_(TASKS|NODES)|(STEP_)?TASKS_PER_NODE|GPUS\w*|STEP_GPUS|CPUS_PER_TASK)",
    "Open MPI": r"OMPI_COMM_WORLD_\w+|OMPI_MCA_orte_hnp_uri",
    "PMI": r"PMI_(RANK|SIZE|LOCAL_RANK)|PMIX_RANK|MPI_LOCAL(RANKID|NRANKS)|PALS_(RANKID|SIZE)|"
    r"MV2_COMM_WORLD_\w+|FLUX_(JOB_SIZE|TASK_RANK)|JSM_NAMESPACE_(RANK|SIZE)",
    "jax": r"JAX_\w+|COORDINATOR_ADDRESS|NUM_PROCESSES|PROCESS_ID",
    "GPUs": r"CUDA_\w+|NVIDIA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES",
    "transport": r"NCCL_\w+|GLOO_\w+|TORCH_NCCL_\w+|TORCH_DISTRIBUTED_DEBUG|UCX_\w+|FI_PROVIDER",
    "threads": r"OMP_NUM_THREADS|MKL_NUM_THREADS|PJRT_NPROC",
    "memory": r"XLA_\w+|PYTORCH_\w+",
    "rltrain": r"RLTRAIN_\w+",
}
"""By who sets them: patterns of the variables to show, for whole names."""

_SIZES = {
    "srun": "SLURM_STEP_NUM_TASKS",
    "mpirun": "OMPI_COMM_WORLD_SIZE",
    "mpiexec": "PMI_SIZE",
    "MVAPICH": "MV2_COMM_WORLD_SIZE",
    "PALS": "PALS_SIZE",
    "Flux": "FLUX_JOB_SIZE",
    "jsrun": "JSM_NAMESPACE_SIZE",
    "Kubeflow": "PET_NNODES",
    "a scheduler": "NUM_PROCESSES",
}
"""By who starts processes: the variable with their number."""

_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE")

_BY_HAND = (
    "Start rltrain once per node, with --nnodes, --node-rank and --master-addr; or start the ranks "
    "with torchrun."
)


def variables(
    environ: Mapping[str, str], asked: RunOptions, placed: World | Exception | None
) -> Iterator[Finding]:
    """Report which variables are set, and how rltrain interprets them.

    Args:
        environ: the environment variables.
        asked: the options of the run.
        placed: this process' place; None if it will start ranks; the error if neither is possible.
    """
    found = False
    for who, pattern in _GROUPS.items():
        names = sorted(name for name in environ if re.fullmatch(pattern, name))
        if names:
            found = True
            text = " ".join(f"{name}={environ[name]}" for name in names)
            yield ok(who, text, variables={name: environ[name] for name in names})
    if not found:
        yield ok("environment", "no launcher, scheduler or library has set a variable")
    yield _interpreted(asked, placed)
    if placed is None:
        yield from _not_joined(environ, asked)


def _interpreted(asked: RunOptions, placed: World | Exception | None) -> Finding:
    if isinstance(placed, Exception):
        return problem("this process", str(placed), "")
    if placed is None:
        text = f"starts {asked.nproc_per_node} rank(s) here, by {asked.launcher}"
        if asked.nnodes > 1:
            text += f", as node {asked.node_rank} of {asked.nnodes}"
        return ok("this process", text)
    return ok(
        "this process",
        f"joins as rank {placed.rank} of {placed.world_size}: local rank {placed.local_rank} of "
        f"{placed.local_world_size} on node {placed.node_rank} of {placed.num_nodes}, device "
        f"{placed.device}",
    )


def _not_joined(environ: Mapping[str, str], asked: RunOptions) -> Iterator[Finding]:
    """Report processes that rltrain does not recognize as ranks of one run."""
    given = [name for name in _RANK if environ.get(name)]
    lacking = [name for name in _RANK if name not in given]
    nodes = "RANK" in given and _number(environ.get("WORLD_SIZE")) > 1
    if given and lacking and not (nodes and asked.nnodes > 1):
        found = " ".join(f"{name}={environ[name]}" for name in given)
        text = f"{found} without {' and '.join(lacking)}: rltrain does not treat this as a rank"
        if nodes:  # PAI-DLC counts nodes this way; each would train alone.
            hint = "If these are nodes: --nnodes $WORLD_SIZE --node-rank $RANK --master-addr HOST"
            yield problem("ranks", text, f"{hint}. If not, unset them.")
        else:
            hint = f"Unset {' '.join(given)}, or set all of {', '.join(_RANK)}."
            yield warning("ranks", text, hint)
    for who, name in _SIZES.items():
        size = _number(environ.get(name))
        if size > 1 and asked.nnodes == 1:
            yield problem(
                "ranks",
                f"{who} started {size} processes ({name}={environ[name]}), which rltrain does not "
                f"join on {asked.framework}: each would train alone",
                _BY_HAND,
            )


def _number(text: str | None) -> int:
    """Return the number at the end of a value such as "2" or "1:2", or 0."""
    found = re.fullmatch(r"(?:\d+:)?(\d+)", text or "")
    return int(found[1]) if found else 0
