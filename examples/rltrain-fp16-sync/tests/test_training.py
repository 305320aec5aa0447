"""The shipped libraries train with it, on the ranks of a fake world."""

from __future__ import annotations

import pytest
import torch

from rltrain.testing import FakeWorld

SYNCS = ("rltrain_torch/gradients.py", "rltrain_fp16_sync/sync.py")
"""The files that average gradients."""


def train(tmp_path, library, grad_sync):
    world = FakeWorld(2)
    runs = world.train(
        library=library,
        grad_sync=grad_sync,
        num_envs=16,
        max_iterations=2,
        log_root=str(tmp_path / grad_sync),
    )
    parameters = [
        torch.cat([p.flatten() for model in run.models.values() for p in model.parameters()])
        for run in runs
    ]
    syncs = [x for x in world.trace if x.callers[0].split(":")[0].endswith(SYNCS) and x.bytes > 8]
    return parameters, syncs


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl"])
def test_ranks_end_equal_for_half_the_bytes(tmp_path, library):
    pytest.importorskip(library)
    (ours, others), halves = train(tmp_path, library, "fp16")
    assert torch.equal(ours, others)
    (reference, _), whole = train(tmp_path, library, "flat")
    assert whole
    assert len(halves) == len(whole)
    assert sum(x.bytes for x in halves) == pytest.approx(sum(x.bytes for x in whole) / 2, rel=1e-2)
    # Close to training with full-precision gradients, but not equal, which shows that it was used.
    assert 0 < (ours - reference).abs().max() < 0.1


def test_a_resumed_run_restores_the_kept_errors(tmp_path):
    pytest.importorskip("rsl_rl")

    def run(folder, iterations, **more):
        runs = FakeWorld(2).train(
            library="rsl_rl",
            grad_sync="fp16",
            num_envs=16,
            max_iterations=iterations,
            log_root=str(tmp_path / folder),
            **more,
        )
        return runs[0]

    whole = run("whole", 4).state()
    stopped = run("stopped", 2).result.checkpoint
    resumed = run("resumed", 4, checkpoint=stopped).state()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
