"""Killed in the middle of a rollout and resumed, again and again: the end is the same bytes."""

from __future__ import annotations

import hashlib
import pickle

import pytest
from observers import RANK_LOCAL, InStep

from rltrain.options import DEFAULT_TASK
from rltrain.storage.checkpoint import INDEX
from rltrain.storage.run import Run, newest_first
from rltrain.testing import FakeWorld

STEPS = 8
KILLS = STEPS
REAL_KILLS = 5
REAL_ITERATIONS = 2 * REAL_KILLS + 2
ITERATIONS = KILLS + 2
OPTIONS = {
    "rl_games": {
        "params.config.horizon_length": STEPS,
        "params.config.minibatch_size": 32,
        "params.config.save_frequency": 1,
    },
    "rsl_rl": {"num_steps_per_env": STEPS, "save_interval": 1},
    "skrl": {"agent.rollouts": STEPS, "agent.experiment.checkpoint_interval": STEPS},
}


class Killed(BaseException):
    """The error that kills a rank of the fake world."""


def die():
    raise Killed


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


def end_of(log_root, library):
    """Return digests of the last checkpoint, and of every rank's state that belongs to it."""
    found = newest_first(str(log_root), library, DEFAULT_TASK, INDEX)
    checkpoint = Run(found[0], warn=pytest.fail).checkpoint()
    state = checkpoint.state
    parts = [checkpoint.path.read_bytes(), pickle.dumps(state["progress"])]
    return [hashlib.sha256(part).hexdigest() for part in parts] + [x for _, x in state["ranks"]]


@pytest.mark.long
@pytest.mark.parametrize("library", list(OPTIONS))
def test_a_run_killed_at_each_step_of_a_rollout_ends_with_the_same_bytes(library, tmp_path):
    options = {
        "library": library,
        "num_envs": 8,
        "max_iterations": ITERATIONS,
        "agent": OPTIONS[library],
    }
    world = FakeWorld(2, rank_local=RANK_LOCAL.get(library, ()))
    world.train(**options, log_root=str(tmp_path / "whole"))
    killed = {**options, "log_root": str(tmp_path / "killed")}
    for kill in range(KILLS):
        # In the second iteration after the start: one more is done each time.
        observers = [lambda at=STEPS + 1 + kill % STEPS: InStep(at, die)]
        checkpoint = "latest" if kill else None
        with pytest.raises(Killed):
            world.train(**killed, checkpoint=checkpoint, observers=observers)
    runs = world.train(**killed, checkpoint="latest")
    assert runs[0].result.iterations == ITERATIONS - KILLS
    assert end_of(tmp_path / "killed", library) == end_of(tmp_path / "whole", library)


@pytest.fixture
def killer(command):
    """The command, with an observer `killer` installed."""
    info = command.plugins / "killer_plugin-1.0.dist-info"
    info.mkdir()
    (command.plugins / "killer_plugin.py").write_text(KILLER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: killer-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltrain]\nkiller = killer_plugin\n")
    return command


@pytest.mark.slow
@pytest.mark.scenario
@pytest.mark.timeout(600)  # Nine starts of two ranks.
def test_real_ranks_killed_again_and_again_end_with_the_same_bytes(killer, tmp_path):
    agent = [f"agent.{key}={value}" for key, value in OPTIONS["rsl_rl"].items()]
    words = ["--library", "rsl_rl", "--distributed", "--nproc-per-node", "2", "--num-envs", "8"]
    words += ["--max-iterations", str(REAL_ITERATIONS), *agent]
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
    assert end_of(tmp_path / "killed", "rsl_rl") == end_of(tmp_path / "whole", "rsl_rl")
    # Late enough that the ranks that start again have fewer steps left.
    killer.log_root = tmp_path / "restarted"
    run = killer(*words, "--max-restarts", "1", "--observer", "killer", KILL_AT=str(8 * STEPS + 3))
    assert run.returncode == 0, run.stderr
    assert "restart 1 of 1: rank 1 was killed by SIGKILL after iteration" in run.stdout
    assert end_of(tmp_path / "restarted", "rsl_rl") == end_of(tmp_path / "whole", "rsl_rl")
    assert len(run.checkpoints()) == REAL_ITERATIONS


@pytest.mark.slow
def test_a_run_that_rolls_back_ends_with_the_bytes_of_one_that_never_had_to(killer, tmp_path):
    agent = [f"agent.{key}={value}" for key, value in OPTIONS["rsl_rl"].items()]
    words = ["--library", "rsl_rl", "--distributed", "--nproc-per-node", "2", "--num-envs", "8"]
    words += ["--max-iterations", "4", *agent]
    killer.log_root = tmp_path / "whole"
    assert killer(*words).returncode == 0
    killer.log_root = tmp_path / "back"
    words += ["--max-restarts", "1", "--observer", "killer"]
    # In the third iteration: the ranks that start again have fewer steps left.
    run = killer(*words, NAN="1", KILL_AT=str(3 * STEPS - 1))
    assert run.returncode == 0, run.stderr
    assert "NaN or infinity in iteration 3: rank 1: rewards" in run.stdout + run.stderr
    assert end_of(tmp_path / "back", "rsl_rl") == end_of(tmp_path / "whole", "rsl_rl")
