"""What two ranks have trained, evaluated on one and on two; and files of the libraries' own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize(("library", "file"), [("rl_games", "nn/*.pth"), ("rsl_rl", "model_2.pt")])
def test_a_file_of_the_librarys_own_script_is_evaluated(command, library, file):
    script = Path(__file__).parent / "native_scripts" / f"train_{library}.py"
    folder = command.folder / "native"
    subprocess.run(
        [sys.executable, script, folder],
        cwd=command.folder,
        check=True,
        capture_output=True,
        timeout=100,
    )
    (checkpoint,) = folder.glob(file)
    given = ["--library", library, "--task", "Pendulum-v1", "--episodes", "4", "--json"]
    # Its options are found in params/agent.yaml.
    run = command("evaluate", str(checkpoint), *given)
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)
    assert [each["length"] for each in found["each"]] == [200] * 4
    assert -2000 < found["return"]["mean"] < 0
    wrong = command("evaluate", str(checkpoint), "--library", "skrl", *given[2:])
    assert wrong.returncode == 2
    assert f"--library {library}" in wrong.stderr or "agent.yaml" in wrong.stderr
    assert "Traceback" not in wrong.stderr
