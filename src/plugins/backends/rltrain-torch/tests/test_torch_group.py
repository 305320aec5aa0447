"""The process group over real gloo processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SIZE = 2


@pytest.fixture(scope="module")
def ranks():
    """The results of each of two ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name in ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"):
        environ.pop(name, None)
    script = str(Path(__file__).with_name("gloo_ranks.py"))
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(SIZE)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(SIZE)
    ]
    try:
        outputs = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * SIZE, outputs
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


pytestmark = pytest.mark.slow


def test_each_rank_knows_its_place(ranks):
    assert [rank["place"] for rank in ranks] == [[0, 2, "cpu"], [1, 2, "cpu"]]


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_arrays_are_combined_and_equal_on_all_ranks(ranks, kind):
    for rank in ranks:
        assert rank[f"{kind} sum"] == [3.0, -1.0]
        assert rank[f"{kind} mean"] == [1.5, -0.5]
        assert rank[f"{kind} min"] == [1.0, -1.0]
        assert rank[f"{kind} max"] == [2.0, 0.0]
        assert rank[f"{kind} 0-dim"] == 4.0
        assert rank[f"{kind} int"] == [1, 2]


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("src", range(SIZE))
def test_each_rank_can_broadcast(ranks, kind, src):
    assert [rank[f"{kind} broadcast {src}"] for rank in ranks] == [[src * 10]] * SIZE


def test_numpy_arrays_are_not_changed_and_strides_do_not_matter(ranks):
    for rank in ranks:
        assert rank["array after"] == [1.0, 2.0]
        assert rank["strided"] == [[0.0, 4.0], [2.0, 6.0]]


def test_objects_are_exchanged(ranks):
    for rank in ranks:
        assert [rank[f"object {src}"] for src in range(SIZE)] == [{"rank": 0}, {"rank": 1}]
        assert rank["objects"] == [[0], [1, 1]]


def test_it_is_torchs_default_group_until_it_is_closed(ranks):
    for rank in ranks:
        assert rank["default group"] == [2.0, 2, "gloo"]
        assert rank["closed"]


def test_ranks_of_one_machine_meet_over_loopback_and_share_its_cores(ranks):
    cores = len(os.sched_getaffinity(0))
    for rank in ranks:
        assert rank["interface"] == "lo"
        assert rank["threads"] == max(1, cores // SIZE)
