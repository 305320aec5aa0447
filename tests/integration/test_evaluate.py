"""What two ranks have trained, evaluated on one and on two; and files of the libraries' own."""

from __future__ import annotations

import json
import shutil

import pytest

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


@pytest.mark.parametrize(
    ("library", "file"), [("rl_games", "nn/last.pth"), ("rsl_rl", "model_2.pt")]
)
def test_a_file_is_evaluated_with_the_options_that_lie_beside_it(command, library, file):
    """As Isaac Lab's and the libraries' own scripts leave them."""
    run = command("--library", library, "--task", "Pendulum-v1", "--max-iterations", "2")
    assert run.returncode == 0, run.stderr
    checkpoint, options = command.folder / "own" / file, command.folder / "own/params/agent.yaml"
    for path, source in ((checkpoint, run.checkpoints()[-1]), (options, run.folder / "agent.yaml")):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
    given = ["--library", library, "--task", "Pendulum-v1", "--episodes", "4", "--json"]
    run = command("evaluate", str(checkpoint), *given)
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)
    assert [each["length"] for each in found["each"]] == [200] * 4
    assert -2000 < found["return"]["mean"] < 0
    wrong = command("evaluate", str(checkpoint), "--library", "skrl", *given[2:])
    assert wrong.returncode == 2
    assert f"--library {library}" in wrong.stderr or "agent.yaml" in wrong.stderr
    assert "Traceback" not in wrong.stderr
