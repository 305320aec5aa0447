"""The resolved plan as text, for `--dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from rltrain.files.secrets import hide
from rltrain.plan.draft import Plan
from rltrain.plan.resolve import number_of_ranks
from rltrain.plugins.options import make_options
from rltrain.specs import ObserverSpec
from rltrain.types import TaskInfo

_UNKNOWN = "set by the library's options"


def plan_table(plan: Plan) -> str:
    """Return the plan, one line for each choice, followed by the options as YAML."""
    from omegaconf import OmegaConf

    config, whose = plan.config, f" ({plan.library_from})" if plan.library_from else ""
    rows = [
        ("library", f"{config.library}, {config.algorithm}, on {config.framework}{whose}"),
        ("task", f"{config.task} ({plan.task.action} actions), from {config.suite}"),
        ("observations", _observed(plan.task)),
        ("ranks", _ranks(plan)),
        *_gpus(plan),
        ("backend", f"{config.backend}, gradients averaged by {config.grad_sync}"),
        *_sizes(plan),
        ("seed", "chosen on rank 0" if config.seed == -1 else str(config.seed)),
        ("options", plan.options_from),
        ("checkpoint", config.checkpoint or "none"),
        ("writers", ", ".join(config.writers) or "none"),
        ("observers", ", ".join(_observer(name, plan) for name in config.observers) or "none"),
        ("log root", config.log_root),
    ]
    if (shown := config.show_ranks) is not None:
        here = shown if isinstance(shown, str) else f"{', '.join(map(str, shown))} of this node"
        rows.append(("shown ranks", here))
    width = max(len(name) for name, _ in rows)
    table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
    options = OmegaConf.to_yaml(
        OmegaConf.create(hide({"agent": dict(config.agent), "env": dict(config.env)}))
    )
    return f"{table}\n\n{options.rstrip()}\n\nNothing was started (--dry-run)."


def _observed(task: TaskInfo) -> str:
    """Return the sizes of observations and actions, as far as they are known."""
    seen = sorted((task.observations or {}).items(), key=lambda item: item[0] != "policy")
    groups = [f"{name} {' x '.join(map(str, group.shape)) or 1}" for name, group in seen]
    actions = " x ".join(map(str, task.actions or ("?",)))
    return f"{', '.join(groups) or '?'}; actions {actions}"


def _sizes(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the rows on what an iteration learns from, as far as they are known."""
    config, iteration = plan.config, plan.iteration
    ranks, envs = number_of_ranks(config, plan.world), config.num_envs
    lengths = ", first episodes of random lengths" if config.random_lengths else ""
    yield "environments", f"{envs} a rank, {envs * ranks} in all{lengths}"
    total = iteration.iterations if iteration else config.max_iterations
    yield "iterations", str(total or _UNKNOWN)
    yield "experience", iteration.experience(envs, ranks) if iteration else _UNKNOWN
    if config.target_return is not None:
        yield "ends at", f"a mean return of {config.target_return:g}"
    if iteration and (count := iteration.mini_batches):
        yield "mini-batches", f"{count} of {iteration.steps * envs // count} rows a rank"


def _ranks(plan: Plan) -> str:
    config, world = plan.config, plan.world
    if plan.starts_nodes:
        nodes = f"each of {config.nnodes} nodes" if config.nnodes > 1 else "one node"
        return f"{config.nproc_per_node} on {nodes}, which {config.launcher} starts"
    if world is None:
        text = f"{config.nproc_per_node} on this node, started by {config.launcher}"
        if config.nnodes > 1:
            text += f"; node {config.node_rank} of {config.nnodes}"
            text += f", as {config.cluster} says" if config.cluster not in (None, "none") else ""
            text += f", meeting at {config.endpoint}"
        return text
    if config.distributed:
        by = f", started by {config.cluster}" if config.cluster else ""
        return f"joined as rank {world.rank} of {world.world_size}, on {world.device}{by}"
    return f"one process, on {world.device}"


def _gpus(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield a row on the ranks of each GPU of this node."""
    config, world = plan.config, plan.world
    if config.device_kind == "cpu" or not config.distributed or plan.starts_nodes:
        return
    here = int(config.nproc_per_node or 1) if world is None else world.local_world_size
    if world is not None and config.gpu_ids is None:
        return  # The row on ranks has this one's GPU; others may see another.
    first = config.node_rank * here if world is None else world.rank - world.local_rank
    gpus = config.gpu_ids or range(here)
    texts = []
    for place, gpu in enumerate(gpus[:here]):
        ranks = ", ".join(str(first + rank) for rank in range(place, here, len(gpus)))
        shared = "," in ranks
        texts.append(f"GPU {gpu}: " + (f"ranks {ranks} share it" if shared else f"rank {ranks}"))
    yield "GPUs", "; ".join(texts)


def _observer(name: str, plan: Plan) -> str:
    """Return an observer with its options."""
    spec = plan.registry.get(ObserverSpec, name)
    if spec.options is None:
        return name
    options = hide(vars(make_options(spec, plan.config.plugins)), name).items()
    return f"{name} ({', '.join(f'{option} {value}' for option, value in options)})"
