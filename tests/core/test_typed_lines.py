"""Commands from Isaac Lab's, mjlab's and skrl's docs, with only the script replaced.

Each one works, or is refused with the reason and what to type instead. The tasks are those of the
docs, known by name; the libraries are the real ones; the number of GPUs is made up.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple

import pytest

from rltrain.cli import foreign, train
from rltrain.cli.main import main

SUITE = """
from rltrain.hookspecs import hookimpl
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo

TASKS = ["Isaac-Cartpole-v0", "Isaac-Cartpole", "Mjlab-Cartpole-Balance", "balance"]
OPTIONS = {"presets": "physx", "frame_skip": 2, "corrupted": False}

def describe(task):
    if task not in TASKS:
        return None
    return TaskInfo(task, "continuous", num_envs=4096, options=OPTIONS)

@hookimpl
def rltrain_provides():
    return [
        SuiteSpec(
            name="seeds",
            factory="x:y",
            frameworks=("torch", "jax"),
            describe=describe,
            tasks=lambda: TASKS,
        )
    ]
"""
PLUGINS = "rltrain-torch,rltrain-jax,rltrain-rl-games,rltrain-rsl-rl,rltrain-skrl,seeds"
LIBRARIES = ("rl_games", "rsl_rl", "skrl")


class Line(NamedTuple):
    """A documented command."""

    typed: str
    says: tuple[str, ...]
    """What the plan says; of a refusal what the message says."""
    works: bool = True
    gpus: int = 2


def refused(typed: str, *says: str, gpus: int = 2) -> Line:
    return Line(typed, says, works=False, gpus=gpus)


TORCHRUN = "python -m torch.distributed.run"
SKRL = "python -m skrl.utils.distributed.jax"
ONE_NODE = "--task=Isaac-Cartpole-v0 --headless --distributed"
PAI_DLC = "WORLD_SIZE=2 RANK=1 MASTER_ADDR=dlc-0 MASTER_PORT=23456 NPROC_PER_NODE=2"

ISAAC_LAB_2 = [
    *(
        Line(
            f"{TORCHRUN} --nnodes=1 --nproc_per_node=2 {script} {flag}={library} {ONE_NODE}",
            (f"{library}, ppo, on torch", "joined as rank 0 of 2, on cuda:0", "nccl"),
        )
        for library in LIBRARIES
        for script, flag in (
            ("-m rltrain", "--library"),
            ("$(command -v rltrain)", "--rl_library"),
        )
    ),
    *(
        Line(
            f"{TORCHRUN} --nproc_per_node=2 --nnodes=2 --node_rank={node} --master_addr=10.0.0.1 "
            f"--master_port=5555 -m rltrain --library=rl_games {ONE_NODE}",
            (f"joined as rank {2 * node} of 4, on cuda:0",),
        )
        for node in (0, 1)
    ),
    Line(
        f"{TORCHRUN} --nproc_per_node=2 --nnodes=2 --node_rank=1 --rdzv_id=123 --rdzv_backend=c10d "
        f"--rdzv_endpoint=10.0.0.1:5555 -m rltrain --library=skrl {ONE_NODE}",
        ("joined as rank 2 of 4",),
    ),
    Line(
        f"{SKRL} --nnodes=1 --nproc_per_node=2 $(command -v rltrain) --library=skrl {ONE_NODE} "
        "--ml_framework jax",
        ("skrl, ppo, on jax", "joined as rank 0 of 2"),
    ),
    *(
        Line(
            f"{SKRL} --nproc_per_node=2 --nnodes=2 --node_rank={node} "
            "--coordinator_address=10.0.0.1:5555 $(command -v rltrain) --library=skrl "
            f"{ONE_NODE} --ml_framework jax",
            ("skrl, ppo, on jax", f"joined as rank {2 * node} of 4"),
        )
        for node in (0, 1)
    ),
    # The launcher's own arguments, given to rltrain instead.
    Line(
        "rltrain --nproc_per_node=2 --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 "
        f"--master_port=5555 --library=rsl_rl {ONE_NODE}",
        ("2 on this node, started by elastic; node 1 of 2",),
    ),
    Line(
        "rltrain --nproc_per_node=2 --nnodes=2 --node_rank=0 --coordinator_address=10.0.0.1:5555 "
        f"--library=skrl {ONE_NODE} --ml_framework jax",
        ("2 on this node, started by processes; node 0 of 2",),
    ),
    Line(
        "./isaaclab.sh -p -m rltrain --library skrl --task Isaac-Cartpole-v0 --headless "
        "--algorithm PPO --ml_framework torch --num_envs 64 --seed 7 --max_iterations 9",
        ("skrl, ppo, on torch", "64 a rank", "iterations    9", "seed          7"),
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library skrl --task Isaac-Cartpole-v0 --algorithm AMP",
        "--algorithm AMP: skrl is offered with ppo",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library skrl --task Isaac-Cartpole-v0 "
        "--ml_framework jax-numpy",
        "Instead: --framework jax",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library rl_games --task Isaac-Cartpole-v0 --track "
        "--wandb-project-name cartpole --wandb-entity me",
        "--track: rltrain has no writer for Weights & Biases",
        "Leave it out.",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library rsl_rl --task Isaac-Cartpole-v0 --resume "
        "--load_run 2026-01-01_10-00-00 --checkpoint model_100.pt",
        "--resume: a run resumes from the checkpoint that you name. Give --checkpoint PATH",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library rsl_rl --task Isaac-Cartpole-v0 --logger wandb",
        "--logger: metrics go to writers",
        "--writer NAME",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library rsl_rl --task Isaac-Cartpole-v0 "
        "--agent rsl_rl_cfg_entry_point",
        "--agent: rltrain takes the options that the task registers",
        "--agent-config FILE",
    ),
    refused(
        "./isaaclab.sh -p -m rltrain --library rsl_rl --task Isaac-Cartpole-v0 --livestream 2",
        "put LIVESTREAM=N before the command",
    ),
]

ISAAC_LAB_3 = [
    Line(
        "uv run rltrain train --rl_library rsl_rl --task Isaac-Cartpole",
        ("rsl_rl, ppo, on torch", "one process, on cuda:0", "4096 a rank"),
    ),
    *(
        Line(
            f"uv run rltrain {command} --rl_library {library} --task Isaac-Cartpole",
            (f"{library}, ppo, on torch", "2 on this node, started by elastic"),
        )
        for command, library in zip(
            ("train_multigpu", "train-multigpu", "train_multigpu"), LIBRARIES, strict=True
        )
    ),
    Line(
        "uv run rltrain train_multigpu --rl_library rsl_rl --num_gpus 4 --task Isaac-Cartpole "
        "--num_envs 4096 --max_iterations 100",
        ("4 on this node", "4096 a rank, 16384 in all", "iterations    100"),
        gpus=4,
    ),
    refused(
        "uv run rltrain train_multigpu --rl_library rsl_rl --num_gpus 4 --task Isaac-Cartpole",
        "--num-gpus 4: 2 GPUs are visible.",
    ),
    refused(
        "uv run rltrain train_multigpu --num_gpus gpu --task Isaac-Cartpole",
        "--num-gpus gpu: must be a number. Instead: --nproc-per-node gpu.",
    ),
    Line(
        "uv run rltrain train_multigpu --rl_library rl_games --master_port 29504 --nproc_per_node "
        "gpu --task Isaac-Cartpole",
        ("2 on this node",),
    ),
    Line(
        "uv run rltrain train_multigpu --rl_library skrl --num_gpus 2 --ml_framework jax "
        "--task Isaac-Cartpole --dry_run",
        ("skrl, ppo, on jax", "2 on this node, started by processes", "jax-cuda"),
    ),
    *(
        Line(
            "./isaaclab.sh -p -m rltrain train_multigpu --rl_library rsl_rl --nnodes 2 --node_rank "
            f"{node} --master_addr 10.0.0.1 --master_port 5555 --num_gpus 2 --task Isaac-Cartpole",
            (f"2 on this node, started by elastic; node {node} of 2",),
        )
        for node in (0, 1)
    ),
    Line(
        "uv run rltrain train_multigpu --num_gpus 2 -- --task Isaac-Cartpole presets=newton",
        ("2 on this node", "presets: newton"),
    ),
    *(
        refused(
            f"uv run rltrain train_multigpu --num_gpus 2 --task Isaac-Cartpole {flag}",
            f"{flag.split()[0].replace('_', '-')}: ",
            instead,
        )
        for flag, instead in (
            ("--log_all_ranks", "logs/rank_N.log; the console shows rank 0"),
            ("--local_ranks_filter 0", "logs/rank_N.log"),
            ("--tee 3", "logs/rank_N.log"),
            ("--log_dir out", "--log-root DIR"),
            ("--virtual_local_rank", "--gpu-ids chooses the GPUs"),
            ("--monitor_interval 5", "or let torchrun start the ranks"),
            ("--start_method spawn", "or let torchrun start the ranks"),
            ("--role trainer", "or let torchrun start the ranks"),
        )
    ),
]

TROUBLESHOOTING = [
    Line(
        f"{variable} {TORCHRUN} --nnodes=1 --nproc_per_node=2 -m rltrain --rl_library=rsl_rl "
        f"{ONE_NODE}",
        ("joined as rank 0 of 2",),
    )
    for variable in (
        "NCCL_P2P_DISABLE=1",
        "NCCL_SHM_DISABLE=1",
        "NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_ALGO=Ring",
    )
]

BALANCE = "rltrain Mjlab-Cartpole-Balance"
MJLAB = [
    Line(f"uv run {BALANCE}", ("Mjlab-Cartpole-Balance", "one process, on cuda:0")),
    Line("uv run rltrain train Mjlab-Cartpole-Balance --gpu-ids 0", ("one process, on cuda:0",)),
    Line(f"uv run {BALANCE} --gpu-ids 0 1", ("2 on this node",)),
    Line(f"uv run {BALANCE} --gpu-ids '[0, 1]' --library rsl_rl", ("2 on this node", "rsl_rl")),
    Line(f"uv run {BALANCE} --gpu-ids all", ("3 on this node",), gpus=3),
    Line(f"uv run {BALANCE} --gpu-ids None", ("one process, on cpu",)),
    Line(f"CUDA_VISIBLE_DEVICES= uv run {BALANCE}", ("one process, on cpu",)),
    Line(f"CUDA_VISIBLE_DEVICES=2,3 uv run {BALANCE} --gpu-ids 0 1", ("2 on this node",), gpus=4),
    refused(
        f"CUDA_VISIBLE_DEVICES=2 uv run {BALANCE} --gpu-ids 0 1",
        "there is no GPU 1: 1 GPU is visible",
        gpus=4,
    ),
    refused(f"uv run {BALANCE} --gpu-ids 0", "For the CPU: --gpu-ids None.", gpus=0),
    refused(
        f"uv run {BALANCE} --gpu-ids 0 1 --torchrunx-log-dir ''",
        "--torchrunx-log-dir: every rank's log is a file in the run folder",
    ),
    refused(f"uv run {BALANCE} --gpu-ids 0 1 --torchrunx-log-dir /path/to/logs", "--log-root DIR"),
    Line(
        f"MUJOCO_GL=egl uv run {BALANCE} --env.scene.num-envs 4096 --agent.max-iterations 3000 "
        "--agent.seed=7 --agent.run-name mine --library rsl_rl",
        ("4096 a rank", "iterations    3000", "seed          7"),
    ),
    Line(
        f"uv run {BALANCE} --library rsl_rl --agent.algorithm.learning-rate 5e-4 --video False "
        "--agent.actor.hidden-dims '(64, 32)' --agent.clip_actions None "
        "--env.frame-skip=4 --env.corrupted True",
        (
            "learning_rate: 0.0005",
            "hidden_dims:\n    - 64\n    - 32\n",
            "clip_actions: null",
            "frame_skip: 4\n  corrupted: true",
            "observers     none",
        ),
    ),
    refused(f"uv run {BALANCE} --enable-nan-guard True", "Set env.sim.nan_guard.enabled=true."),
    refused(f"uv run {BALANCE} --agent.logger tensorboard", "--writer NAME"),
    refused(f"uv run {BALANCE} --agent.resume True", "--checkpoint latest"),
    refused(f"uv run {BALANCE} --registry-name me/motions/walk", "motion_file=FILE"),
    refused(f"uv run {BALANCE} --wandb-run-path me/mjlab/1", "--checkpoint PATH"),
    refused(f"uv run {BALANCE} --env.corrupted --video True", "needs a value"),
    refused(f"uv run {BALANCE} --video maybe", "must be True, which may be left out, or False"),
    refused("uv run rltrain Mjlab-Cartpole-Balace", "Did you mean 'Mjlab-Cartpole-Balance'?"),
    Line("rltrain balance", ("balance (continuous actions)",)),
    refused("rltrain balanse", "Unknown command 'balanse'.", "It is not a task either"),
]

CLUSTERS = [
    Line(
        f"{PAI_DLC} rltrain --library rsl_rl --task Isaac-Cartpole-v0 --distributed",
        (
            "2 on this node, started by elastic",
            "node 1 of 2, as pytorchjob says, meeting at dlc-0:23456",
        ),
    ),
    Line(
        f"{PAI_DLC} rltrain Mjlab-Cartpole-Balance --gpu-ids 0 1",
        ("2 on this node, started by elastic; node 1 of 2, as pytorchjob says",),
        gpus=2,
    ),
    Line(
        f"{PAI_DLC} rltrain --library rsl_rl --task Isaac-Cartpole-v0 --distributed --nnodes "
        "$WORLD_SIZE --node-rank $RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT "
        "--nproc-per-node $NPROC_PER_NODE",
        ("2 on this node, started by elastic; node 1 of 2",),
    ),
    Line(
        f"{PAI_DLC} {TORCHRUN} --nnodes $WORLD_SIZE --node_rank $RANK --master_addr $MASTER_ADDR "
        f"--nproc_per_node $NPROC_PER_NODE -m rltrain --library rsl_rl {ONE_NODE}",
        ("joined as rank 2 of 4",),
    ),
]

OF = {
    "Isaac Lab 2.3, multi-GPU and training pages": ISAAC_LAB_2,
    "Isaac Lab 3, multi-GPU page": ISAAC_LAB_3,
    "Isaac Lab, troubleshooting of NCCL": TROUBLESHOOTING,
    "mjlab, distributed training and README": MJLAB,
    "PAI-DLC": CLUSTERS,
}
LINES = [pytest.param(line, id=f"{origin}: {line.typed}") for origin in OF for line in OF[origin]]


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
    if TORCHRUN in front:
        variables |= {name: str(number) for name, number in place.items()}
        variables |= {"LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": str(node)}
    elif SKRL in front:
        variables |= {f"JAX_{name}": str(number) for name, number in place.items()}
    return variables, shlex.split(words)


@pytest.fixture
def typed(site, capsys, monkeypatch):
    """Run a line with --dry-run appended; return its exit status and its output."""
    site.install("seeds", SUITE)
    monkeypatch.setenv("RLTRAIN_PLUGINS", PLUGINS)

    def type_line(line: str, gpus: int = 0) -> tuple[int, str]:
        def count(*_, **__) -> int:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            return gpus if visible is None else len(visible.split(",")) if visible else 0

        variables, words = started(line)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("rltrain.plan.placement.preflight", count)
        status = main([*words, "--dry-run"])
        out, err = capsys.readouterr()
        return status, out + err

    return type_line


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_works_or_says_what_to_type(typed, line):
    status, printed = typed(line.typed, line.gpus)
    assert status == (0 if line.works else 2), printed
    for text in line.says:
        assert text in printed


@pytest.mark.parametrize("flag", foreign.REFUSED)
def test_a_refused_flag_is_not_one_of_ours(typed, flag):
    status, printed = typed(f"rltrain {flag} 1")
    assert (status, printed) == (2, f"rltrain: {foreign.REFUSED[flag]}\n")


def test_an_unused_variable_is_mentioned(typed, monkeypatch):
    status, printed = typed("TORCHRUNX_LOG_DIR=/tmp/logs uv run rltrain Mjlab-Cartpole-Balance")
    assert status == 0
    assert "TORCHRUNX_LOG_DIR is not used: every rank's log is a file in the run folder" in printed
    # Of joined ranks, only the first prints it.
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert "TORCHRUNX" not in typed("RANK=1 WORLD_SIZE=2 rltrain --distributed")[1]


def test_a_missing_default_library_names_the_installed_ones(typed, monkeypatch):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-torch,rltrain-rsl-rl,rltrain-skrl,seeds")
    status, printed = typed("uv run rltrain Mjlab-Cartpole-Balance --gpu-ids None")
    assert status == 2
    assert "The library 'rl_games' cannot be used: its plugin rltrain-rl-games" in printed
    assert printed.endswith(". Ready: --library rsl_rl or skrl.\n")


def test_arguments_that_are_not_mjlabs_stay_unchanged():
    words = ["--agent-config", "env.x.yaml", "env.x=--1", "--gpu-ids", "0", "--env", "a"]
    assert foreign.translate(words) == words
    assert train.split(["--env.sim.dt", "-0.5", "--seed", "1"]) == (
        ["--seed", "1"],
        ["env.sim.dt=-0.5"],
    )
