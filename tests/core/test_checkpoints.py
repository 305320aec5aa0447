"""Checkpoints, the ranks' state beside them, and how both are found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.storage.checkpoints import (
    find_checkpoint,
    latest_of_name,
    read_state,
    save_with_state,
)
from rltrain.storage.run_folder import RunFolder, create_run_folder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def save(folder, name, text, iteration=1, episode_return=None, **more):
    state = {"iteration": iteration, "episode_return": episode_return, **more}
    return save_with_state(folder, name, lambda path: path.write_text(text), state)


def test_state_is_restored_with_the_file_it_was_saved_with(folder):
    path = save(folder, "a.pth", "weights", 7, ranks=[b"0", b"1"])
    assert path.read_text() == "weights"
    assert read_state(path) == {"iteration": 7, "episode_return": None, "ranks": [b"0", b"1"]}


def test_replacing_a_file_replaces_its_state(folder):
    save(folder, "best_[1.5].pth", "old", 1)
    path = save(folder, "best_[1.5].pth", "new", 2)
    assert read_state(path)["iteration"] == 2
    assert len(list(folder.path.glob("checkpoints/ranks/*"))) == 1


def test_a_modified_file_has_no_state(folder):
    path = save(folder, "a.pth", "weights")
    path.write_text("others")
    assert read_state(path) is None


def test_an_interrupted_save_keeps_the_previous_state_and_file(folder, monkeypatch):
    import os

    path = save(folder, "a.pth", "old", 1)
    replace = os.replace

    def stop_before_the_file(source, target):
        if str(target).endswith("a.pth"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop_before_the_file)
    with pytest.raises(KeyboardInterrupt):
        save(folder, "a.pth", "new", 2)
    assert (path.read_text(), read_state(path)["iteration"]) == ("old", 1)


@pytest.fixture
def runs(tmp_path):
    """Two runs of a task, each with three checkpoints."""
    made = []
    for name in ("first", "second"):
        run = create_run_folder(str(tmp_path), "lib", "Task/v1", name)
        for iteration, figure in ((1, None), (2, 9.0), (3, 5.0)):
            save(run, f"{iteration}.pth", f"{name} {iteration}", iteration, figure)
        made.append(run)
    return made


@pytest.mark.parametrize(("choice", "text"), [("latest", "second 3"), ("best", "second 2")])
def test_latest_and_best_come_from_the_newest_run(runs, tmp_path, choice, text):
    create_run_folder(str(tmp_path), "lib", "Task/v1", "third, with no checkpoint")
    assert find_checkpoint(choice, str(tmp_path), "lib", "Task/v1").read_text() == text


def test_a_run_that_is_started_again_goes_on_from_its_own(runs, tmp_path):
    where = {"log_root": str(tmp_path), "library": "lib", "task": "Task/v1"}
    config = RunConfig(algorithm="ppo", backend="b", suite="s", grad_sync="g", num_envs=1, **where)
    for run, name in zip(runs, ("first", "second"), strict=True):
        run.write_manifest({"config": {"run_name": name}})
    for name, found in (("first", "first 3"), ("second", "second 3")):
        path = latest_of_name(dataclasses.replace(config, run_name=name))
        assert Path(path).read_text() == found
    assert latest_of_name(dataclasses.replace(config, run_name="fir")) is None
    (runs[1].path / "manifest.json").unlink()
    assert latest_of_name(dataclasses.replace(config, run_name="second")) is None


def test_a_deleted_checkpoint_is_skipped(runs, tmp_path):
    (runs[1].checkpoints / "3.pth").unlink()
    assert find_checkpoint("latest", str(tmp_path), "lib", "Task/v1").read_text() == "second 2"


def test_a_name_that_is_saved_again_is_the_latest(runs, tmp_path):
    save(runs[1], "1.pth", "again", 4, 7.0)
    assert find_checkpoint("latest", str(tmp_path), "lib", "Task/v1").read_text() == "again"


@pytest.mark.parametrize(("library", "task"), [("other", "Task/v1"), ("lib", "Other-v1")])
def test_nothing_to_resume_from_is_reported(runs, tmp_path, library, task):
    with pytest.raises(UsageError, match=f"--checkpoint latest: no run of {library} on {task}"):
        find_checkpoint("latest", str(tmp_path), library, task)
