"""An interrupted and resumed run equals the uninterrupted one bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rsl_rl_stubs import CURIOUS, recurrent

from rltrain.testing import FakeWorld, differing

pytestmark = pytest.mark.slow

SHORT = {
    "num_steps_per_env": 16,
    "save_interval": 100,
    "algorithm.num_learning_epochs": 2,
    "algorithm.num_mini_batches": 2,
}
EPISODES = {"max_episode_length": 12}
"""Some end within a rollout, and some go on beyond it."""
DECAYING = {"mode": "linear", "initial_step": 20, "final_step": 60, "final_value": 0.0}

EVERYTHING = {
    **CURIOUS,
    **recurrent("gru", "actor"),
    "algorithm.rnd_cfg.weight_schedule": DECAYING,
    "init_at_random_ep_len": True,
}


def written(run) -> list[bytes]:
    """Return the last checkpoint and the ranks' states beside it."""
    path = Path(run.result.checkpoint)
    [beside] = (path.parent / "ranks").glob(f"{path.name}.*")
    return [path.read_bytes(), beside.read_bytes()]


def test_a_resumed_run_ends_with_the_same_bytes(train_ranks):
    def train(ranks=2, **run):
        return train_ranks(FakeWorld(ranks), agent={**SHORT, **EVERYTHING}, env=EPISODES, **run)

    whole = train(max_iterations=4)
    first = train(max_iterations=2)
    resumed = train(max_iterations=4, checkpoint=first[0].result.checkpoint)
    assert [run.result.iterations for run in resumed] == [2, 2]
    for one, other in zip(whole, resumed, strict=True):
        assert not differing([one, other])
    assert whole[0].result.frames == resumed[0].result.frames == 4 * 16 * 8 * 2
    assert whole[0].result.episode_return == resumed[0].result.episode_return
    assert written(whole[0]) == written(resumed[0])


def test_a_run_resumes_on_another_number_of_ranks(train_ranks):
    options = {**SHORT, **recurrent("lstm"), **CURIOUS}
    first = train_ranks(FakeWorld(2), agent=options, env=EPISODES)
    runs = train_ranks(
        FakeWorld(4),
        agent=options,
        env=EPISODES,
        max_iterations=3,
        checkpoint=first[0].result.checkpoint,
    )
    assert not differing(runs)
    assert [run.result.iterations for run in runs] == [1] * 4
    # State that does not belong to one rank is resumed anyway.
    saved = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert saved["iter"] == 2
    assert saved["infos"] == {"rltrain": {"rnd_update_counter": 3 * 16}}
    count = saved["actor_state_dict"]["obs_normalizer.count"]
    assert count == (2 * 2 + 1 * 4) * 16 * 8
