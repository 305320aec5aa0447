"""Commands from Isaac Lab's, mjlab's and skrl's docs, with only the script replaced.

Those that rltrain refuses are in `messages`. The tasks are those of the
docs, known by name; the libraries are the real ones; the number of GPUs is made up.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from typed_lines import PLUGINS, SKRL, TORCHRUN, started

from rltrain.builtin.plugin import TRAIN
from rltrain.cli import dialects, train
from rltrain.cli.main import command_of
from rltrain.cli.parser import parse

LIBRARIES = ("rl_games", "rsl_rl", "skrl")


class Line(NamedTuple):
    typed: str
    says: tuple[str, ...]
    """What the plan says."""


ONE_NODE = "--task=Isaac-Cartpole-v0 --headless --distributed"
PAI_DLC = "WORLD_SIZE=2 RANK=1 MASTER_ADDR=dlc-0 MASTER_PORT=23456 NPROC_PER_NODE=2"

ISAAC_LAB_2 = [
    *(
        Line(
            f"{TORCHRUN} --nnodes=1 --nproc_per_node=2 {script} {flag}={library} {ONE_NODE}",
            (f"{library}, ppo, on torch", "joined as rank 0 of 2, on cuda:0", "nccl"),
        )
        for library in LIBRARIES
        for script, flag in (("-m rltrain", "--library"), ("$(command -v rltrain)", "--rl_library"))
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
        "rltrain --nproc_per_node=2 --nnodes=1:4 --max_restarts=3 --rdzv_id=123 "
        f"--rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:5555 --library=rl_games {ONE_NODE}",
        (
            "-m torch.distributed.run --rdzv-backend=c10d --nproc-per-node=2 --nnodes=1:4 "
            "--rdzv-endpoint=10.0.0.1:5555 --rdzv-id=123 --max-restarts=3 -m rltrain train "
            "--library=rl_games",
            "--auto-resume --run-name 123 --distributed",
        ),
    ),
    Line(
        "rltrain --nproc_per_node=2 --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 "
        f"--master_port=5555 --library=rsl_rl {ONE_NODE}",
        ("2 on this node, started by processes; node 1 of 2",),
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
    Line(
        "./isaaclab.sh -p -m rltrain --library rsl_rl --task Isaac-Cartpole-v0 "
        "--agent rsl_rl_cfg_entry_point",
        ("rsl_rl, ppo, on torch",),
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
            (f"{library}, ppo, on torch", "2 on this node, started by processes"),
        )
        for command, library in zip(
            ("train_multigpu", "train-multigpu", "train_multigpu"), LIBRARIES, strict=True
        )
    ),
    Line(
        "GPUS=4 uv run rltrain train_multigpu --rl_library rsl_rl --num_gpus 4 "
        "--task Isaac-Cartpole --num_envs 4096 --max_iterations 100",
        ("4 on this node", "4096 a rank, 16384 in all", "iterations    100"),
    ),
    *(
        Line(
            f"GPUS=3 uv run rltrain train_multigpu --num_gpus {word} --task Isaac-Cartpole",
            ("rsl_rl, ppo", "3 on this node, started by processes"),
        )
        for word in ("gpu", "auto")
    ),
    *(
        Line(
            f"uv run rltrain train_multigpu --rl_library {library} --num_gpus 2 "
            f"--task Isaac-Cartpole {flag}",
            says,
        )
        for library in ("rsl_rl", "skrl --ml_framework jax")
        for flag, says in (
            ("--log_all_ranks", ("shown ranks   all",)),
            ("--local_ranks_filter 0", ("shown ranks   0 of this node",)),
            ("--local_ranks_filter 0,1", ("shown ranks   0, 1 of this node",)),
            ("--log_dir out", ("--log-dir out: not used; the ranks' logs are in the run folder",)),
            ("--standalone", ("2 on this node",)),
            ("--rdzv_conf join_timeout=600", ("2 on this node",)),
            ("--tee 3", ("--tee 3: everything that a rank prints is in its log",)),
            ("-t 0:1,1:3 -r 3", ("--tee 0:1,1:3: everything", "--redirects 3: everything")),
            ("--monitor_interval 5", ("--monitor-interval 5: not used; a failed rank",)),
            ("--start_method spawn", ("--start-method spawn: not used, nor by torchrun",)),
            ("--local_addr 10.0.0.2", ("--local-addr 10.0.0.2: not used; a node's address",)),
            ("--role trainer", ("--role trainer: not used; all ranks have the same role.",)),
        )
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
            (f"2 on this node, started by processes; node {node} of 2",),
        )
        for node in (0, 1)
    ),
    Line(
        "uv run rltrain train_multigpu --num_gpus 2 -- --task Isaac-Cartpole physics=newton_mjwarp",
        ("2 on this node", "physics: newton_mjwarp"),
    ),
]

BALANCE = "rltrain Mjlab-Cartpole-Balance"
MJLAB = [
    Line(f"uv run {BALANCE}", ("Mjlab-Cartpole-Balance", "one process, on cuda:0")),
    Line("uv run rltrain train Mjlab-Cartpole-Balance --gpu-ids 0", ("one process, on cuda:0",)),
    Line(f"uv run {BALANCE} --gpu-ids 0 1", ("2 on this node",)),
    Line(f"uv run {BALANCE} --gpu-ids '[0, 1]' --library rsl_rl", ("2 on this node", "rsl_rl")),
    Line(f"GPUS=3 uv run {BALANCE} --gpu-ids all", ("3 on this node",)),
    Line(f"uv run {BALANCE} --gpu-ids None", ("one process, on cpu",)),
    Line(f"CUDA_VISIBLE_DEVICES= uv run {BALANCE}", ("one process, on cpu",)),
    Line(f"GPUS=4 CUDA_VISIBLE_DEVICES=2,3 uv run {BALANCE} --gpu-ids 0 1", ("2 on this node",)),
    Line(
        f"TORCHRUNX_LOG_DIR=out uv run {BALANCE} --gpu-ids 0 1 --torchrunx-log-dir ''",
        ("--log-dir : not used",),
    ),
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
    # A tuple's values, as tyro takes them.
    Line(
        f"uv run {BALANCE} --library rsl_rl --dry-run --agent.actor.hidden-dims 64 32 --dry-run "
        "--env.presets left right agent.seed=3 --env.frame-skip 4 --agent.resume False "
        "--agent.upload-model=False",
        ("hidden_dims:\n    - 64\n    - 32\n", "presets:\n  - left\n  - right\n", "frame_skip: 4"),
    ),
    Line(f"uv run {BALANCE} --library rsl_rl --no-terminations False", ("observers     none",)),
    Line("rltrain balance", ("balance (continuous actions)",)),
]

CLUSTERS = [
    Line(
        f"{PAI_DLC} rltrain --library rsl_rl --task Isaac-Cartpole-v0 --distributed",
        (
            "2 on this node, started by processes",
            "node 1 of 2, as pytorchjob says, meeting at dlc-0:23456",
        ),
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
    "mjlab, distributed training and README": MJLAB,
    "PAI-DLC": CLUSTERS,
}
LINES = [pytest.param(line, id=f"{origin}: {line.typed}") for origin in OF for line in OF[origin]]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_works(typed, line):
    status, printed = typed(line.typed)
    assert status == 0, printed
    for text in line.says:
        assert text in printed


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("--frontend torch --seed 1", "--seed 1"),
        ("--frontend=torch", ""),
        ("--disable_fabric", "env.sim.use_fabric=false"),
        ("--train_env_cfg", "env.play=false"),
        ("--use_last_checkpoint", "--checkpoint=latest"),
        ("--resume_optimizer_state", ""),
        ("--checkpoint best", "--checkpoint best"),
        ("--viz viser,rerun --seed 1", "env.viz=viser,rerun --seed 1"),
        ("--visualizer=none", "env.viz=none"),
    ],
)
def test_a_flag_of_isaac_lab_is_translated(theirs, ours):
    assert dialects.translate(theirs.split()) == ours.split()


HANDED_OVER = ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id")
"""Flags with which torchrun starts a run in rltrain's place; other commands refuse them."""


@pytest.mark.slow
@pytest.mark.parametrize("flag", sorted({*dialects.refused(TRAIN)} - {*HANDED_OVER}))
def test_a_refused_flag_is_not_one_of_ours(typed, flag):
    status, printed = typed(f"rltrain {flag} 1")
    assert (status, printed) == (2, f"rltrain: {dialects.refused(TRAIN)[flag]}\n")


def test_an_empty_folder_for_logs_is_none(typed):
    status, printed = typed(f"TORCHRUNX_LOG_DIR= uv run {BALANCE}")
    assert (status, "rank logs" in printed) == (0, False)


def test_train_multigpu_takes_the_library_of_a_file(typed, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("library: skrl\n")
    line = "rltrain train_multigpu --task Isaac-Cartpole"
    assert "rsl_rl, ppo" in typed(line)[1]
    config = f"--config {shlex.quote(str(file))}"
    assert "skrl, ppo" in typed(f"{line} {config}")[1]
    assert "rl_games, ppo" in typed(f"{line} {config} --rl_library rl_games")[1]


def test_a_missing_default_library_names_the_installed_ones(typed, monkeypatch):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-torch,rltrain-rsl-rl,rltrain-skrl,seeds")
    status, printed = typed("uv run rltrain balance --gpu-ids None")
    assert status == 2
    assert "The library 'rl_games' cannot be used: its plugin rltrain-rl-games" in printed
    assert printed.endswith(". Ready: --library rsl_rl or skrl.\n")


def test_arguments_that_are_not_mjlabs_stay_unchanged():
    words = ["--agent-config", "env.x.yaml", "env.x=--1", "--gpu-ids", "0", "--env", "a"]
    assert dialects.translate(words) == words
    assert dialects.translate(["--agent.dims", "6", "4", "x"]) == ["agent.dims=[6,4]", "x"]
    assert train.separate(["--env.dt", "-.5", "--seed", "1"]) == (["--seed", "1"], ["env.dt=-.5"])


# The page "Coming from Isaac Lab, mjlab, skrl or torchrun": each line of theirs, with the script
# replaced as the page says, gives the same plan as ours.

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "coming-from.md").read_text()


def pairs(header: str) -> list[tuple[str, str]]:
    found = re.findall(rf"^\| {header} \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in found for row in table.splitlines()]
    return [re.fullmatch(r"\| `([^`]*)` \| `([^`]*)` \|", row).groups() for row in rows]


RULES = pairs(r"in place of \| type")
COMMANDS = pairs(r".* \| rltrain")


def replaced(line: str) -> str:
    for script, ours in RULES:
        line = line.replace(script, ours)
    return line


def plan(printed: str) -> dict[str, str]:
    """Return the plan's lines by name, with the options, and without who starts the ranks."""
    table, options = printed[printed.index("library ") :].split("\n\n", 1)
    rows = dict(line.split(maxsplit=1) for line in table.splitlines())
    del rows["ranks"]
    # A rank that was started has them from its launcher; and it is typed in other words.
    for name in ("GPUs", "set"):
        rows.pop(name, None)
    return {**rows, "options of library and task": options.partition("\n\nNothing")[0]}


@pytest.mark.slow
@pytest.mark.parametrize(("theirs", "ours"), COMMANDS, ids=[theirs for theirs, _ in COMMANDS])
def test_their_command_gives_the_plan_of_ours(typed, theirs, ours):
    assert replaced(theirs) != theirs
    (status, of_theirs), (also, of_ours) = typed(replaced(theirs)), typed(ours)
    assert (status, also) == (0, 0), of_theirs + of_ours
    assert plan(of_theirs) == plan(of_ours)
    assert ours.startswith("rltrain") or "=" in ours.split()[0]


def test_the_page_has_commands_of_all_four():
    assert len(RULES) == 8
    for word in ("isaaclab train_multigpu", "uv run train", "skrl.utils", "torch.distributed.run"):
        assert any(word in theirs for theirs, _ in COMMANDS)


# Every page: what it tells to type exists, its runs are planned, and its imports are found.

ROOT = DOCS.parent
PLACES = ("[!C]*.md", "CONTRIBUTING.md", "docs/**/*.md", "src/*/*/*/README.md", "examples/*/*.md")
PAGES = [path for place in PLACES for path in ROOT.glob(place)]
SHOWN = re.compile(r"(?:^ {4}.*\n)+|^ *```(?:sh|text|py|python)\n[\s\S]*?^ *```", re.MULTILINE)
PYTHON = re.compile(r" *```py(?:thon)?\n| {4}(?:import|from|def|class|@)\b")
COMMAND = re.compile(
    r"(?m)^ *(?:\$ )?((?:[A-Z_]+=\S* )*(?:rltrain|pip|make|python|torchrun|srun|mpirun|mpiexec) "
    r"(?:.*\\\n)*.*)"
)
INLINE = re.compile(r"`((?:rltrain|pip) (?!\w+`)[^`\n]+|make [^`\n]+)`")
EXTRAS = {"rltrain-pocketrl": {"test"}}  # A page makes it.
for place in (".", "src/*/*/*", "examples/*"):
    for path in ROOT.glob(f"{place}/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        EXTRAS[project["name"]] = {*project.get("optional-dependencies", ())}
TARGETS = {name.replace("rltrain", "test") for name in EXTRAS}
for names in re.findall(r"^([\w .-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE):
    TARGETS |= {*names.split()}
NOT_HERE = re.compile(  # Files, runs, simulators, and what a page makes: a reader has them.
    r"--(agent-config|checkpoint|config) \S+: (there is no|No) such file|--\w+ latest: no "
    r"|the module '(my_tasks|my_grids|seen|robot_lab\.tasks)' cannot be imported|task 'NAME'"
    r"|Unknown (library|gradient sync|writer) '(pocketrl|sb3|jax_ppo|fp16|webhook|csv)'"
    r"|suite seeds does not render|Isaac-Cartpole has no such option"
)


def typed_on(page: Path, *, ours: bool) -> list[str]:
    text = page.read_text()
    shown = "".join(block for block in SHOWN.findall(text) if not PYTHON.match(block))
    lines = [*COMMAND.findall(shown), *INLINE.findall(text)]
    lines = [re.sub(r"\$(n|seed)\b", "2", x.replace("\\\n", "").split("  #")[0]) for x in lines]
    lines = [x for x in lines if not re.search(r"\.\.\.|--help|rltrain newest", x)]  # A page's own.
    return [x for x in lines if ours == ("rltrain " in x and x[:4] not in ("pip ", "make"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_types_and_imports_exists(page):
    for line in typed_on(page, ours=False):
        targets = {word for word in line.split()[1:] if "=" not in word}
        assert not line.startswith("make ") or targets <= TARGETS, line
        for script in re.findall(r"^python ([\w/-]+\.py)", line):
            assert any((folder / script).exists() for folder in (ROOT, page.parent)), line
        for name, extras in re.findall(r"\b(rltrain-[\w-]+|rltrain(?=\[))(?:\[(.*?)\])?", line):
            assert {*filter(None, extras.split(","))} <= EXTRAS[name], line
    for line in typed_on(page, ours=True):
        if "--rdzv" not in line:  # Those are torchrun's.
            name, loaded, words = command_of(started(line)[1])
            parse(loaded, name, words)
    for block in filter(PYTHON.match, SHOWN.findall(page.read_text())):
        source = textwrap.dedent(re.sub(r"^ *```.*\n?", "", block, flags=re.MULTILINE))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and re.match("rltrain(?!_pocketrl)", node.module):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, each.name) for each in node.names), ast.unparse(node)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_run_that_a_page_shows_can_be_planned(typed, monkeypatch, page):
    more = "rltrain-envpool,rltrain-playground,rltrain-ray,rltrain-slurm,rltrain-writers"
    monkeypatch.setenv("RLTRAIN_PLUGINS", f"{PLUGINS},{more}")
    for line in typed_on(page, ours=True):
        if command_of(started(line)[1])[1].spec is TRAIN:
            status, printed = typed(f"GPUS=8 {line}")
            assert status == 0 or NOT_HERE.search(printed), f"{line}: {printed}"
