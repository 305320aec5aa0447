"""An interrupted and resumed run equals the uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from skrl_fakes import PLACE

from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import FakeWorld

pytestmark = pytest.mark.slow

STEP = {
    "agent.learning_rate_scheduler": "__import__('torch').optim.lr_scheduler.StepLR",
    "+agent.learning_rate_scheduler_kwargs": {"step_size": 3, "gamma": 0.9},
}
KL = {"agent.learning_rate_scheduler": "KLAdaptiveLR"}


TASK = "rltrain/Pendulum-v1"
"""Its default options have no learning-rate schedule."""


def train(train_ranks, iterations, checkpoint=None, algorithm="ppo", ranks=2, **agent):
    agent = {"agent.rollouts": 3, "agent.mini_batches": 2, **agent}
    if algorithm != "a2c":
        agent["agent.learning_epochs"] = 2
    return train_ranks(
        FakeWorld(ranks, rank_local=PLACE),
        algorithm=algorithm,
        task=TASK,
        agent=agent | {"agent.experiment.checkpoint_interval": 0},
        max_iterations=iterations,
        checkpoint=checkpoint,
        env={"max_episode_length": 5},
    )


@pytest.mark.parametrize(("algorithm", "agent"), [("a2c", KL), ("ppo", STEP)], ids=str)
def test_a_resumed_run_ends_with_the_same_bytes(train_ranks, algorithm, agent):
    whole = train(train_ranks, 5, algorithm=algorithm, **agent)
    first = train(train_ranks, 2, algorithm=algorithm, **agent)
    rest = train(train_ranks, 5, first[0].result.checkpoint, algorithm=algorithm, **agent)
    assert [run.result.iterations for run in rest] == [3, 3]
    assert rest[0].result.frames == whole[0].result.frames == 5 * 3 * 8 * 2
    one, other = (Path(runs[0].result.checkpoint) for runs in (whole, rest))
    assert one.read_bytes() == other.read_bytes()
    states = [Checkpoint(path).state for path in (one, other)]
    assert states[0]["ranks"] == states[1]["ranks"], "generators, environments"
    for before, after in zip(whole, rest, strict=True):
        for name, tensor in before.state().items():
            assert torch.equal(tensor, after.state()[name]), name


def test_a_run_resumes_on_more_ranks_with_the_learned_state(train_ranks):
    first = train(train_ranks, 2, **KL)
    path = first[0].result.checkpoint
    rest = train(train_ranks, 3, path, ranks=4, **KL)
    assert {run.result.iterations for run in rest} == {1}
    saved = torch.load(path, weights_only=False)
    ended = torch.load(rest[0].result.checkpoint, weights_only=False)
    assert ended["rltrain"]["iteration"] == saved["rltrain"]["iteration"] + 1 == 3
    steps = [x["optimizer"]["state"][0]["step"].item() for x in (saved, ended)]
    assert steps[1] == steps[0] * 3 / 2
