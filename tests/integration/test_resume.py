"""Killed in the middle of a rollout and resumed, again and again: the end is the same bytes."""

from __future__ import annotations

import hashlib
import pickle

import pytest

from rltrain.options import DEFAULT_TASK
from rltrain.storage.checkpoint import INDEX
from rltrain.storage.run import Run, newest_first

STEPS = 8
REAL_KILLS = 5
REAL_ITERATIONS = 2 * REAL_KILLS + 2
TWO_RANKS = ("--library", "rsl_rl", "--distributed", "--nproc-per-node", "2", "--num-envs", "8")
RUN = (*TWO_RANKS, f"agent.num_steps_per_env={STEPS}", "agent.save_interval=1")


KILLER = '''
"""A third party's observer: in the middle of a rollout it kills its rank, or spoils a reward."""
import os, signal
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="killer", factory="killer_plugin:Killer")]


class Killer:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, left = env.step, int(os.environ["KILL_AT"])

        def counted(actions):
            nonlocal left
            left -= 1
            if session.world.rank != 1 or left:
                return step(actions)
            if "NAN" not in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            observations, rewards, *rest = step(actions)
            return observations, rewards * float("nan"), *rest

        env.step = counted
        return env
'''


def end_of(log_root):
    """Return digests of the last checkpoint, and of every rank's state that belongs to it."""
    found = newest_first(str(log_root), "rsl_rl", DEFAULT_TASK, INDEX)
    checkpoint = Run(found[0], warn=pytest.fail).checkpoint()
    state = checkpoint.state
    parts = [checkpoint.path.read_bytes(), pickle.dumps(state["progress"])]
    return [hashlib.sha256(part).hexdigest() for part in parts] + [x for _, x in state["ranks"]]


@pytest.fixture
def killer(command):
    """The command, with an observer `killer` installed."""
    command.install("killer_plugin", KILLER)
    return command


@pytest.mark.slow
@pytest.mark.timeout(600)  # Nine starts of two ranks.
def test_real_ranks_killed_again_and_again_end_with_the_same_bytes(killer, tmp_path):
    words = (*RUN, "--max-iterations", str(REAL_ITERATIONS))
    killer.log_root = tmp_path / "whole"
    assert killer(*words).returncode == 0
    killer.log_root = tmp_path / "killed"
    for kill in range(REAL_KILLS):
        more = ["--checkpoint", "latest"] if kill else []
        # In the third iteration after the start: rank 0 may not have saved the second one yet.
        at = str(2 * STEPS + 1 + kill % STEPS)
        run = killer(*words, *more, "--observer", "killer", KILL_AT=at)
        assert "Rank 1 was killed by SIGKILL" in run.stderr
    run = killer(*words, "--checkpoint", "latest")
    assert run.returncode == 0, run.stderr
    assert "Resuming" in run.stdout
    assert end_of(tmp_path / "killed") == end_of(tmp_path / "whole")
    # Late enough that the ranks that start again have fewer steps left.
    killer.log_root = tmp_path / "restarted"
    run = killer(*words, "--max-restarts", "1", "--observer", "killer", KILL_AT=str(8 * STEPS + 3))
    assert run.returncode == 0, run.stderr
    assert "restart 1 of 1: rank 1 was killed by SIGKILL after iteration" in run.stdout
    assert end_of(tmp_path / "restarted") == end_of(tmp_path / "whole")
    assert len(run.checkpoints()) == REAL_ITERATIONS


@pytest.mark.slow
def test_a_run_that_rolls_back_ends_with_the_bytes_of_one_that_never_had_to(killer, tmp_path):
    words = (*RUN, "--max-iterations", "4")
    killer.log_root = tmp_path / "whole"
    assert killer(*words).returncode == 0
    killer.log_root = tmp_path / "back"
    words = (*words, "--max-restarts", "1", "--observer", "killer")
    # In the third iteration: the ranks that start again have fewer steps left.
    run = killer(*words, NAN="1", KILL_AT=str(3 * STEPS - 1))
    assert run.returncode == 0, run.stderr
    assert "NaN or infinity in iteration 3: rank 1: rewards" in run.stdout + run.stderr
    assert end_of(tmp_path / "back") == end_of(tmp_path / "whole")
