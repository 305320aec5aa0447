"""A disk that takes no files: training goes on, and what is missing is written later."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import stub_parts

from rltrain import train
from rltrain.errors import UsageError
from rltrain.files.disk import Mount, NotWritten, disk_errors
from rltrain.hookspecs import hookimpl
from rltrain.plugins.manager import RunPlugins
from rltrain.ranks.ending import Requests
from rltrain.records import Scalars
from rltrain.run.output import IO_ERROR
from rltrain.run.session import RankSession
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.checkpoints import saved_checkpoints
from rltrain.storage.finding import find_checkpoint
from rltrain.storage.metrics_file import read_metrics
from rltrain.testing import FakeWorld, make_config
from rltrain.types import World

FULL = OSError(errno.ENOSPC, "No space left on device")
SIZE = 200_000


class Ranks:
    """The plugins of a rank, which trains as a test's `each(session, iteration)` says."""

    def __init__(self, group, each):
        self.group, self.each = group, each

    @hookimpl
    def rltrain_init_distributed(self):
        return self.group

    @hookimpl
    def rltrain_train(self, session):
        session.watch("nothing", dict)
        session.env.reset()
        for iteration in range(1, session.config.max_iterations + 1):
            self.each(session, iteration)
            session.env.step(np.zeros((session.env.num_envs, 1)))
            session.record(Scalars(iteration, {}))
            if session.should_save or iteration in (1, 4):
                session.save_checkpoint(f"{iteration}.pt", save, iteration)
        return session.result()


def save(path):
    path.write_bytes(bytes(SIZE))


def run(each, log_root, writer=None, iterations=5, kind="writer"):
    """Run two ranks of a fake world; return rank 0's result."""

    def rank(group):
        plugins = RunPlugins()
        plugins.register(Ranks(group, each), "library")
        plugins.register(stub_parts.StubSuite(), "suite")
        if writer is not None and group.rank == 0:
            plugins.register(writer, f"{kind}:mine")
        config = make_config(
            distributed=True, log_root=str(log_root), num_envs=2, max_iterations=iterations
        )
        return RankSession(config, World(group.rank, 0, group.rank, 2, 1, 2), plugins).run()

    return FakeWorld(2).run(rank)[0]


def fill(folder):
    with contextlib.suppress(OSError):
        (folder / "ballast").write_bytes(bytes(2 << 20))


def at(number, action, rank=0):
    """Return what does something in an iteration."""

    def each(session, iteration):
        if iteration == number and session.world.rank == rank:
            action(session)

    return each


def said(capsys):
    lines = capsys.readouterr().out.splitlines()
    return list(dict.fromkeys(line for line in lines if line.startswith("rltrain: ")))


def names(run_dir):
    return [entry["name"] for entry in saved_checkpoints(Path(run_dir), lambda text: None)]


def test_a_checkpoint_is_saved_once_the_disk_has_room(stub, small_disk, capsys):
    def each(session, iteration):
        if session.world.is_root and iteration == 4:
            fill(small_disk)
        if session.world.is_root and iteration == 5:
            (small_disk / "ballast").unlink()

    result = run(each, small_disk)
    assert names(result.run_dir) == ["1.pt", "5.pt"]
    assert Path(result.checkpoint).name == "5.pt"
    assert Checkpoint(Path(result.checkpoint)).state["iteration"] == 5
    assert result.exit_code == 0
    assert said(capsys) == [
        "rltrain: cannot write checkpoints (No space left on device): training goes on, and tries "
        "again",
        "rltrain: checkpoints can be written again",
    ]


def test_a_run_whose_last_checkpoint_is_missing_ends_with_a_status_of_its_own(
    stub, small_disk, capsys
):
    result = run(at(3, lambda session: fill(small_disk)), small_disk)
    assert result.exit_code == IO_ERROR == 74
    assert result.iterations == 5
    assert Path(result.checkpoint).name == "1.pt"
    assert said(capsys)[-1] == "rltrain: not written: checkpoints (No space left on device)"
    config = make_config(log_root=str(small_disk), library="rl_games", checkpoint="latest")
    assert str(find_checkpoint(config, print)) == result.checkpoint
    assert not list(Path(result.run_dir).rglob(".*"))  # Nothing is half-written.


def test_a_run_folder_that_was_removed_is_made_again(stub, tmp_path, capsys):
    result = run(at(3, lambda session: shutil.rmtree(session.run_folder.path)), tmp_path)
    assert names(result.run_dir) == ["4.pt"]
    folder = Path(result.run_dir)
    assert json.loads((folder / "manifest.json").read_text())["world_size"] == 2
    assert (folder / "config.yaml").exists()
    assert (result.exit_code, said(capsys)) == (0, [])


def mount(*words):
    subprocess.run(words, check=True)


def lose(folder):
    mount("umount", "--lazy", str(folder))


NO_DISK = "its disk is no longer mounted"


def test_a_disk_that_is_lost_is_named_and_nothing_is_written_in_its_place(stub, small_disk, capsys):
    result = run(at(3, lambda session: lose(small_disk)), small_disk)
    assert (result.exit_code, result.iterations) == (IO_ERROR, 5)
    assert list(small_disk.iterdir()) == []
    lines = said(capsys)
    reason = f"({NO_DISK}): training goes on, and tries again"
    assert f"rltrain: cannot write checkpoints {reason}" in lines
    assert lines[-1].startswith("rltrain: not written: ")
    assert f"rltrain: not written: checkpoints ({NO_DISK})" in lines


def test_a_disk_that_is_mounted_again_is_written_on(stub, small_disk, tmp_path, capsys):
    (other := tmp_path / "other").mkdir()
    mount("mount", "--bind", str(small_disk), str(other))

    def each(session, iteration):
        if session.world.is_root and iteration == 4:
            lose(small_disk)
        if session.world.is_root and iteration == 5:
            mount("mount", "--bind", str(other), str(small_disk))

    try:
        result = run(each, small_disk)
        assert (result.exit_code, names(result.run_dir)) == (0, ["1.pt", "5.pt"])
        assert said(capsys)[-1].endswith("can be written again")
    finally:
        lose(other)


def test_a_folder_that_comes_back_with_another_number_of_its_disk(tmp_path, monkeypatch):
    place, found = Mount(tmp_path), tmp_path.stat()
    monkeypatch.setattr("rltrain.files.disk._place", lambda _: (-1, found.st_ino))
    place.check()
    monkeypatch.setattr("rltrain.files.disk._place", lambda _: (-1, found.st_ino + 1))
    with pytest.raises(NotWritten, match=NO_DISK):
        place.check()


def test_a_folder_on_a_disk_of_its_own(small_disk):
    place = Mount(small_disk / "a" / "b")
    (small_disk / "a" / "b").mkdir(parents=True)
    place.check()
    shutil.rmtree(small_disk / "a")
    place.check()  # Removed: it may be made again.
    lose(small_disk)
    with pytest.raises(NotWritten, match=NO_DISK):
        place.check()


@pytest.mark.parametrize("kind", [RuntimeError, OSError])
def test_a_librarys_own_error_of_a_full_disk_is_recognized(tmp_path, small_disk, kind):
    fill(small_disk)
    with pytest.raises(NotWritten) as caught, disk_errors(small_disk):
        raise kind("PytorchStreamWriter failed writing file data.pkl: file write failed")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    "number",
    [
        *(errno.EMFILE, errno.ENFILE, errno.EISDIR, errno.EXDEV, errno.ENOTDIR, errno.ELOOP),
        *(errno.EROFS, errno.EIO, errno.ESTALE, errno.EDQUOT, errno.EBUSY, errno.EHOSTDOWN),
    ],
)
def test_what_the_system_refuses_for_a_moment_is_not_written(tmp_path, number):
    with pytest.raises(NotWritten) as caught, disk_errors(tmp_path):
        raise OSError(number, "refused")
    assert caught.value.errno == number


@pytest.mark.parametrize(
    "error",
    [
        *(RuntimeError("shapes differ"), FileNotFoundError(2, "no file", "x"), MemoryError()),
        *(OSError(errno.EBADF, "closed"), OSError("of a library")),
    ],
)
def test_a_mistake_in_what_writes_stays_an_error(tmp_path, error):
    with pytest.raises(type(error)) as caught, disk_errors(tmp_path):
        raise error
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_log_root_without_room_is_refused_before_the_run(stub, small_disk):
    fill(small_disk)
    with pytest.raises(UsageError, match=r"--log-root .* \(No space left on device\)"):
        train(**{**stub.OPTIONS, "log_root": str(small_disk)})


class FailingWriter:
    def __init__(self, error, records):
        self.error, self.records, self.count = error, records, 0

    @hookimpl
    def rltrain_write(self, record):
        self.count += 1
        if self.count in self.records:
            raise self.error


@pytest.mark.parametrize(("records", "code"), [(range(2, 4), 0), (range(2, 99), IO_ERROR)])
def test_a_writer_that_cannot_write_does_not_end_the_run(stub, tmp_path, capsys, records, code):
    writer = FailingWriter(FULL, records)
    result = run(lambda *_: None, tmp_path, writer)
    assert (result.exit_code, result.iterations) == (code, 5)
    lines = said(capsys)
    assert len(lines) == 2
    assert "cannot write records (writer mine) (No space left on device)" in lines[0]
    missing = "not written: records (writer mine)" in lines[1]
    assert missing == (code != 0)
    warnings = read_metrics(Path(result.run_dir)).warnings
    again = [] if missing else [(2, "records (writer mine) can be written again")]
    reason = "(No space left on device): training goes on, and tries again"
    found = [(warning.iteration, warning.text) for warning in warnings]
    assert found == [(1, f"cannot write records (writer mine) {reason}"), *again]


@pytest.mark.parametrize("records", [[1], [2], range(1, 99), [99]], ids=str)
def test_a_writer_that_raises_is_named_once_and_the_status_says_so(stub, tmp_path, capsys, records):
    writer = FailingWriter(ValueError("a mistake"), records)
    result = run(lambda *_: None, tmp_path, writer)
    fails = 99 not in list(records)[:1]
    assert (result.exit_code, result.iterations) == (IO_ERROR if fails else 0, 5)
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if line.startswith("rltrain: ")]
    assert len(lines) == 2 * fails
    if fails:
        assert lines[0] == (
            "rltrain: the writer mine raises ValueError: a mistake. Training goes on, without some "
            "of its records; the rank's log has its traceback."
        )
        assert lines[1] == "rltrain: not written: records (writer mine) (ValueError: a mistake)"
        assert printed.err.count("Traceback") == 1


def test_an_observer_that_raises_is_named_as_a_writer_is(stub, tmp_path, capsys):
    observer = FailingWriter(ValueError("a mistake"), [2])
    result = run(lambda *_: None, tmp_path, observer, kind="observer")
    assert (result.exit_code, result.iterations) == (IO_ERROR, 5)
    assert "rltrain: the observer mine raises ValueError: a mistake. " in capsys.readouterr().out


def test_a_writer_may_refuse_a_run(stub, tmp_path):
    with pytest.raises(UsageError, match="log in first"):
        run(lambda *_: None, tmp_path, FailingWriter(UsageError("log in first"), [1]))


class FailsAtTheEnd:
    @hookimpl
    def rltrain_write(self, record): ...

    @hookimpl
    def rltrain_shutdown(self):
        raise ValueError("too late")


def test_a_writer_that_raises_at_the_end_is_named_too(stub, tmp_path, capsys):
    result = run(lambda *_: None, tmp_path, FailsAtTheEnd())
    assert (result.exit_code, result.iterations) == (IO_ERROR, 5)
    assert "not written: records (writer mine) (ValueError: too late)" in capsys.readouterr().out


def test_what_was_not_saved_is_tried_again_at_once_and_then_ever_later():
    requests = Requests(None, is_root=True)
    tried = []
    for iteration in range(1, 300):
        if requests.votes(iteration)[2] or iteration == 1:
            tried.append(iteration)
            requests.not_saved()
    assert tried == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    requests.saved()
    requests.not_saved()
    assert requests.votes(300)[2]
