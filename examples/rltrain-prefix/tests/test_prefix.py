from __future__ import annotations

import os
import time

import pytest

import rltrain
from rltrain.errors import RankFailed, UsageError
from rltrain.testing import make_config
from rltrain.types import TrainResult
from rltrain_prefix.launcher import PrefixLauncher
from rltrain_prefix.options import PrefixOptions


def priority_of_rank(config, report_dir):
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    return TrainResult(priority, 0, None, None, run_dir="") if os.environ["RANK"] == "0" else None


def fail_on_rank_1(config, report_dir):
    if os.environ["RANK"] == "1":
        os._exit(3)
    time.sleep(120)  # Like a rank that waits for its peer.


def launch(work, command="nice -n {rank}9"):
    config = make_config(distributed=True, nproc_per_node=2)
    return PrefixLauncher(PrefixOptions(command)).launch(config, work)


def test_each_rank_is_started_by_the_command():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert launch(priority_of_rank).iterations == min(before + 9, 19)


def test_a_rank_that_fails_ends_the_others():
    started = time.monotonic()
    with pytest.raises(RankFailed, match="Rank 1 exited with code 3"):
        launch(fail_on_rank_1)
    assert time.monotonic() - started < 60


def test_two_ranks_train(rltrain_run):
    run = rltrain_run(
        launcher="prefix", prefix={"command": "nice"}, ranks=2, num_envs=8, max_iterations=2
    )
    assert run.outcome == "finished"
    assert [len(each.fps) for each in run.scalars] == [2, 2]


def test_a_program_that_is_missing_is_refused_before_a_rank_starts():
    with pytest.raises(UsageError, match="command=nothing-like-it: there is no such program"):
        rltrain.train(
            launcher="prefix",
            prefix={"command": "nothing-like-it"},
            distributed=True,
            nproc_per_node=2,
            device="cpu",
        )
