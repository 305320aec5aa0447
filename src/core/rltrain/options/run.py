"""The options of a run, each declared once: name, type, default, check, help, group and flags.

The command line, `--config`, `rltrain.train()` and the reference in the docs all come from the
fields of `RunOptions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.options import checks
from rltrain.options.aliases import is_section, with_coordinator, with_num_gpus, with_video
from rltrain.options.declare import named, number, option, option_of, switch
from rltrain_files.dotted import flatten

__all__ = ["DEFAULT_TASK", "RunOptions"]

DEFAULT_TASK = "rltrain/CartPoleContinuous-v1"
"""The embedded continuous-force cart-pole: every library can learn it, on any machine."""

WHAT, SIZE, PLACE = "what to train", "how much", "where"
NODES, OUTPUT = "several nodes, as for torchrun", "output"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options that the user set. None leaves the choice to rltrain."""

    library: str | None = named(
        None,
        WHAT,
        "RL library",
        flags=("--rl-library",),
        default_text="that of the task's authors, else rl_games",
        usual=True,
    )
    algorithm: str | None = named(
        None, WHAT, "the library's algorithm", default_text="the library's first, PPO", usual=True
    )
    task: str = named(
        DEFAULT_TASK, WHAT, "task; may also be the first word, without the flag", usual=True
    )
    suite: str | None = named(
        None, WHAT, "suite that provides the task", default_text="the one that has it"
    )
    framework: str = named(
        "torch", WHAT, "torch or jax", checks.framework, flags=("--ml-framework",), usual=True
    )
    agent_config: str | None = option(
        None,
        WHAT,
        "YAML file with the library's options, in its own format",
        metavar="FILE",
        names="path",
        usual=True,
    )
    agent_key: str | None = named(
        None,
        WHAT,
        "which of the sets of options that are registered with the task, such as "
        "rsl_rl_with_symmetry: it says the library and the algorithm too",
        flags=("--agent",),
        default_text="the one of the library and algorithm",
    )
    checkpoint: str | None = option(
        None,
        WHAT,
        "checkpoint to start from: a file, or the latest or best of this task's newest run",
        metavar="FILE",
        names="path",
        usual=True,
    )
    resume: str | None = option(
        None,
        WHAT,
        "go on with a run, by its own options: its run folder, a checkpoint in it, or latest",
        metavar="RUN",
        names="path",
        usual=True,
    )
    auto_resume: bool = switch(
        WHAT,
        "go on from the latest checkpoint of this task's runs with the same --run-name, if there "
        "is one: for jobs that are started again",
    )
    trust_checkpoint: bool = switch(
        WHAT, "load a checkpoint that may run code: only if you trust who wrote it"
    )
    trust_run: bool = switch(
        WHAT,
        "take all that a run folder says, programs, code, paths and addresses too, and load its "
        "checkpoint whatever it runs: only if you trust who wrote it",
    )
    left_out: tuple[str, ...] = option(
        (), WHAT, "what was not taken from a run folder, for messages", checks.names, kind="none"
    )
    checkpoint_interval: int | str | None = option(
        None,
        WHAT,
        "save a checkpoint after so many iterations, or so much time: 50, 90s, 10m, 1h",
        checks.interval,
        metavar="N",
        names="text",
        default_text="as the library's options say",
    )
    keep: int | None = number(
        None,
        WHAT,
        "keep the newest N checkpoints, and the best one, of this run",
        1,
        default_text="all",
    )
    agent: Mapping[str, Any] = option(
        {}, WHAT, "overrides of the library's options", checks.mapping, kind="none"
    )
    env: Mapping[str, Any] = option({}, WHAT, "options of the task", checks.mapping, kind="none")

    num_envs: int | None = number(
        None, SIZE, "environments per rank", 1, default_text="the task's own", usual=True
    )
    plugins: Mapping[str, Mapping[str, Any]] = option(
        {}, WHAT, "options of plugins, by plugin's name", checks.mapping, kind="none"
    )
    total_envs: int | None = number(None, SIZE, "environments of all ranks together", 1)
    max_iterations: int | None = number(
        None,
        SIZE,
        "iteration at which training ends, including those before a checkpoint",
        1,
        default_text="from the library's options",
        usual=True,
    )
    scale_iterations: bool = switch(
        SIZE, "divide the iterations by the number of ranks: the total experience stays the same"
    )
    scale_minibatches: bool = switch(
        SIZE,
        "keep the number of mini-batches that the library's options give for the number of "
        "environments they were written for",
    )
    random_lengths: bool | None = switch(
        SIZE,
        "start each environment at a random point of its episode; --no-random-lengths: do not",
        None,
        default_text="as in the task's own trainer",
    )
    target_return: float | None = option(
        None,
        SIZE,
        "end once the mean return of the last 100 or more episodes of all ranks reaches R",
        checks.number,
        metavar="R",
        usual=True,
    )
    seed: int = number(42, SIZE, "base seed; -1 draws a random one", -1, usual=True)

    distributed: bool = switch(
        PLACE, "start several ranks, or join those that a launcher started", usual=True
    )
    nproc_per_node: int | str | None = option(
        None,
        PLACE,
        "ranks on this node: a number, gpu, cpu or auto",
        checks.ranks,
        names="text",
        default_text="one per GPU; without GPUs one per core, at most 8",
        usual=True,
    )
    num_gpus: int | None = option(None, PLACE, "ranks on this node, one per GPU", checks.num_gpus)
    gpu_ids: tuple[int, ...] | str | None = option(
        None,
        PLACE,
        "GPUs to use, as indices into CUDA_VISIBLE_DEVICES; all; or None for the CPU",
        checks.gpu_ids,
        metavar="I",
        names="text",
        kind="values",
        usual=True,
    )
    device: str | None = option(
        None,
        PLACE,
        "cpu or cuda; for a single process also cuda:1",
        metavar="D",
        names="text",
        usual=True,
    )
    backend: str | None = named(
        None,
        PLACE,
        "backend of the process group",
        default_text="the framework's, for GPUs if there are any, else for the CPU",
    )
    launcher: str | None = named(
        None, PLACE, "what starts the ranks", default_text="the backend's own"
    )
    cluster: str | None = named(
        None,
        PLACE,
        "what started this process, as one of several ranks or nodes; none: nothing did",
        default_text="found from its environment variables",
    )
    grad_sync: str | None = named(
        None, PLACE, "how gradients are averaged", default_text="the backend's own"
    )
    check_interval: int = number(
        50, PLACE, "iterations between checks that ranks are equal; 0: only at the end", 0
    )
    on_nonfinite: str = option(
        "stop",
        PLACE,
        "what NaN or infinity does: stop ends the run, skip leaves out such updates, rollback goes "
        "back to the newest checkpoint",
        checks.on_nonfinite,
        metavar="WHAT",
        names="text",
    )
    virtual_local_rank: bool = switch(
        PLACE, "each rank sees its own GPU only, as cuda:0, with LOCAL_RANK=0; as for torchrun"
    )
    headless: bool = switch(PLACE, "open no simulator window", usual=True)
    enable_cameras: bool = switch(
        PLACE, "start Isaac Sim so that cameras render; other simulators need no flag"
    )

    nnodes: int = option(
        1, NODES, "number of nodes; or MIN:MAX, if nodes may come and go", checks.nodes
    )
    node_rank: int | None = number(
        None, NODES, "rank of this node", 0, metavar="I", default_text="what the cluster says, or 0"
    )
    master_addr: str = option(
        "127.0.0.1", NODES, "address of node 0", checks.address, metavar="HOST", names="host"
    )
    master_port: int = option(29500, NODES, "port on node 0", checks.port, metavar="PORT")
    coordinator_address: str | None = option(
        None,
        NODES,
        "master address and port in one, as jax writes them",
        checks.endpoint,
        metavar="HOST:PORT",
        names="host",
    )
    rdzv_backend: str | None = named(None, NODES, "rendezvous: static, c10d or etcd-v2")
    rdzv_endpoint: str | None = option(
        None, NODES, "address of the rendezvous", metavar="HOST:PORT", names="host"
    )
    rdzv_id: str | None = option(
        None,
        NODES,
        "name of the run at the rendezvous, the same on every node",
        metavar="ID",
        names="text",
    )
    local_addr: str | None = option(
        None,
        NODES,
        "address of this node at the rendezvous",
        checks.address,
        metavar="HOST",
        names="host",
        default_text="the one from which it reaches the rendezvous",
    )
    join_timeout: int = number(
        300, NODES, "seconds until all nodes and ranks must have met", 1, metavar="SECONDS"
    )
    hang_timeout: float | str | None = option(
        None,
        PLACE,
        "seconds in which a rank must make progress within an iteration; or in each section, as "
        "start=1800,step=300,checkpoint=1800,end=1800; 0: for ever",
        checks.hang_timeout,
        metavar="SECONDS",
        names="text",
        default_text="10 times the longest iteration so far, at least 300",
    )
    max_restarts: int = number(0, NODES, "how many times all ranks are restarted on failure", 0)

    log_root: str = option(
        "logs", OUTPUT, "folder for run folders", metavar="DIR", names="path", usual=True
    )
    run_name: str | None = named(None, OUTPUT, "suffix of the run folder's name", usual=True)
    rank_log_dir: str | None = option(
        None,
        OUTPUT,
        "folder for the ranks' logs; the run folder links to them",
        checks.log_dir,
        metavar="DIR",
        names="path",
        flags=("--log-dir", "--torchrunx-log-dir"),
        default_text="logs in the run folder",
    )
    show_ranks: tuple[int, ...] | str | None = option(
        None,
        OUTPUT,
        "ranks of this node whose own output the console shows too; or all",
        checks.local_ranks,
        metavar="I",
        names="text",
        kind="values",
        flags=("--local-ranks-filter",),
        default_text="none: it is in the ranks' logs",
    )
    profile: bool = switch(
        OUTPUT, "time all ranks for 12 iterations: profile.json in the run folder, for Perfetto"
    )
    writers: tuple[str, ...] | None = named(
        None,
        OUTPUT,
        "writers",
        checks.names,
        kind="values",
        default_text="console, and tensorboard if installed",
    )
    observers: tuple[str, ...] = named((), OUTPUT, "observers", checks.names, kind="values")
    no_plugins: tuple[str, ...] = named(
        (), OUTPUT, "plugin to leave out; may be repeated", checks.names, kind="append"
    )
    video: bool = switch(
        OUTPUT, "record videos of training, on rank 0: the same as --observer video", usual=True
    )
    video_length: int | None = number(
        None,
        OUTPUT,
        "length of a video in environment steps: the same as video.length=N",
        1,
        default_text="200",
    )
    video_interval: int | None = number(
        None,
        OUTPUT,
        "steps from the start of one video to the next: the same as video.interval=N",
        1,
        default_text="2000",
    )

    @property
    def min_nodes(self) -> int | None:
        """The smallest number of nodes, if --nnodes is a range."""
        return self.nnodes.least if isinstance(self.nnodes, checks.NodeRange) else None

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> RunOptions:
        """Check types and ranges, and return the options; None means the default.

        Raises:
            UsageError: an option is unknown or its value is wrong.
        """
        fields = {item.name: item for item in dataclasses.fields(cls)}
        checked: dict[str, Any] = {}
        sections: dict[str, Any] = {}
        for name, value in options.items():
            if name not in fields or is_section(name, value):
                # A section for a plugin: {"csv": {"flush": 10}}, or dotted, "csv.flush".
                if not isinstance(value, Mapping) and "." not in name:
                    raise UsageError(f"Unknown option {name!r}.{suggest(name, fields)}")
                sections[name] = value
            elif value is not None:
                checked[name] = option_of(fields[name]).check(name, value)
        if sections:
            checked["plugins"] = by_plugin({**checked.get("plugins", {}), **sections})
        return cls(**with_num_gpus(with_video(with_coordinator(checked))))

    def fields_of(self, resolved: type[Any]) -> dict[str, Any]:
        """Return the options that a dataclass of the resolved run has too, by name."""
        names = {item.name for item in dataclasses.fields(resolved)}
        return {name: value for name, value in vars(self).items() if name in names}


def by_plugin(sections: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return plugins' options, nested or dotted, as {plugin's name: {option: value}}."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in flatten(sections):
        name, _, option = key.partition(".")
        options = found.setdefault(name, {})
        if option or value:  # A section may be empty.
            options[option] = value
    return found
