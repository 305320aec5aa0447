"""Several ranks on one GPU over NCCL: the real backend, in all that a run goes through.

On the CPU (see conftest.py) the ranks meet over gloo.
"""

from __future__ import annotations

import json

import pytest
from claims import of_each_algorithm
from gloo_runs import gloo_run
from helpers import free_port, wait_for
from judged import TOLERANCE, check_as_one
from on_device import KIND, LIBRARIES, SHARING, command, differing, started_in, tensors
from shard_runs import Again, prepared, whole_run

pytestmark = pytest.mark.usefixtures("nccl_shares")

DEVICE = "cpu" if KIND == "cpu" else "cuda:0"
WHERE = {"device": "cpu"} if KIND == "cpu" else {"backend": "nccl", "gpu_ids": [0]}
TWO = (*SHARING, "--nproc-per-node", "2")
EVERY = ("--checkpoint-interval", "1")


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("claim", of_each_algorithm(), ids=str)
def test_ranks_learn_as_one(claim, ranks, tmp_path):
    claim = prepared(claim, tmp_path)
    one = whole_run(claim, ranks, tmp_path, DEVICE)
    # A GPU adds in another order for another number of rows.
    tolerance = TOLERANCE if KIND == "cpu" else 20 * TOLERANCE
    again = Again(claim, ranks, tmp_path, DEVICE)
    check_as_one(gloo_run(claim, ranks, tmp_path, WHERE), one, tolerance, again)


@pytest.mark.parametrize("library", LIBRARIES)
def test_gradients_are_averaged_on_streams(library, tmp_path):
    run = command(library, tmp_path, *TWO, "--grad-sync", "bf16")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_killed_rank_is_named_and_a_resumed_run_ends_as_if_it_had_not_been(tmp_path):
    whole, killed, again = (tmp_path / name for name in ("whole", "killed", "restarted"))
    for folder in (whole, killed, again):
        folder.mkdir()
    run = command("rsl_rl", whole, *TWO, *EVERY)
    assert run.returncode == 0, run.stdout + run.stderr
    run = command("rsl_rl", killed, *TWO, *EVERY, PLANTED="kill:20")
    assert run.returncode == 137, run.stdout + run.stderr
    assert "Rank 1 was killed by SIGKILL" in run.stderr
    run = command("rsl_rl", killed, *TWO, *EVERY, "--checkpoint", "latest")
    assert run.returncode == 0, run.stdout + run.stderr
    run = command("rsl_rl", again, *TWO, *EVERY, "--max-restarts", "1", PLANTED="kill:20")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "restart 1 of 1: rank 1 was killed by SIGKILL" in run.stdout
    expected = tensors(last_checkpoint(whole))
    assert differing(expected, tensors(last_checkpoint(killed))) == []
    assert differing(expected, tensors(last_checkpoint(again))) == []


def last_checkpoint(folder):
    return str(
        max(folder.glob("logs/*/*/*/checkpoints/*.pt*"), key=lambda path: path.stat().st_mtime)
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_checkpoint_of_two_ranks_goes_on_as_one_process_on_the_cpu(library, tmp_path):
    run = command(library, tmp_path, *TWO)
    assert run.returncode == 0, run.stdout + run.stderr
    checkpoint = ("--checkpoint", last_checkpoint(tmp_path), "--max-iterations", "4")
    run = command(library, tmp_path, "--device", "cpu", "--nproc-per-node", "1", *checkpoint)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "iteration 4/4" in run.stdout


def test_a_node_joins_a_running_one_on_the_same_gpu(tmp_path):
    """By torch's elastic agents; each node has one rank, and both nodes are this machine."""
    port = free_port()
    words = ("--library", "rsl_rl", "--distributed", *SHARING, "--nproc-per-node", "1")
    words = (*words, "--nnodes", "1:2", "--rdzv-id", "x", "--rdzv-endpoint", f"127.0.0.1:{port}")
    words = (*words, "--num-envs", "16", "--max-iterations", "150", "--max-restarts", "1", *EVERY)
    words = (*words, "--log-root", str(tmp_path / "logs"), "agent.num_steps_per_env=64")
    # They are on one GPU although each node believes to have its own.
    allowed = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    nodes = [started_in(tmp_path, *words, **allowed)]
    try:
        saved = lambda: list(tmp_path.glob("logs/*/*/*/checkpoints.json"))  # noqa: E731
        wait_for(saved, 120, process=nodes[0], what="the first node did not train alone")
        nodes.append(started_in(tmp_path, *words, **allowed))
        ends = [node.communicate(timeout=200) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], ends
    sizes = [
        json.loads(p.read_text())["world_size"] for p in tmp_path.glob("logs/*/*/*/manifest.json")
    ]
    assert sorted(sizes) == [1, 2]
