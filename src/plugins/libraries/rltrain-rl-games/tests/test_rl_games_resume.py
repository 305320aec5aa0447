"""An interrupted and resumed run ends with the same bytes as an uninterrupted one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld

pytestmark = pytest.mark.slow

EVERY_SECOND = {
    "params.config.save_frequency": 2,
    "params.config.save_best_after": 2,
    "params.config.lr_schedule": "linear",
    "params.config.schedule_entropy": True,
    "params.config.entropy_coef": 0.01,
}
GRU = {"+params.network.rnn": {"name": "gru", "units": 16, "layers": 1}}
CONTINUOUS = {"task": "rltrain/CartPoleContinuous-v1", "agent": EVERY_SECOND}
RECURRENT = {"task": "rltrain/CartPole-v1", "agent": EVERY_SECOND | GRU}


def checkpoints(run):
    return Path(run.result.run_dir) / "checkpoints"


def contents(folder):
    """Return the bytes of every file below a folder, including the ranks' states."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(("ranks", "options"), [(1, CONTINUOUS), (2, RECURRENT)])
def test_resumed_runs_end_with_the_same_bytes(train_ranks, ranks, options):
    whole = train_ranks(FakeWorld(ranks), max_iterations=4, **options)
    (middle,) = checkpoints(whole[0]).glob("last_*_ep_2_*.pth")
    resumed = train_ranks(FakeWorld(ranks), max_iterations=4, checkpoint=str(middle), **options)
    expected, found = contents(checkpoints(whole[0])), contents(checkpoints(resumed[0]))
    assert any("_ep_4_" in name for name in found)
    assert any(name.startswith("ranks/") for name in found)
    assert found == {name: expected[name] for name in found}
    assert all(run.result.frames == whole[0].result.frames for run in resumed)


def test_the_checkpoint_holds_the_state_that_rl_games_omits(train_ranks):
    (run,) = train_ranks(FakeWorld(1), max_iterations=3, **CONTINUOUS)
    state = torch.load(run.result.checkpoint, weights_only=False)
    assert state["last_mean_rewards"] > 0
    assert 0 < state["rltrain"]["entropy_coef"] < 0.01
    assert state["rltrain"]["meters"]["game_rewards"][1] > 0


def test_another_number_of_ranks_resumes_with_the_state_that_fits(train_ranks):
    first = train_ranks(FakeWorld(2), max_iterations=2, **CONTINUOUS)
    runs = train_ranks(
        FakeWorld(4), max_iterations=3, checkpoint=first[0].result.checkpoint, **CONTINUOUS
    )
    state = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert (state["epoch"], state["frame"]) == (3, (2 * 2 + 4) * 8 * 32)


def of_config(**options):
    return {"agent": {f"params.config.{name}": value for name, value in options.items()}}


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        ("max_frames=1024", {"max_epochs": -1, "max_frames": 1024}),
        ("score_to_win=5", {"max_epochs": 9, "save_best_after": 1, "score_to_win": 5}),
    ],
)
def test_a_limit_of_rl_games_that_has_ended_a_run_is_named(train_ranks, limit, options):
    result = train_ranks(FakeWorld(2), max_iterations=None, **of_config(**options))[0].result
    assert result.limit == f"agent.params.config.{limit}"


@pytest.mark.parametrize(
    ("limit", "options", "more"),
    [
        ("--max-iterations 2", {"max_iterations": 2}, {"max_iterations": 3}),
        (
            "--target-return 9",
            {**of_config(horizon_length=128), "target_return": 9.0, "max_iterations": 8},
            {**of_config(horizon_length=128), "max_iterations": 8},
        ),
    ],
)
def test_a_run_that_has_reached_its_limit_is_over(train_ranks, limit, options, more, capsys):
    named = {"run_name": "mine", "max_iterations": None}
    first = train_ranks(FakeWorld(2), **named | options)[0].result
    assert first.limit == ("" if "iterations" in limit else limit)
    # As a loop starts it that goes on until the status is 0.
    for run in train_ranks(FakeWorld(2), auto_resume=True, **named | options):
        assert (run.result.limit, run.result.iterations, run.result.exit_code) == (limit, 0, 0)
        assert (run.result.run_dir, run.result.checkpoint) == (first.run_dir, first.checkpoint)
    assert f"is over: {limit} has ended it" in capsys.readouterr().out
    with pytest.raises(UsageError, match=re.escape(limit)):
        train_ranks(FakeWorld(2), checkpoint="latest", **named | options)
    later = train_ranks(FakeWorld(2), auto_resume=True, **named | more)[0].result
    assert later.iterations > 0
    assert later.run_dir != first.run_dir
