"""The writer with wandb's real client; what it has recorded is read back from the disk."""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time

import pytest
from helpers import wait_for
from messages import says

from rltrain.records import CheckpointSaved, Media, Scalars

pytest.importorskip("wandb")

from tracker_runs import ENDED, said, saved_files, scalars, started
from wandb_file import Recorded, recorded
from wandb_server import serving

from rltrain_wandb.plugin import WandbOptions
from rltrain_wandb.writer import WandbWriter

pytestmark = pytest.mark.usefixtures("apart")

SECRET = "a-secret-that-no-tracker-sees"


def run(run_dir, *records, first=None, ended=ENDED, **options):
    run_dir.mkdir(exist_ok=True)
    writer = WandbWriter(WandbOptions(**{"mode": "offline", **options}))
    for record in (first or started(run_dir), *records, ended):
        writer.rltrain_write(record)
    writer.rltrain_shutdown()
    return recorded(run_dir)


@pytest.mark.slow
def test_an_offline_run_has_all_that_was_recorded(tmp_path, capsys):
    folder = tmp_path / "run"
    checkpoint, video = saved_files(folder)
    before = random.getstate()
    (found,) = run(
        folder,
        *map(scalars, (1, 2)),
        Scalars(3, {"odd": math.nan}, frames=1536, episode_return=-math.inf),
        CheckpointSaved(checkpoint, 3),
        Media(video, "clip", 3),
        project="mine",
        group="seeds",
        tags=["a", "b"],
        checkpoints="all",
    )
    assert said(capsys, "wandb") == []
    assert random.getstate() == before
    assert (found.run.project, found.run.run_group, found.run.display_name) == (
        *("mine", "seeds"),
        "run",
    )
    assert list(found.run.tags) == ["a", "b"]
    assert found.config["agent"] == {"lr": 0.1, "units": [64, 64]}
    assert found.config["world_size"] == 2
    assert found.metrics.items() >= {"frames": "", "*": "frames"}.items()
    assert [row["frames"] for row in found.history] == [512, 1024, 1536, 1536]
    assert [row.get("loss/grad (max)") for row in found.history] == [1.0, 0.5, None, None]
    assert found.history[0]["performance/fps"] == 17.0
    assert math.isnan(found.history[2]["odd"])
    assert found.history[2]["episode/return"] == -math.inf
    assert found.history[3]["video/_type"] == "video-file"
    (file,) = found.file.parent.rglob("*.mp4")
    assert file.read_bytes() == b"video"
    (artifact,) = found.artifacts
    assert {entry.path for entry in artifact.manifest.contents} == {
        *("checkpoints/2.pt", "config.yaml"),
    }
    assert set(artifact.aliases) == {"latest", "iteration-3"}
    assert (found.summary["outcome"], found.exit_code) == ("finished", 0)


@pytest.mark.parametrize(
    ("changes", "outcome", "code"),
    [({"asked": True}, "stopped", 0), ({"error": "ValueError: no"}, "failed", 1)],
)
def test_the_end_of_a_run(changes, outcome, code, tmp_path):
    (found,) = run(tmp_path / "run", ended=dataclasses.replace(ENDED, **changes))
    assert (found.summary["outcome"], found.exit_code) == (outcome, code)


def test_variables_of_wandb_count_where_an_option_is_not_set(tmp_path, monkeypatch):
    for name, value in {
        "PROJECT": "theirs",
        "RUN_GROUP": "group",
        "NAME": "name",
        "TAGS": "x,y",
        "MODE": "offline",
    }.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    (found,) = run(tmp_path / "run", mode=None)
    assert (found.run.project, found.run.run_group) == ("theirs", "group")
    assert (found.run.display_name, list(found.run.tags)) == ("name", ["x", "y"])
    (found,) = run(tmp_path / "other", project="mine", name="own", tags=["z"])
    assert (found.run.project, found.run.display_name) == ("mine", "own")
    assert list(found.run.tags) == ["z"]


def test_a_secret_on_the_command_line_reaches_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rltrain", f"agent.logger.api_key={SECRET}"])
    run(tmp_path / "run", scalars(1))
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    # The machine, which wandb shows with the command line, is recorded otherwise.
    monkeypatch.setattr(sys, "argv", ["rltrain", f"agent.logger.name={SECRET}"])
    (found,) = run(tmp_path / "other", scalars(1))
    assert SECRET.encode() in found.file.read_bytes()


def test_without_a_login_the_run_is_recorded_offline_and_nobody_is_asked(tmp_path, capsys):
    (found,) = run(tmp_path / "run", scalars(1), mode="online")
    assert [row["frames"] for row in found.history] == [512]
    (line,) = said(capsys, "wandb")
    assert "No API key configured" in line
    assert "recorded offline: `wandb sync" in line


@pytest.mark.slow  # It waits for the client to begin, and to give up.
def test_a_run_is_uploaded_and_a_server_that_falls_silent_does_not_slow_it(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.setattr(sys, "argv", ["rltrain", f"agent.logger.api_key={SECRET}"])
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.uri)
        folder = tmp_path / "run"
        folder.mkdir()
        writer = WandbWriter(WandbOptions(finish_timeout=1.0))
        for record in (started(folder), scalars(1)):
            writer.rltrain_write(record)
        wait_for(lambda: server.history)
        assert server.history[0].items() >= {"frames": 512, "loss/grad (max)": 1.0}.items()
        assert not [body for body in server.bodies if SECRET.encode() in body]
        server.silent.set()
        before = time.monotonic()
        for iteration in range(2, 300):
            writer.rltrain_write(scalars(iteration))
        assert time.monotonic() - before < 1
        writer.rltrain_write(ENDED)
        writer.rltrain_shutdown()
        assert time.monotonic() - before < 20
    (line,) = said(capsys, "wandb")
    assert "not all was uploaded within 1 s: `wandb sync" in line
    (file,) = folder.glob("wandb/run-*/run-*.wandb")
    assert len(Recorded(file).history) == 299


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "sometimes"},
        {"project": "a/b"},
        {"project": "a" * 129},
        {"tags": [""]},
        {"finish_timeout": 0.0},
    ],
)
def test_options_that_wandb_would_refuse_are_refused_before_the_run(options):
    with says(ValueError):
        WandbOptions(**options)
