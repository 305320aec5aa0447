"""Tasks, scripts and pipes of users on real ranks: what works, is refused, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from rltrain.ranks.guarded import NO_GUARD
from rltrain.storage.metrics_file import read_metrics

pytestmark = pytest.mark.slow

SERVED = """
import multiprocessing
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

multiprocessing.set_start_method("fork")


class Served(CartPoleEnv):
    # Has a process of its own, whose work cannot be pickled.

    def __init__(self):
        super().__init__()
        self.served, there = multiprocessing.Pipe()
        self.server = multiprocessing.Process(target=lambda: there.send(7), daemon=True)
        self.server.start()

    def reset(self, **more):
        assert self.served.poll(60)
        return super().reset(**more)


gymnasium.register("Served-v0", entry_point=Served, max_episode_steps=50)
"""
SMALL = ("--library", "skrl", "--num-envs", "1", "--max-iterations", "1")
TWO_RANKS = ("--distributed", "--nproc-per-node", "2", "--device", "cpu")


def test_a_task_that_starts_processes_of_its_own(command):
    (command.folder / "served.py").write_text(SERVED)
    run = command(*SMALL, *TWO_RANKS, "--task", "served:Served-v0")
    assert run.returncode == 0, run.stderr


def script(command, text):
    given = (
        f"given = dict(distributed=True, nproc_per_node=2, device='cpu', library='skrl', "
        f"num_envs=1, max_iterations=1, log_root={str(command.log_root)!r})\n"
    )
    path = command.folder / "script.py"
    path.write_text("import rltrain\n" + given + text)
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=100, check=False
    )


def test_a_script_without_a_guard(command):
    ran = script(command, "rltrain.train(task='CartPole-v1', **given)\n")
    assert ran.returncode == 1
    assert ran.stderr.count("Traceback") == 1, ran.stderr  # That of the script itself.
    assert ran.stderr.endswith(f"\nrltrain.errors.UsageError: {NO_GUARD}\n")


GUARDED = """
if __name__ == "__main__":
    import gymnasium
    gymnasium.register("Ours-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    rltrain.train(task="Ours-v0", **given)
"""


def test_a_task_that_is_registered_below_the_guard(command):
    ran = script(command, GUARDED)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "rltrain.errors.UsageError: The task 'Ours-v0' is registered in the process that starts "
        "the ranks, and not in theirs. Register it at the top of a module, outside of "
        '`if __name__ == "__main__":`, and give "MODULE:Ours-v0".'
    )


LOOP = """
import sys
import rltrain

if __name__ == "__main__":
    ranks = {"distributed": True, "nproc_per_node": 2} if "2" in sys.argv else {}
    for seed in range(3):
        try:
            rltrain.train(
                library="rsl_rl", task="probe_plugin:Slow-v0", num_envs=2, max_iterations=5000,
                seed=seed, log_root=sys.argv[-1], **ranks,
            )
        except Exception:
            continue  # As a sweep that goes on after a failure.
"""


@pytest.mark.parametrize(
    ("ranks", "number", "code"),
    [
        (1, signal.SIGINT, -signal.SIGINT),  # Python ends so after KeyboardInterrupt.
        (1, signal.SIGTERM, 75),
        (1, signal.SIGUSR1, 75),
        (2, signal.SIGINT, -signal.SIGINT),
        (2, signal.SIGTERM, 75),
    ],
)
def test_a_signal_ends_a_loop_of_runs_after_its_checkpoint(command, ranks, number, code):
    (command.folder / "script.py").write_text(LOOP)
    process = command.start(str(ranks), launcher=("script",))
    command.checkpoint(process)
    os.killpg(process.pid, number)  # As a terminal does, and timeout(1).
    run = command.finish(process, timeout=60)
    assert run.returncode == code, run.stderr
    assert "\nstopped  iteration" in run.stdout
    (checkpoint,) = json.loads((run.folder / "checkpoints.json").read_text())[-1:]
    assert f"iteration {checkpoint['iteration']:4}/5000" in run.stdout
    assert command.all_gone(process)


# A run outlives whoever reads its output

SHORT_RUN = ["--library", "rsl_rl", "--task", "probe_plugin:Slow-v0", "--num-envs", "2"]
SHORT_RUN += ["--max-iterations", "4", "agent.num_steps_per_env=8"]
RANKS = {1: [], 2: ["--distributed", "--nproc-per-node", "2", "--show-ranks", "all"]}
UNREAD = {"head": 'set -o pipefail; "$@" | head -1', "nobody": 'set -o pipefail; "$@" 2>&1 | true'}


def unread(how):
    return ("bash", "-c", UNREAD[how], "bash")


@pytest.mark.parametrize("how", UNREAD)
@pytest.mark.parametrize("ranks", RANKS)
def test_a_run_outlives_the_reader_of_its_output(command, ranks, how):
    run = command(*SHORT_RUN, *RANKS[ranks], before=unread(how))
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.splitlines()) == (how == "head")
    assert json.loads((run.folder / "checkpoints.json").read_text())[-1]["iteration"] == 4
    assert len(read_metrics(run.folder).scalars) == 4
    logs = sorted((run.folder / "logs").glob("rank_*.log"))
    assert [path.name for path in logs] == [f"rank_{rank}.log" for rank in range(ranks)]
    assert all("Actor" in path.read_text() for path in logs)  # rsl_rl prints its networks.


READ = """
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
    (command.folder / "script.py").write_text(READ)
    run = command(str(ranks), launcher=("script",), before=unread(how))
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads((run.folder / "checkpoints.json").read_text())[-1]["iteration"] == 2
