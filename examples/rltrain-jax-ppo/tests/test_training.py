from __future__ import annotations

import pytest

from rltrain.errors import UsageError


def test_two_real_ranks_train(rltrain_run):
    run = rltrain_run(library="jax_ppo", framework="jax", ranks=2, num_envs=8, max_iterations=2)
    assert run.outcome == "finished"
    assert [len(each.fps) for each in run.scalars] == [2, 2]


def test_a_checkpoint_of_another_task_is_refused(fake_world, tmp_path):
    options = {"library": "jax_ppo", "framework": "jax", "num_envs": 8, "max_iterations": 2}
    saved = fake_world(1).train(**{**options, "max_iterations": 1})[0].result.checkpoint
    with pytest.raises(UsageError, match="the sizes of the layers differ"):
        fake_world(1).train(**options, checkpoint=saved, agent={"hidden": 8})
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UsageError, match=r"it is no \.npz file"):
        fake_world(1).train(**options, checkpoint=str(tmp_path / "text.npz"))
