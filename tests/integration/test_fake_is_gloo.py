"""The fake process group computes what gloo computes, in whole trainings."""

from __future__ import annotations

import pytest
import torch
from observers import RANK_LOCAL

from rltrain.testing import FakeWorld

pytestmark = pytest.mark.slow

LIBRARIES = ["rl_games", "rsl_rl", "skrl"]
ONE_STEP = {
    "rl_games": {"params.config.mini_epochs": 1, "params.config.minibatch_size_per_env": 32},
    "rsl_rl": {"algorithm.num_learning_epochs": 1, "algorithm.num_mini_batches": 1},
    "skrl": {"agent.learning_epochs": 1, "agent.mini_batches": 1},
}
"""Options by which an iteration is one step of the optimizer."""


@pytest.fixture(autouse=True)
def _one_thread_a_process(monkeypatch):
    """Limit real ranks to one thread too: the order of a sum depends on the number of threads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def on_gloo(command, ranks, library, agent, iterations):
    """Return each rank's tensors after a run on real processes."""
    run = command(
        *("--library", library, "--distributed", "--nproc-per-node", str(ranks)),
        *("--num-envs", "8", "--max-iterations", str(iterations), "--observer", "probe"),
        *(f"agent.{key}={value}" for key, value in agent.items()),
    )
    assert run.returncode == 0, run.stderr
    files = [command.folder / f"state_{rank}.pt" for rank in range(ranks)]
    return [torch.load(path, weights_only=True) for path in files]


def on_fake(folder, ranks, library, agent, iterations):
    """Return each rank's tensors after the same run on a fake world, and its trace."""
    world = FakeWorld(ranks, rank_local=RANK_LOCAL.get(library, ()))
    runs = world.train(
        library=library,
        num_envs=8,
        max_iterations=iterations,
        agent=agent,
        log_root=str(folder / "fake"),
    )
    return [run.state() for run in runs], world.trace


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_ranks_end_with_the_same_bytes(command, tmp_path, library):
    real = on_gloo(command, 2, library, {}, 3)
    fake, _ = on_fake(tmp_path, 2, library, {}, 3)
    for state, expected in zip(fake, real, strict=True):
        assert state.keys() == expected.keys()
        assert not [name for name in state if not torch.equal(state[name], expected[name])]


@pytest.mark.parametrize("library", LIBRARIES)
def test_four_ranks_make_the_same_first_step(command, tmp_path, library):
    """Not the same bytes: gloo does not add up four numbers in the order of ranks."""
    real = on_gloo(command, 4, library, ONE_STEP[library], 1)
    fake, trace = on_fake(tmp_path, 4, library, ONE_STEP[library], 1)
    assert len([item for item in trace if item.callers[0].endswith(" in reduce")]) == 1
    for state, expected in zip(fake, real, strict=True):
        assert state.keys() == expected.keys()
        for name in state:
            torch.testing.assert_close(state[name], expected[name], rtol=1e-5, atol=1e-5)
