"""Rank 0's I/O: a folder exists once, a file is complete or absent."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from messages import says

from rltrain.errors import UsageError
from rltrain.storage.run_folder import RunFolder, check_writable, create_run_folder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_a_folder_is_named_by_library_task_time_and_name(tmp_path):
    path = create_run_folder(str(tmp_path / "logs"), "rl_games", "ns/Cart Pole-v1", "try").path
    assert path.is_dir()
    assert path.parent == tmp_path / "logs" / "rl_games" / "ns_Cart_Pole-v1"
    assert path.name.endswith("_try")
    # Those of the same second differ.
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create_run_folder(str(tmp_path), "l", "t", None), range(16)))
    assert len({folder.path for folder in made}) == 16


def test_the_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert create_run_folder("logs", "l", "t", None).path.is_relative_to(tmp_path / "logs")
    assert create_run_folder("~/logs", "l", "t", None).path.is_relative_to(tmp_path / "home/logs")


@pytest.mark.parametrize("below", ["", "l", "l/t"])
def test_a_file_in_the_way_is_refused(tmp_path, below):
    file = tmp_path / "logs" / below
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("in the way")
    with says(UsageError):
        create_run_folder(str(tmp_path / "logs"), "l", "t", None)


CONTROL = r"\(it has control characters\)"
NAMES = {
    "a\udcff": CONTROL,
    "\u00fc\n": CONTROL,
    "a\x1b[2J": CONTROL,
    "x" * 300: r"\(File name too",
}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_why_a_log_root_cannot_be_named_so_is_said(tmp_path, name):
    with says(UsageError) as caught:
        check_writable("log_root", str(tmp_path / name))
    assert str(caught.value).isprintable()


def test_checking_a_log_root_leaves_no_trace(tmp_path):
    check_writable("log_root", str(tmp_path / "new" / "deep"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    with says(UsageError):
        check_writable("log_root", str(tmp_path / "file" / "deep"))


def test_the_old_file_stays_while_a_new_one_is_written(folder):
    def write(part: Path) -> None:
        assert part.name == "policy.pth"  # Some libraries choose a format by the suffix.
        assert part.parent.parent == folder.path
        part.write_text("new")
        assert (folder.path / "policy.pth").read_text() == "old"

    whole = folder.write_atomically("deep/er/policy.pth", lambda part: part.write_text("whole"))
    assert whole == folder.path / "deep/er/policy.pth"
    assert whole.read_text() == "whole"
    assert os.listdir(whole.parent) == ["policy.pth"]
    folder.write_atomically("policy.pth", lambda part: part.write_text("old"))
    folder.write_atomically("policy.pth", write)
    assert (folder.path / "policy.pth").read_text() == "new"


def test_a_write_that_fails_leaves_nothing(folder):
    def write(part: Path) -> None:
        part.write_text("hal")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.write_atomically("checkpoints/policy.pth", write)
    assert list(folder.checkpoints.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        folder.write_atomically("policy.pth", lambda part: None)


def test_the_manifest_is_json_and_each_rank_has_a_log_whose_folder_is_made(folder):
    folder.write_manifest({"seed": 3, "path": Path("a"), "name": "ü"})
    text = (folder.path / "manifest.json").read_text()
    assert json.loads(text) == {"seed": 3, "path": "a", "name": "ü"}
    folder = RunFolder(folder.path / "not made here")
    assert folder.log_file(3) == folder.path / "logs" / "rank_3.log"
    assert folder.log_file(3).parent.is_dir()
