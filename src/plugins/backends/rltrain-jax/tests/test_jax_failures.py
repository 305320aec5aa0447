"""Failing ranks in real processes: no peer waits for them, and every peer learns of it."""

from __future__ import annotations

import signal
import time

import pytest
from jax_processes import ended, started

pytestmark = pytest.mark.slow

SOON = 20.0
"""Seconds: a bound against waiting in jax's exit barrier, 300 s."""


@pytest.mark.parametrize("how", ["raises", "exits"])
@pytest.mark.parametrize("culprit", [0, 1])
def test_a_failing_rank_and_its_peers_exit_at_once(how, culprit):
    results = ended("failing_ranks.py", how, culprit)
    [acted] = [x for x in results[culprit][1].splitlines() if x.startswith("acts at")]
    assert time.time() - float(acted.split()[-1]) < SOON
    assert [code != 0 for code, _, _ in results] == [True, True], results
    code, out, err = results[culprit]
    if how == "exits":
        assert code == 3
    else:
        assert code == 1
        assert "reports error" in out.splitlines()
        assert err.splitlines()[-1] == "LookupError: this is what went wrong"
    if culprit == 1:  # Without rank 0, which hosts jax's coordinator, no rank can say anything.
        code, out, err = results[0]
        assert (code, "reports peer_lost" in out.splitlines()) == (1, True)
        assert "\nConnectionError: Rank 0 lost a peer in all_reduce(sum)" in err


def test_sigterm_ends_a_rank():
    with started("failing_ranks.py", "is stuck", 1) as ranks:
        while not ranks[1].stdout.readline().startswith("acts at"):
            assert ranks[1].poll() is None
        for rank in ranks:
            rank.send_signal(signal.SIGTERM)
        assert [rank.wait(timeout=SOON) for rank in ranks] == [-signal.SIGTERM] * 2
