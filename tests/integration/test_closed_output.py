"""A run outlives whoever reads its output."""

from __future__ import annotations

import json

import pytest

from rltrain.storage.metrics_file import read_metrics

pytestmark = pytest.mark.slow

RUN = ["--library", "rsl_rl", "--task", "probe_plugin:Slow-v0", "--num-envs", "2"]
RUN += ["--max-iterations", "4", "agent.num_steps_per_env=8"]
RANKS = {1: [], 2: ["--distributed", "--nproc-per-node", "2", "--show-ranks", "all"]}
UNREAD = {"head": 'set -o pipefail; "$@" | head -1', "nobody": 'set -o pipefail; "$@" 2>&1 | true'}


def unread(how):
    return ("bash", "-c", UNREAD[how], "bash")


@pytest.mark.parametrize("how", UNREAD)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_run_outlives_the_reader_of_its_output(command, ranks, how):
    run = command(*RUN, *RANKS[ranks], before=unread(how))
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.splitlines()) == (how == "head")
    assert json.loads((run.folder / "checkpoints.json").read_text())[-1]["iteration"] == 4
    assert len(read_metrics(run.folder).scalars) == 4
    logs = sorted((run.folder / "logs").glob("rank_*.log"))
    assert [path.name for path in logs] == [f"rank_{rank}.log" for rank in range(ranks)]
    assert all("Actor" in path.read_text() for path in logs)  # rsl_rl prints its networks.


SCRIPT = """
import sys
import rltrain
if __name__ == "__main__":
    ranks = {"distributed": True, "nproc_per_node": 2} if "2" in sys.argv else {}
    streams = sys.stdin, sys.stdout, sys.stderr
    result = rltrain.train(
        library="rsl_rl", task="probe_plugin:Slow-v0", num_envs=2, max_iterations=2,
        log_root=sys.argv[-1], **ranks,
    )
    assert (sys.stdin, sys.stdout, sys.stderr) == streams
    assert (result.exit_code, result.iterations) == (0, 2)
"""


@pytest.mark.parametrize(("ranks", "how"), [(1, "nobody"), (2, "nobody")])
def test_a_run_of_a_script_outlives_it_too(command, ranks, how):
    (command.folder / "script.py").write_text(SCRIPT)
    run = command(str(ranks), launcher=("script",), before=unread(how))
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads((run.folder / "checkpoints.json").read_text())[-1]["iteration"] == 2
