from __future__ import annotations

from rltrain_devkit import BackendConformance


class TestStar(BackendConformance):
    backend = "star"
    ranks = 3


def test_two_ranks_train(rltrain_run):
    run = rltrain_run(backend="star", ranks=2, num_envs=8, max_iterations=2)
    assert run.outcome == "finished"
    assert [len(each.fps) for each in run.scalars] == [2, 2]
