"""A real run with a tracker is one run of it through a restart; rltrain-writers tests the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("wandb")
sys.path.insert(0, str(Path(__file__).parents[2] / "src/plugins/writers/rltrain-writers/tests"))

from wandb_file import recorded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECRET = "a-secret-that-no-tracker-sees"
STEPS = 8
SMALL = (
    *("--library", "rl_games", "--num-envs", "16", "--max-iterations", "6"),
    *(f"agent.params.config.horizon_length={STEPS}", "agent.params.config.save_frequency=1"),
    f"+agent.params.config.api_key={SECRET}",
)
"""A run of 6 iterations, with a checkpoint after each."""

ONCE = '''
"""A third party's observer that kills its own rank once, in the middle of the 4th rollout."""
import os, pathlib, signal, time
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="once", factory="once_plugin:Once")]


class Once:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, left, done = env.step, 28, pathlib.Path("killed")
        remembered = session.run_folder.path / "wandb.json"

        def counted(actions):
            nonlocal left
            left -= 1
            is_last = session.world.rank == session.world.world_size - 1
            if is_last and left == 0 and not done.exists():
                while not remembered.exists():  # The client has begun its run.
                    time.sleep(0.1)
                time.sleep(3)
                done.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return step(actions)

        env.step = counted
        return env
'''


@pytest.fixture
def apart(tmp_path):
    """Return variables that keep clients from the network and from the user's own files."""
    return {
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "1",  # Seconds; a killed rank loses the rest.
        "HOME": str(tmp_path / "home"),
    }


def lines_of(run, tracker):
    return [line for line in run.stdout.splitlines() if line.startswith(f"rltrain: {tracker}")]


def folders_of(run):
    return sorted(path.parent for path in run.log_root.rglob("manifest.json"))


def has_secret(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def test_wandb_has_one_run_through_a_restart_and_a_resumed_run(command, apart):
    command.install("once_plugin", ONCE)
    two_ranks = ("--distributed", "--nproc-per-node", "2", "--max-restarts", "1")
    writers = ("--writer", "console", "wandb", "wandb.mode=offline", "wandb.checkpoints=last")
    process = command.start(*SMALL, *two_ranks, *writers, "--observer", "once", **apart)
    run = command.finish(process)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "restart 1 of 1" in run.stdout
    assert lines_of(run, "wandb") == []
    assert command.all_gone(process)
    first, second = recorded(run.folder, ended=False)
    frames = 2 * 16 * STEPS
    assert [row["frames"] for row in first.history] == [frames, 2 * frames, 3 * frames]
    assert [row["frames"] for row in second.history] == [n * frames for n in (4, 5, 6)]
    assert second.summary["outcome"] == "finished"
    assert len(second.artifacts) == 1
    again = command("--resume", "latest", "--max-iterations", "8", **apart)
    assert again.returncode == 0, again.stdout + again.stderr
    (resumed,) = recorded(folders_of(again)[-1])
    assert [row["frames"] for row in resumed.history] == [7 * frames, 8 * frames]
    assert {found.run.run_id for found in (first, second, resumed)} == {first.run.run_id}
    assert not has_secret(run.log_root)
