from __future__ import annotations

import os

import pytest

import rltrain
from rltrain.errors import UsageError
from rltrain.testing import make_config
from rltrain.types import TrainResult
from rltrain_devkit import LauncherConformance
from rltrain_prefix.launcher import PrefixLauncher
from rltrain_prefix.options import PrefixOptions


class TestPrefix(LauncherConformance):
    launcher = "prefix"


def priority_of_rank(config, report_dir):
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    return TrainResult(priority, 0, None, None, run_dir="") if os.environ["RANK"] == "0" else None


def launch(work, command="nice -n {rank}9"):
    config = make_config(distributed=True, nproc_per_node=2)
    return PrefixLauncher(PrefixOptions(command)).launch(config, work)


def test_each_rank_is_started_by_the_command():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert launch(priority_of_rank).iterations == min(before + 9, 19)


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
