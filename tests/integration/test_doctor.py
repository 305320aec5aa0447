"""`rltrain doctor` with real ranks: its report is correct."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

TORCHRUN = ("torch.distributed.run", "--nproc_per_node", "2", "-m", "rltrain")


@pytest.mark.parametrize(
    ("words", "launcher", "how"),
    [
        (["--nproc-per-node", "2"], (), "2 on gloo, started by processes"),
        (["--framework", "jax", "--nproc-per-node", "2"], (), "2 on jax, started by processes"),
        ([], TORCHRUN, "2 on gloo, joined"),
    ],
    ids=["processes", "jax", "torchrun"],
)
def test_two_ranks_meet_and_are_measured(command, words, launcher, how):
    run = command("doctor", "--json", "--timeout", "120", *words, launcher=launcher)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)  # Printed once: one rank reports for its node.
    assert report["status"] == "ok"
    found = report["sections"]["ranks"][0]
    assert found["text"].startswith(how)
    assert [rank["right"] for rank in found["result"]["ranks"]] == [True, True]
    assert 0 < found["result"]["latency_ms"] < found["result"]["large_ms"]
