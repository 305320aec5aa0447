"""Documented command lines: what rltrain gets from one, run with --dry-run in this process.

The tasks are those of the docs, known by name; the libraries are the real ones; the number of GPUs
is made up.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable

from rltrain.cli.main import main

SUITE = """
from rltrain.hookspecs import hookimpl
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

TASKS = ["Isaac-Cartpole-v0", "Isaac-Cartpole", "Mjlab-Cartpole-Balance", "balance"]
OF_PAGES = ["Isaac-Ant", "Isaac-Cartpole-Direct", "Isaac-Velocity-Flat-AnymalD"]
OF_PAGES += ["Mjlab-Velocity-Flat-Unitree-Go1", "MyProject-Reach-Arm"]
OPTIONS = {
    "presets": "physx",
    "physics": "physx",
    "frame_skip": 2,
    "corrupted": False,
    "sim.mujoco.timestep": 0.002,
}

def describe(task, env):
    if task not in TASKS:
        return TaskInfo(task, "continuous", num_envs=4096) if task in OF_PAGES else None
    agents = {"rsl_rl": ("rsl_rl", "ppo")} if task != "balance" else {}
    return TaskInfo(task, "continuous", num_envs=4096, options=OPTIONS, agents=agents)

@hookimpl
def rltrain_provides():
    return [
        SuiteSpec(
            name="seeds",
            factory="stub_parts:StubSuite",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=lambda: TASKS,
        )
    ]
"""
PLUGINS = (
    "rltrain-torch,rltrain-gymnasium,rltrain-jax,rltrain-rl-games,rltrain-rsl-rl,rltrain-skrl,seeds,"
    "rltrain-tools,rltrain-devkit,rltrain-sweep,rltrain-kubernetes,of-isaaclab,of-mjlab"
)

TORCHRUN = "python -m torch.distributed.run"
SKRL = "python -m skrl.utils.distributed.jax"


def started(line: str) -> tuple[dict[str, str], list[str]]:
    """Return what rltrain gets from a line: the variables its launcher sets, and arguments."""
    front, _, words = re.split(r"(\$\(command -v rltrain\)|\brltrain\b)", line, maxsplit=1)
    variables = dict(re.findall(r"([A-Z_]+)=(\S*)", front))
    for name, value in variables.items():
        front, words = (text.replace(f"${name}", value) for text in (front, words))
    found = {name: int(number) for name, number in re.findall(r"--(\w+)[= ](\d+)\b", front)}
    ranks, nodes, node = (
        found.get(name, usual)
        for name, usual in (("nproc_per_node", 1), ("nnodes", 1), ("node_rank", 0))
    )
    place = {"RANK": ranks * node, "LOCAL_RANK": 0, "WORLD_SIZE": ranks * nodes}
    if TORCHRUN in front or "torchrun " in front:
        variables |= {name: str(number) for name, number in place.items()}
        variables |= {"LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": str(node)}
    elif SKRL in front:
        variables |= {f"JAX_{name}": str(number) for name, number in place.items()}
    return variables, shlex.split(words)


def typer(site, capsys, monkeypatch) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a line with --dry-run appended, where two GPUs are visible.

    Or as many as the line begins with: `GPUS=3 rltrain ...`. It returns the exit status and the
    output.
    """
    site.install("seeds", SUITE)
    for program in ("isaaclab", "mjlab"):  # Without their suites.
        words = f"from rltrain_{program}.plugin import rltrain_dialect"
        site.install(f"of-{program}", words)
    monkeypatch.setenv("RLTRAIN_PLUGINS", PLUGINS)

    def type_line(line: str) -> tuple[int, str]:
        def count(*_, **__) -> int:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            return gpus if visible is None else len(visible.split(",")) if visible else 0

        variables, words = started(line)
        gpus = int(variables.pop("GPUS", "2"))
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setattr("rltrain.placement.backend.preflight", count)
            status = main([*words, "--dry-run"])
        out, err = capsys.readouterr()
        return status, out + err

    return type_line
