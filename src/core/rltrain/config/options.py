"""The options of a run, each declared once: name, type, default, check, help, group and scope.

The command line, `--config`, `rltrain.train()`, what ranks must agree on, what a run keeps of the
one before, and the reference in the docs all come from these fields. What the user sets is
`rltrain.options.RunOptions`; what each rank receives is `rltrain.config.RunConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rltrain.config import checks
from rltrain.config.declare import Group, Scope

DEFAULT_TASK = "rltrain/CartPoleContinuous-v1"
"""The embedded continuous-force cart-pole: every library can learn it, on any machine."""

WHAT, SIZE, PLACE = Group("what to train"), Group("how much"), Group("where")
NODES, WRITTEN = Group("several nodes, as for torchrun"), Group("output")

RUN, AMOUNT, START, NODE, RANKS, MEETING, OUTPUT, KEPT, TAKEN, ORIGIN, COMMAND, USUAL = Scope

Unset = TypeVar("Unset")
"""None while the choice is rltrain's; nothing in a resolved run."""
Word = TypeVar("Word")
"""Text for what follows from the machine, such as "gpu"; nothing in a resolved run."""


@dataclass(frozen=True, kw_only=True)
class Options(Generic[Unset, Word]):
    """What a user sets, and each rank receives. The help of an option says what it means."""

    library: str | Unset = WHAT.named(
        None,
        RUN | KEPT | USUAL,
        "RL library",
        flags=("--rl-library",),
        default_text="that of the task's authors, else rl_games",
    )
    algorithm: str | Unset = WHAT.named(
        None, RUN | KEPT | USUAL, "the library's algorithm", default_text="the library's first, PPO"
    )
    task: str = WHAT.named(
        DEFAULT_TASK, RUN | KEPT | USUAL, "task; may also be the first word, without the flag"
    )
    suite: str | Unset = WHAT.named(
        None, RUN | KEPT, "suite that provides the task", default_text="the one that has it"
    )
    framework: str = WHAT.named(
        "torch",
        RUN | KEPT | RANKS | USUAL,
        "torch or jax",
        flags=("--ml-framework",),
    )
    agent_config: str | None = WHAT.option(
        None,
        KEPT | COMMAND | USUAL,
        "YAML file with the library's options, in its own format; or which of the sets that are "
        "registered with the task, such as rsl_rl_with_symmetry, whose library it chooses too",
        names="path",
    )
    checkpoint: str | None = WHAT.option(
        None,
        ORIGIN | USUAL,
        "checkpoint to start from: a file, or the latest or best of this task's newest run",
        names="path",
    )
    resume: str | None = WHAT.option(
        None,
        ORIGIN | COMMAND | USUAL,
        "resume a run, by its own options: its run folder, a checkpoint in it, or latest",
        metavar="RUN",
        names="path",
    )
    auto_resume: bool = WHAT.switch(
        ORIGIN,
        "resume from the latest checkpoint of this task's runs with the same --run-name, if there "
        "is one: for jobs that are started again",
    )
    trust: bool = WHAT.switch(
        COMMAND | TAKEN,
        "load a checkpoint that may run code, and take all that a run folder says, programs, code, "
        "paths and addresses too: only if you trust who wrote it",
        flags=("--trust-run", "--trust-checkpoint"),
    )
    checkpoint_interval: int | str | None = WHAT.option(
        None,
        START,
        "save a checkpoint after so many iterations, or so much time: 50, 90s, 10m, 1h",
        checks.interval,
        metavar="N",
        names="text",
        default_text="as the library's options say",
    )
    keep: int | None = WHAT.number(
        None,
        START,
        "keep the newest N checkpoints, and the best one, of this run",
        1,
        default_text="all",
    )
    agent: Mapping[str, Any] = WHAT.option(
        {}, RUN, "overrides of the library's options", checks.mapping, kind="none"
    )
    env: Mapping[str, Any] = WHAT.option(
        {}, RUN | KEPT, "options of the task", checks.mapping, kind="none"
    )
    num_envs: int | Unset = SIZE.number(
        None,
        RUN | TAKEN | USUAL,
        "environments per rank",
        1,
        default_text="the task's own",
        replaces=("total_envs",),
    )
    plugins: Mapping[str, Mapping[str, Any]] = WHAT.option(
        {}, START | RANKS, "options of plugins, by plugin's name", checks.mapping, kind="none"
    )
    total_envs: int | None = SIZE.number(
        None, AMOUNT, "environments of all ranks together", 1, replaces=("num_envs",)
    )
    max_iterations: int | None = SIZE.number(
        None,
        AMOUNT | USUAL,
        "iteration at which training ends, including those before a checkpoint",
        1,
        default_text="from the library's options",
    )
    random_lengths: bool | Unset = SIZE.switch(
        RUN,
        "start each environment at a random point of its episode; --no-random-lengths: do not",
        None,
        default_text="as in the task's own trainer",
        resolved=False,
    )
    target_return: float | None = SIZE.option(
        None,
        RUN | USUAL,
        "end once the mean return of the last 100 or more episodes of all ranks reaches R",
        checks.number,
        metavar="R",
    )
    seed: int = SIZE.number(42, AMOUNT | TAKEN | USUAL, "base seed; -1 chooses a random one", -1)
    distributed: bool = PLACE.switch(
        START | RANKS | USUAL, "start several ranks, or join those that a launcher started"
    )
    nproc_per_node: int | Word | None = PLACE.option(
        None,
        NODE | RANKS | USUAL,
        "ranks on this node: a number, gpu, cpu or auto",
        checks.ranks,
        names="text",
        default_text="one per GPU; without GPUs one per core, at most 8",
    )
    gpu_ids: tuple[int, ...] | Word | None = PLACE.option(
        None,
        NODE | RANKS | TAKEN | USUAL,
        "GPUs to use, as indices into CUDA_VISIBLE_DEVICES; all; or None for the CPU",
        checks.indices("indices", "all", "none"),
        metavar="I",
        names="text",
        kind="values",
    )
    device: str | None = PLACE.option(
        None,
        NODE | RANKS | TAKEN | USUAL,
        "cpu or cuda; for a single process also cuda:1",
        metavar="D",
        names="text",
    )
    backend: str | Unset = PLACE.named(
        None,
        RUN | RANKS,
        "backend of the process group",
        default_text="the framework's, for GPUs if there are any, else for the CPU",
    )
    launcher: str | None = PLACE.named(
        None, START | RANKS, "what starts the ranks", default_text="the backend's own"
    )
    cluster: str | None = PLACE.named(
        None,
        START | RANKS | MEETING,
        "what started this process, as one of several ranks or nodes; none: nothing did",
        default_text="found from its environment variables",
    )
    grad_sync: str | Unset = PLACE.named(
        None, RUN, "how gradients are averaged", default_text="the backend's own"
    )
    check_interval: int = PLACE.number(
        50, START, "iterations between checks that ranks are equal; 0: only at the end", 0
    )
    on_nonfinite: str = PLACE.option(
        "stop",
        RUN,
        "what NaN or infinity does: stop ends the run, skip leaves out such updates",
        checks.one_of("stop", "skip"),
        metavar="WHAT",
        names="text",
    )
    headless: bool = PLACE.switch(START | KEPT | USUAL, "open no simulator window")
    enable_cameras: bool = PLACE.switch(
        START | KEPT, "start Isaac Sim so that cameras render; other simulators need no flag"
    )
    nnodes: int = NODES.number(1, START | RANKS, "number of nodes", 1)
    node_rank: int | Unset = NODES.number(
        None,
        NODE | RANKS | MEETING,
        "rank of this node",
        0,
        metavar="I",
        default_text="what the cluster says, or 0",
        resolved=0,
    )
    master_addr: str = NODES.option(
        "127.0.0.1",
        RANKS | MEETING,
        "address of node 0",
        checks.address,
        names="host",
    )
    master_port: int = NODES.option(
        29500,
        RANKS | MEETING,
        "port on node 0",
        checks.integer(1, 65535),
        metavar="PORT",
    )
    join_timeout: int = NODES.number(
        300, NODE | RANKS, "seconds until all nodes and ranks must have met", 1, metavar="SECONDS"
    )
    hang_timeout: Mapping[str, float] | None = PLACE.option(
        None,
        NODE | RANKS,
        "seconds in which a rank must make progress within an iteration; or in each section, as "
        "start=1800,step=300,checkpoint=1800,end=1800; 0: for ever",
        checks.hang_timeout,
        metavar="SECONDS",
        names="text",
        default_text="10 times the longest iteration so far, at least 300",
    )
    max_restarts: int = NODES.number(
        0, START, "how many times all ranks are restarted on failure", 0
    )
    log_root: str = WRITTEN.option(
        "logs",
        OUTPUT | RANKS | TAKEN | USUAL,
        "folder for run folders",
        metavar="DIR",
        names="path",
    )
    run_name: str | None = WRITTEN.named(None, OUTPUT | USUAL, "suffix of the run folder's name")
    show_ranks: tuple[int, ...] | str | None = WRITTEN.option(
        None,
        NODE,
        "ranks of this node whose own output the console shows too; or all",
        checks.indices("ranks", "all"),
        metavar="I",
        names="text",
        kind="values",
        flags=("--local-ranks-filter",),
        default_text="none: it is in the ranks' logs",
    )
    writers: tuple[str, ...] | Unset = WRITTEN.named(
        None,
        START,
        "writers",
        checks.names,
        kind="values",
        default_text="console, and tensorboard if installed",
        resolved=(),
    )
    observers: tuple[str, ...] = WRITTEN.named(
        (), START | USUAL, "observers; may be repeated", checks.names, kind="more"
    )
    no_plugins: tuple[str, ...] = WRITTEN.named(
        (),
        START | RANKS | TAKEN,
        "plugin to leave out; may be repeated",
        checks.names,
        kind="append",
    )
