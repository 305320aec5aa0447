"""Policies of two ranks evaluated on one and on two, and evaluations that hang or are ended."""

from __future__ import annotations

import json
import signal

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

TWO_RANKS = ["--distributed", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("library", "more"),
    [
        ("rl_games", ["--task", "rltrain/CartPole-v1"]),
        ("rsl_rl", []),
        ("skrl", ["--framework", "jax", "agent.agent.rollouts=4"]),
    ],
    ids=["rl_games", "rsl_rl", "skrl-jax"],
)
def test_two_ranks_play_the_same_episodes_as_one(command, library, more):
    trained = command(
        "--library", library, *more, *TWO_RANKS, "--num-envs", "32", "--max-iterations", "3"
    )
    assert trained.returncode == 0, trained.stderr
    evaluate = ["evaluate", str(trained.folder), "--episodes", "16", "--num-envs", "4", "--json"]
    runs = [command(*evaluate, "--seeds", "0", "1", *ranks) for ranks in ([], TWO_RANKS)]
    assert [run.returncode for run in runs] == [0, 0], [run.stderr for run in runs]
    one, two = (json.loads(run.stdout) for run in runs)
    assert one == two
    assert len(one[0]["each"]) == 32
    assert one[0]["return"]["std"] > 0


TASK = ("--task", "probe_plugin:Slow-v0")  # A run folder is not trusted to name code.


@pytest.fixture
def trained(command):
    words = ("--num-envs", "2", "--max-iterations", "1", "agent.num_steps_per_env=8")
    run = command("--library", "rsl_rl", *TASK, *words)
    assert run.returncode == 0, run.stderr
    (command.folder / "rank_0.pid").unlink()
    return run.folder


@pytest.mark.parametrize(("ranks", "words"), [(1, []), (1, ["--json"]), (2, TWO_RANKS)])
def test_an_evaluation_that_hangs_is_named_and_ends(command, trained, ranks, words):
    evaluate = ("evaluate", str(trained), *TASK, "--num-envs", "2", "--episodes", "40", *words)
    planted = {"PLANTED": f"{ranks - 1}:30:hang", **({"RANK": "0"} if ranks == 1 else {})}
    process = command.start(*evaluate, "--device", "cpu", "--hang-timeout", "3", **planted)
    run = command.finish(process, timeout=60)
    assert run.returncode == 1, run.stderr
    said = run.stdout + run.stderr
    assert f"rltrain: Rank {ranks - 1} hangs, without progress for" in said
    assert f"rank {ranks - 1} sleeps while playing episodes, at " in said
    assert "in step." in said
    assert command.all_gone(process)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("name", ["evaluate", "export"])
def test_what_is_ended_says_so_and_keeps_nothing(command, trained, name, number, code):
    words = ("--episodes", "100000") if name == "evaluate" else ()
    process = command.start(name, str(trained), *TASK, *words)
    begun = (command.folder, "rank_0.pid") if words else (trained, "exported/.*/")
    wait_for(lambda: list(begun[0].glob(begun[1])), process=process)
    process.send_signal(number)
    run = command.finish(process, timeout=60)
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert "cannot be exported" not in run.stderr
    kept = ("evaluations.jsonl", "exported/policy.onnx")
    assert not any((trained / file).exists() for file in kept)
    if name == "export":  # The next one cleans up.
        assert command("export", str(trained), *TASK).returncode == 0
        assert not list((trained / "exported").glob(".partial*"))
