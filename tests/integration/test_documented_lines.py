"""Lines from Isaac Lab's and skrl's docs, executed; those of tests/packaging are planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TASK = "--task=rltrain/CartPoleContinuous-v1 --headless --num_envs 16 --max_iterations 2"
NCCL = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_ALGO": "Ring",
}


@pytest.fixture
def typed(command):
    """Type a line into a shell, where this environment is activated."""

    def type_line(line: str) -> subprocess.CompletedProcess[str]:
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        return subprocess.run(
            ["timeout", "--kill-after=10", "200", "bash", "-c", line],
            cwd=command.folder,
            env={**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": str(command.plugins)},
            capture_output=True,
            text=True,
            check=False,
        )

    return type_line


def test_torchrun_takes_the_path_of_the_command(typed, command):
    line = 'python -m torch.distributed.run --nnodes=1 --nproc_per_node=2 "$(command -v rltrain)" '
    run = typed(f"{line} --rl_library=rsl_rl {TASK} --distributed")
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu" in run.stdout, run.stderr
    (manifest,) = command.log_root.rglob("manifest.json")
    assert list(manifest.parent.glob("checkpoints/*"))


def test_variables_before_a_command_reach_every_rank(typed, probe):
    line = "rltrain train_multigpu --rl_library averager --task Idle-v0 --nproc_per_node 2 "
    variables = " ".join(f"{name}={value}" for name, value in NCCL.items())
    run = typed(f"{variables} {line} --device cpu --max_iterations 2")
    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        seen = json.loads((probe.folder / f"seen_{rank}.json").read_text())
        assert (seen["world"]["rank"], seen["world"]["world_size"]) == (rank, 2)
        assert NCCL.items() <= seen["environ"].items()


IDLE = "--rl_library averager --task Idle-v0 --device cpu --max_iterations 2"


@pytest.mark.parametrize(
    ("line", "first"),
    [
        (f"rltrain train_multigpu --nproc_per_node 2 {IDLE}", "1"),
        (f"rltrain train_multigpu --nproc_per_node 2 {IDLE} --ml_framework jax", "1"),
        (
            "torchrun --standalone --nproc_per_node 2 --virtual-local-rank -m rltrain "
            f"--distributed {IDLE}",
            "0",
        ),
    ],
    ids=["train_multigpu", "jax", "torchrun"],
)
def test_ranks_that_are_wanted_are_shown(typed, probe, line, first):
    run = typed(f"{line} --log_dir out --local_ranks_filter 1 --tee 3")
    assert run.returncode == 0, run.stderr
    (manifest,) = probe.log_root.rglob("manifest.json")
    folder = manifest.parent / "logs"
    assert sorted(path.name for path in folder.iterdir()) == ["rank_0.log", "rank_1.log"]
    assert "[rank 1] rank 1 averages" in run.stdout
    assert "[rank 0]" not in run.stdout
    assert "rank 0 averages" in (folder / "rank_0.log").read_text()
    seen = json.loads((probe.folder / "seen_1.json").read_text())
    assert (seen["environ"]["RANK"], seen["environ"]["LOCAL_RANK"]) == ("1", first)
    assert seen["world"]["device"].startswith("cpu")
