"""Checkpoints, the ranks' state beside them, and how both are found."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import pytest
from made_up_runs import made_state
from messages import check_said, says
from wrong_content import KINDS, put

from rltrain.data import pack_state
from rltrain.errors import UsageError
from rltrain.storage.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    save_with_state,
    saved_checkpoints,
)
from rltrain.storage.run import find_checkpoint
from rltrain.storage.run_folder import RunFolder, create_run_folder
from rltrain.testing import make_config


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def save(folder, name, text, iteration=1, episode_return=None, **more):
    state = made_state(iteration, episode_return, **more)
    return save_with_state(folder, name, lambda path: path.write_text(text), state)


def test_state_is_restored_with_the_file_it_was_saved_with(folder):
    path = save(folder, "a.pth", "weights", 7, ranks=[b"0", b"1"])
    assert path.read_text() == "weights"
    found = Checkpoint(path)
    assert {**found.state, "ranks": []} == made_state(7)
    assert [found.part(rank) for rank in range(2)] == [b"0", b"1"]
    with pytest.raises(LookupError):
        found.part(2)


def test_a_rank_reads_its_own_part_and_no_other(folder):
    path = save(folder, "a.pth", "weights", ranks=[b"own" * 99, b"other" * 99])
    state = state_of(path)
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    found = Checkpoint(path)
    assert found.part(0) == b"own" * 99
    for read in (lambda: found.part(1), found.check):
        with says(DamagedCheckpoint):
            read()


def test_replacing_a_file_replaces_its_state(folder):
    save(folder, "best_[1.5].pth", "old", 1)
    path = save(folder, "best_[1.5].pth", "new", 2)
    assert Checkpoint(path).state["iteration"] == 2
    assert len(list(folder.path.glob("checkpoints/ranks/*"))) == 1
    alone = path.rename(folder.path / "alone.pth")  # Copied without its state, it has none.
    assert Checkpoint(alone).state is None


def state_of(checkpoint) -> Path:
    (state,) = (checkpoint.parent / "ranks").glob(f"{checkpoint.name}*")
    return state


@pytest.mark.parametrize("of", [lambda path: path, state_of], ids=["checkpoint", "state"])
@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_damage_is_noticed(folder, of, tenth, how):
    path = save(folder, "a.pth", "weights" * 30, ranks=[b"0" * 300])
    damaged = of(path)
    contents = bytearray(damaged.read_bytes())
    place = len(contents) * tenth // 10
    if how == "cut":
        contents = contents[:place]
    else:
        contents[place] ^= 1
    damaged.write_bytes(contents)
    told = rf"{path}: is damaged: {damaged.name} is not what was written"
    with pytest.raises(UsageError, match=told):
        Checkpoint(path).check()


class Planted:
    def __init__(self, folder):
        self.file = folder / "planted"

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def test_a_state_that_would_run_code_is_refused_unless_it_is_trusted_and_a_pickle_always(
    folder, tmp_path
):
    planted = Planted(tmp_path)
    path = save(folder, "a.pth", "weights", more=planted)
    with says(UsageError):
        Checkpoint(path).check()
    assert not planted.file.exists()
    Checkpoint(path, trusted=True).check()
    assert planted.file.exists()
    # Somebody who can compute a digest wrote it: it is refused in any case.
    path = save(folder, "b.pth", "weights")
    planted.file.rmdir()
    with_digest(state_of(path), pickle.dumps(made_state(3, more=planted)))
    for trusted in (False, True):
        with says(UsageError):
            Checkpoint(path, trusted=trusted).check()
    assert not planted.file.exists()


def with_digest(path, packed):
    length = len(packed).to_bytes(8, "little")
    digest = hashlib.sha256(length + packed).digest()
    path.write_bytes(b"rltrain state 2\n" + digest + length + packed)


WRONG_STATES = [[], None, {}, "text", *({"ranks": x} for x in (None, [1], "ranks", [[1, "0"]]))]


@pytest.mark.parametrize("state", WRONG_STATES, ids=range(len(WRONG_STATES)))
def test_a_state_with_wrong_contents_is_damaged(folder, state):
    path = save(folder, "a.pth", "weights")
    with_digest(state_of(path), pack_state(state, {}))
    with says(DamagedCheckpoint):
        Checkpoint(path).check()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_no_state(folder, kind):
    path = save(folder, "a.pth", "weights")
    state = state_of(path)
    put(kind, state)
    with pytest.raises(DamagedCheckpoint):
        Checkpoint(path).check()


def test_an_interrupted_save_keeps_the_previous_state_and_file(folder, monkeypatch):
    path = save(folder, "a.pth", "old", 1)
    replace = os.replace

    def stop_before_the_file(source, target):
        if str(target).endswith("a.pth"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop_before_the_file)
    with pytest.raises(KeyboardInterrupt):
        save(folder, "a.pth", "new", 2)
    assert (path.read_text(), Checkpoint(path).state["iteration"]) == ("old", 1)


@pytest.mark.parametrize(("keep", "left"), [(None, "abcdef"), (6, "abcdef"), (2, "def"), (1, "df")])
def test_the_newest_checkpoints_and_the_best_are_kept(folder, keep, left):
    returns = {"a": None, "b": 9.0, "c": 5.0, "d": 9.0, "e": None, "f": 7.0}
    for iteration, (name, figure) in enumerate(returns.items()):
        state = made_state(iteration, figure)
        save_with_state(folder, name, lambda path: path.write_text("x"), state, keep)
    assert "".join(entry["name"] for entry in saved_checkpoints(folder.path, pytest.fail)) == left
    for where in (folder.checkpoints, folder.checkpoints / "ranks"):
        assert "".join(sorted(path.name[0] for path in where.iterdir() if path.is_file())) == left


@pytest.fixture
def runs(tmp_path):
    made = []
    for name in ("first", "second"):
        run = create_run_folder(str(tmp_path), "lib", "Task/v1", name)
        for iteration, figure in ((1, None), (2, 9.0), (3, 5.0)):
            save(run, f"{iteration}.pth", f"{name} {iteration}", iteration, figure)
        made.append(run)
    return made


def find(choice, root, library="lib", task="Task/v1", warn=pytest.fail) -> str:
    config = made_config(root, library=library, task=task, checkpoint=choice)
    return find_checkpoint(config, warn).path.read_text()


def made_config(root, **options):
    return make_config(**{"library": "lib", "task": "Task/v1", **options, "log_root": str(root)})


@pytest.mark.parametrize(("choice", "text"), [("latest", "second 3"), ("best", "second 2")])
def test_latest_and_best_come_from_the_newest_run(runs, tmp_path, choice, text):
    create_run_folder(str(tmp_path), "lib", "Task/v1", "third, with no checkpoint")
    assert find(choice, tmp_path) == text


def test_a_run_that_is_started_again_goes_on_from_its_own(runs, tmp_path):
    def of_name(name, **more):
        config = made_config(tmp_path, run_name=name, auto_resume=True, **more)
        return find_checkpoint(config, pytest.fail)

    for run, name in zip(runs, ("first", "second"), strict=True):
        run.write_manifest({"config": {"run_name": name}})
    for name, found in (("first", "first 3"), ("second", "second 3")):
        assert of_name(name).path.read_text() == found
    assert of_name("fir") is None
    assert of_name("fir", checkpoint="best").path.read_text() == "second 2"
    (runs[1].path / "manifest.json").unlink()
    assert of_name("second") is None


@pytest.mark.parametrize(("choice", "text"), [("latest", "second 1"), ("best", "first 2")])
def test_damaged_checkpoints_and_one_that_is_gone_are_passed_over_with_a_warning(
    runs, tmp_path, choice, text
):
    for name in ("3.pth", "2.pth"):
        (runs[1].checkpoints / name).write_text("damaged")
    warnings = []
    assert find(choice, tmp_path, warn=warnings.append) == text
    check_said("\n".join(warnings))
    gone, warnings = runs[0].checkpoints / "3.pth", []
    (runs[1].checkpoints / "1.pth").write_text("damaged")
    gone.unlink()
    assert find("latest", tmp_path, warn=warnings.append) == "first 2"
    check_said(warnings[-1])


WRONG_INDICES = [
    *("", "{", "[1]", '[{"name": 1}]', '{"name": "3.pth"}', "\xff", "[" * 100_000, "null", "7"),
    *('[{"name": "3.pth", "episode_return": "1"}]', '[{"name": "3.pth", "episode_return": []}]'),
    *(f'[{{"name": "{name}"}}]' for name in ("../manifest.json", "/etc/hosts", "..", ".", "")),
    '[{"name": "a\\u0000b"}]',
]


@pytest.mark.parametrize("text", WRONG_INDICES, ids=lambda text: text[:40])
def test_a_damaged_index_is_made_again(runs, tmp_path, text):
    index = runs[1].path / "checkpoints.json"
    index.write_bytes(text.encode("latin1"))
    warnings = []
    assert find("latest", tmp_path, warn=warnings.append) == "second 3"
    assert find("best", tmp_path, warn=warnings.append) == "second 2"
    check_said("\n".join(warnings))
    save(runs[1], "4.pth", "after", 4)
    assert find("latest", tmp_path) == "after"
    assert find("best", tmp_path) == "second 2"
    save(runs[1], "1.pth", "again", 5, 7.0)  # A name that is saved again is the latest.
    assert find("latest", tmp_path) == "again"


@pytest.mark.parametrize(("library", "task"), [("other", "Task/v1"), ("lib", "Other-v1")])
def test_nothing_to_resume_from_is_reported(runs, tmp_path, library, task):
    with says(UsageError):
        find("latest", tmp_path, library, task)
