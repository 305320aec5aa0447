"""jax's ranks form one run with any launcher, without torch, and one that fails ends all."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from helpers import free_port, wait_for

pytestmark = pytest.mark.slow

JAX = ["--library", "averager", "--task", "Idle-v0", "--framework", "jax", "--device", "cpu"]
RUN = [*JAX, "--distributed", "--max-iterations", "3"]
SCRIPT = str(Path(sys.executable).with_name("rltrain"))


def seen(probe, rank: int) -> dict:
    return json.loads((probe.folder / f"seen_{rank}.json").read_text())


def test_one_command_starts_ranks_of_jax_alone(probe):
    """Simulates a machine without torch: it is installed, but cannot be imported."""
    (probe.plugins / "torch.py").write_text("raise ImportError('there is no torch here')\n")
    run = probe(*RUN, "--nproc-per-node", "2")
    assert run.returncode == 0, run.stderr
    assert "2 ranks on cpu" in run.stdout
    for rank in (0, 1):
        one = seen(probe, rank)
        assert (one["world"]["rank"], one["world"]["world_size"]) == (rank, 2)
        assert one["kind"] == "JaxProcessGroup"
        assert one["frameworks"] == ["jax"]


def test_one_rank_alone_needs_no_launcher(probe):
    run = probe(*[word for word in RUN if word != "--distributed"])
    assert run.returncode == 0, run.stderr
    assert seen(probe, 0)["frameworks"] == ["jax"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_two_nodes_are_one_run(probe, host, monkeypatch):
    """Without the proxy, although there is one: nobody answers there."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    address = f"{host}:{free_port(host.strip('[]'))}"
    nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--coordinator-address", address]
    second = probe.start(*RUN, *nodes, "--node-rank", "1")
    first = probe(*RUN, *nodes, "--node-rank", "0")
    assert first.returncode == 0, first.stderr
    assert probe.finish(second).returncode == 0
    places = [seen(probe, rank)["world"] for rank in (0, 1)]
    assert [place["node_rank"] for place in places] == [0, 1]
    assert {place["num_nodes"] for place in places} == {2}


def test_torchruns_ranks_are_joined(probe):
    torchrun = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")
    run = probe(*RUN, launcher=torchrun)
    assert run.returncode == 0, run.stderr
    assert [seen(probe, rank)["world"]["rank"] for rank in (0, 1)] == [0, 1]


def skrls_launcher(*more: str) -> tuple[str, ...]:
    pytest.importorskip("skrl")
    address = f"127.0.0.1:{free_port()}"
    launcher = ("skrl.utils.distributed.jax", "--nproc-per-node=2")
    return (*launcher, f"--coordinator-address={address}", SCRIPT, *more)


def test_ranks_of_skrls_launcher_are_joined(probe):
    run = probe(*RUN, launcher=skrls_launcher())
    assert "2 ranks on cpu" in run.stdout, run.stderr
    for rank in (0, 1):
        one = seen(probe, rank)
        assert (one["world"]["rank"], one["world"]["world_size"]) == (rank, 2)
        assert one["environ"]["RANK"] == str(rank)
    assert len(list(run.log_root.rglob("manifest.json"))) == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "ValueError: planted in one rank"),
        ("kill", "ConnectionError: Rank 0 lost a peer in "),
        ("hang", "rltrain: Rank 1 hangs, without progress for"),
    ],
)
def test_a_failed_rank_of_skrls_launcher_blocks_no_other(probe, how, words):
    line = [*RUN[:-1], "100000", "--hang-timeout", "3"]
    process = probe.start(*line, launcher=skrls_launcher(), PLANTED=f"1:20:{how}")
    run = probe.finish(process, timeout=60)
    assert words in run.stdout + run.stderr
    assert probe.all_gone(process)


LONG = [*RUN[:-1], "100000", "--launcher", "processes", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("rank", "how", "code"),
    # Rank 0 hosts jax's coordinator; without it, its peers exit too.
    [(0, "raise", 1), (1, "raise", 1), (0, "exit", 3), (1, "exit", 3), (0, "kill", 137)],
)
def test_a_rank_that_fails_ends_the_run_with_its_code(probe, rank, how, code):
    process = probe.start(*LONG, PLANTED=f"{rank}:20:{how}")
    run = probe.finish(process)
    assert time.time() - float((probe.folder / "planted").read_text()) < 15
    assert run.returncode == code, run.stderr
    assert f"Rank {rank} " in run.stderr
    if how == "raise":
        assert run.stderr.rstrip().endswith("ValueError: planted in one rank")
    assert probe.all_gone(process)


def test_ctrl_c_while_ranks_begin_shows_no_traceback(probe):
    process = probe.start(*LONG)
    wait_for(lambda: len(probe.members(process)) >= 4)  # And the tracker.
    os.killpg(process.pid, signal.SIGINT)
    run = probe.finish(process, timeout=15)
    assert run.returncode == 130
    assert "Traceback" not in run.stderr
    assert probe.all_gone(process)


TWO_RANKS = ["--library", "skrl", "--framework", "jax", "--distributed", "--nproc-per-node", "2"]

TIMEOUT = 400
"""Seconds: programs are compiled on each of the ranks, which share the processor's cores."""


def finished(command, *arguments):
    run = command.finish(command.start(*TWO_RANKS, *arguments), timeout=TIMEOUT)
    assert run.returncode == 0, run.stderr
    return run


@pytest.mark.slow(turns=1)
def test_two_ranks_train_stay_equal_and_resume(command):
    short = ["agent.agent.rollouts=4", "agent.agent.mini_batches=2", "--num-envs", "16"]
    checked = [*short, "--check-interval", "1"]
    (saved,) = finished(command, *checked, "--max-iterations", "2").checkpoints()[-1:]
    assert saved.name == "agent_8.pickle"
    output = finished(command, *checked, "--max-iterations", "3", "--checkpoint", str(saved)).stdout
    assert "3/3" in output


def test_two_ranks_learn_the_default_task(command):
    assert "solved" in finished(command, "--target-return", "475").stdout


def test_nothing_is_compiled_after_the_second_iteration(command):
    short = ["agent.agent.rollouts=4", "agent.agent.mini_batches=2", "--num-envs", "16"]
    compiled = []
    for iterations in (2, 4):
        asked = [*TWO_RANKS, *short, "--max-iterations", str(iterations)]
        started = command.start(*asked, JAX_LOG_COMPILES="1")
        assert command.finish(started, timeout=TIMEOUT).returncode == 0
        logs = "".join(path.read_text() for path in command.log_root.rglob("rank_?.log"))
        compiled.append(logs.count("Compiling ") - sum(compiled))
    assert compiled[0]
    assert compiled[1] == compiled[0], "a longer run compiles what a short one does"
