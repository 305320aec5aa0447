"""Train a task with an RL library, on one process or many."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rltrain.commands.foreign import note, translate
from rltrain.config import DEFAULT_TASK, load_yaml

__all__ = ["EPILOG", "add_arguments", "add_nodes", "add_places", "run", "split"]

EPILOG = """\
options of the library and of the task:
  agent.KEY=VALUE      override an option of the library, such as agent.params.config.gamma=0.98
  env.KEY=VALUE        set an option of the task, such as env.pole_length=0.8
  +agent.KEY=VALUE     add an option that the library's file does not have

examples:
  rltrain --library rl_games --distributed
  rltrain --library skrl --task Pendulum-v1 --num-envs 64 --max-iterations 100
  rltrain --library rsl_rl --distributed --gpu-ids 0 1 --agent-config ppo.yaml
  rltrain --library skrl --framework jax --distributed
  torchrun --nproc_per_node 2 -m rltrain --library rl_games --distributed
  rltrain Mjlab-Cartpole-Balance --library rsl_rl --gpu-ids all

The task may stand first, without its flag. `train_multigpu` is `train --distributed`. Flags take
dashes or underscores. `rltrain plugins` lists libraries, backends and suites."""

_SAME_AS = {
    "coordinator_address": ("master_addr", "master_port"),
    "master_addr": ("coordinator_address",),
    "master_port": ("coordinator_address",),
}
"""Flags that say what others do in other words: a file's must not contradict them."""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Set override tokens apart, which argparse's lists (`--gpu-ids 0 1`) would swallow."""
    words = translate(words)
    overrides = [word for word in words if word.startswith(("agent.", "env.", "+")) and "=" in word]
    return [word for word in words if word not in overrides], overrides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags: one for each field of `RunConfig`, absent unless given."""
    what = _group(parser, "what to train")
    what("--library", "--rl-library", metavar="NAME", help="RL library (rl_games)")
    what("--algorithm", metavar="NAME", help="the library's algorithm (ppo, if it has it)")
    what("--task", metavar="NAME", help=f"task ({DEFAULT_TASK})")
    what("--suite", metavar="NAME", help="suite that makes the task (the one that knows it)")
    what("--framework", "--ml-framework", metavar="NAME", help="torch or jax (torch)")
    what("--agent-config", metavar="FILE", help="the library's options, in its own YAML format")
    what("--checkpoint", metavar="FILE", help="checkpoint to go on from: a file, latest or best")
    what("--config", metavar="FILE", help="YAML file with any of these flags, and agent: and env:")

    size = _group(parser, "how much")
    size("--num-envs", metavar="N", help="environments a rank")
    size("--total-envs", metavar="N", help="environments of all ranks together")
    size(
        "--max-iterations",
        metavar="N",
        help="iteration at which training ends, those before a checkpoint included (as the "
        "library's file says)",
    )
    size(
        "--scale-iterations",
        action="store_true",
        help="divide the iterations by the number of ranks",
    )
    size(
        "--scale-minibatches",
        action="store_true",
        help="keep the number of mini-batches that the library's file has for as many environments "
        "as it was written for",
    )
    size(
        "--random-lengths",
        action=argparse.BooleanOptionalAction,
        help="begin in the midst of episodes, each environment elsewhere (as the task's trainer)",
    )
    size("--target-return", metavar="R", help="end once the mean return over all ranks reaches R")
    size("--seed", metavar="N", help="base seed; -1 draws one (42)")

    where = _group(parser, "where")
    where("--distributed", action="store_true", help="run several ranks, or join started ones")
    add_places(where)
    where("--grad-sync", metavar="NAME", help="how gradients are averaged (flat, tree)")
    where("--check-interval", metavar="N", help="iterations between checks of equal ranks (50)")
    where("--headless", action="store_true", help="let no simulator open a window")
    where(
        "--enable-cameras",
        action="store_true",
        help="start Isaac Sim so that cameras render; other simulators need not be told",
    )

    nodes = _group(parser, "several nodes, as for torchrun")
    add_nodes(nodes)

    output = _group(parser, "output")
    output("--log-root", metavar="DIR", help="where run folders are made (logs)")
    output("--run-name", metavar="NAME", help="added to the run folder's name")
    output(
        "--writer", nargs="+", dest="writers", metavar="NAME", help="writers (console tensorboard)"
    )
    output("--observer", nargs="+", dest="observers", metavar="NAME", help="observers (none)")
    output("--no-plugin", action="append", dest="no_plugins", metavar="NAME", help="leave one out")
    output(
        "--video",
        nargs="?",
        const=True,
        type=_true_or_false,
        metavar="True",
        help="record videos of training, on rank 0",
    )
    output("--video-length", metavar="N", help="length of a video in steps (200)")
    output("--video-interval", metavar="N", help="steps between the starts of two (2000)")
    output("--dry-run", action="store_true", help="print the plan and start nothing")


def add_places(add: Callable[..., None]) -> None:
    """Declare the flags that say on which devices ranks run, and who starts them."""
    add("--nproc-per-node", metavar="N", help="ranks on this node: a number, gpu, cpu or auto")
    add("--num-gpus", metavar="N", help="ranks on this node, one a GPU")
    add("--gpu-ids", nargs="+", metavar="I", help="GPUs among the visible ones; all; None")
    add("--device", metavar="D", help="cpu or cuda; for one process also cuda:1")
    add("--backend", metavar="NAME", help="backend (for GPUs where there is one)")
    add("--launcher", metavar="NAME", help="what starts the ranks (elastic, processes)")


def add_nodes(add: Callable[..., None]) -> None:
    """Declare the flags of several nodes, which mean what they mean to torchrun."""
    add("--nnodes", metavar="N", help="number of nodes (1)")
    add("--node-rank", metavar="I", help="which node this is (0)")
    add("--master-addr", metavar="HOST", help="address of node 0 (127.0.0.1)")
    add("--master-port", metavar="PORT", help="port on node 0 (29500)")
    add("--coordinator-address", metavar="HOST:PORT", help="both in one, as for jax")
    add("--rdzv-backend", metavar="NAME", help="rendezvous: static, c10d or etcd-v2")
    add("--rdzv-endpoint", metavar="HOST:PORT", help="where the rendezvous is")
    add("--rdzv-id", metavar="ID", help="the run's name at the rendezvous")
    add("--max-restarts", metavar="N", help="how often all ranks are started anew (0)")


def run(arguments: argparse.Namespace, words: list[str]) -> int:
    """Train, or print the plan."""
    from rltrain.launch import start
    from rltrain.plan import make_plan

    options = _options(vars(arguments), words)
    dry_run = options.pop("dry_run", False)
    plan = make_plan(options)
    said = note(os.environ)
    if said and (plan.world is None or plan.world.is_root):
        print(said, file=sys.stderr)
    if dry_run:
        from rltrain.plan_table import plan_table

        print(plan_table(plan))
        return 0
    if plan.world is None:
        # Importing frameworks takes seconds, in which nothing else would be seen.
        ranks, backend = plan.config.nproc_per_node, plan.config.backend
        print(f"starting {ranks} rank(s) on this node, backend {backend}", flush=True)
    start(plan)
    return 0


def _true_or_false(word: str) -> bool:
    """Read the value that mjlab's flags have where ours have none."""
    if word not in ("True", "False"):
        raise argparse.ArgumentTypeError(f"{word}: must be True, which may be left out, or False")
    return word == "True"


def _group(parser: argparse.ArgumentParser, title: str) -> Any:
    group = parser.add_argument_group(title)

    def add(*names: str, **settings: Any) -> None:
        group.add_argument(*names, default=argparse.SUPPRESS, **settings)

    return add


def _options(given: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
    """Merge the whole run's file, the flags and the overrides; the latter win."""
    from rltrain.agent_options import flatten, parse_override
    from rltrain.errors import UsageError

    flags = dict(given)
    path = flags.pop("config", None)
    options = load_yaml(path, "--config") if path else {}
    options = {name.replace("-", "_"): value for name, value in options.items()}
    for name in {other for flag in flags for other in _SAME_AS.get(flag, ())}:
        options.pop(name, None)
    merged: dict[str, dict[str, Any]] = {}
    for where in ("agent", "env"):
        section = options.pop(where, None) or {}
        if not isinstance(section, Mapping):
            raise UsageError(f"--config {path}: {where}: must be a mapping, not {section!r}.")
        merged[where] = dict(flatten(section))
    for word in words:
        override = parse_override(word)
        if override is None:
            raise UsageError(f"{word}: an override is written agent.key=value or env.key=value.")
        where, key, value = override
        merged[where][key] = value
    return {**options, **flags, **merged}
