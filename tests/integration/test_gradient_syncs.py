"""Gradient syncs other than the default one, with every library, on the ranks of a fake world."""

from __future__ import annotations

import pytest
import torch
from observers import RANK_LOCAL

from rltrain.testing import FakeWorld

LIBRARIES = ["rl_games", "rsl_rl", "skrl"]


@pytest.fixture
def train(tmp_path):
    """Train, and return rank 0's parameters, rank 1's, the trace and the newest checkpoint."""

    def run(library, grad_sync, iterations=2, folder="run", **more):
        agent = {"agent.learning_rate_scheduler": "KLAdaptiveLR"} if library == "skrl" else {}
        world = FakeWorld(2, rank_local=RANK_LOCAL.get(library, ()))
        runs = world.train(
            library=library,
            grad_sync=grad_sync,
            num_envs=16,
            max_iterations=iterations,
            agent=agent,
            log_root=str(tmp_path / folder),
            **more,
        )
        return *(run.state() for run in runs), world.trace, runs[0].result.checkpoint

    return run


def distance(some, others):
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_end_equal_after_half_the_bytes(train, library):
    ours, others, trace, _ = train(library, "bf16")
    assert all(torch.equal(ours[name], others[name]) for name in ours)
    exact, _, whole, _ = train(library, "flat", folder="exact")
    sent, usual = (
        max(x.bytes for x in each if x.op == "all_reduce(sum)") for each in (trace, whole)
    )
    assert sent == pytest.approx(usual / 2, rel=1e-2)
    # Close to the exact gradients, but not equal, which shows that it was used.
    assert 0 < distance(ours, exact) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_resumed_run_goes_on_with_what_was_rounded_off(train, library):
    whole, *_ = train(library, "bf16", 4, "whole")
    *_, checkpoint = train(library, "bf16", 2, "stopped")
    resumed, *_ = train(library, "bf16", 4, "resumed", checkpoint=checkpoint)
    assert distance(whole, resumed) == 0
