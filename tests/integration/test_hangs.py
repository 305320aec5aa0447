"""A rank that hangs is named, with the line in which it stands, and the run ends."""

from __future__ import annotations

import pytest
from test_failures import SLOW, TWO_RANKS
from test_jax_failures import JAX

pytestmark = pytest.mark.slow

TIMEOUT = ("--hang-timeout", "3")
LIMIT = 60
TORCHRUN = ("torch.distributed.run", "--nproc-per-node", "2", "-m", "rltrain")


def test_a_rank_that_sleeps_is_named_with_its_line(command):
    run = command(*TWO_RANKS, *TIMEOUT, PLANTED="1:400:hang")
    assert run.returncode == 1
    first, second, third = run.stderr.splitlines()[-3:]
    assert first.startswith("rltrain: Rank 1 hangs, without progress for")
    assert "rank 1 sleeps while stepping the environment" in first
    assert "probe_plugin.py:" in first
    assert first.endswith("in step.")
    assert second.startswith("  rank 0 waits in collective")
    stacks = run.folder / "logs" / "hang.txt"
    assert third == f"The stacks of all threads: {stacks}"
    assert "== rank 0\n" in stacks.read_text()
    assert "== rank 1\n" in stacks.read_text()


def test_a_rank_of_jax_is_named_too(probe):
    process = probe.start(*JAX, *TIMEOUT, PLANTED="1:200:hang")
    run = probe.finish(process, timeout=LIMIT)
    assert run.returncode == 1
    assert "rltrain: Rank 1 hangs, without progress for" in run.stderr
    assert "ranks_probe.py:" in run.stderr
    assert probe.all_gone(process)


@pytest.mark.parametrize("joins", [False, True])
def test_a_stopped_rank_is_told_apart(command, joins):
    line = [*SLOW, "--distributed"] if joins else TWO_RANKS
    launcher = TORCHRUN if joins else ()
    process = command.start(*line, *TIMEOUT, launcher=launcher, PLANTED="1:400:stop")
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == 1
    said = run.stdout + run.stderr
    assert "rltrain: Rank 1 hangs, without progress for" in said
    assert "rank 1 is stopped (SIGSTOP, or a debugger) while" in said
    assert command.all_gone(process)


def test_a_single_process_that_hangs_ends_itself(command):
    run = command(*SLOW, *TIMEOUT, PLANTED="0:400:hang", RANK="0")
    assert run.returncode == 1
    assert "rltrain: Rank 0 hangs, without progress for" in run.stdout
    assert "in step." in run.stdout


@pytest.mark.parametrize(("ranks", "words"), [(1, []), (1, ["--json"]), (2, [])])
def test_an_evaluation_that_hangs_is_named_and_ends(command, ranks, words):
    trained = command(*SLOW, "--num-envs", "2", "--max-iterations", "1")
    assert trained.returncode == 0, trained.stderr
    place = ("--distributed", "--nproc-per-node", "2", "--device", "cpu") if ranks == 2 else ()
    evaluate = ("evaluate", str(trained.folder), *SLOW[:4], "--episodes", "40", *place, *words)
    planted = {"PLANTED": f"{ranks - 1}:30:hang", **({"RANK": "0"} if ranks == 1 else {})}
    process = command.start(*evaluate, *TIMEOUT, **planted)
    run = command.finish(process, timeout=LIMIT)
    assert run.returncode == 1, run.stderr
    said = run.stdout + run.stderr
    assert f"rltrain: Rank {ranks - 1} hangs, without progress for" in said
    assert f"rank {ranks - 1} sleeps while playing episodes, at " in said
    assert "in step." in said
    assert command.all_gone(process)
