"""A disk that takes no files: a checkpoint ends the run, a writer is named."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_up_sessions import session_of
from messages import check_said, says

from rltrain import train
from rltrain.errors import UsageError
from rltrain.files.disk import NotWritten, disk_errors
from rltrain.hookspecs import hookimpl
from rltrain.records import Scalars
from rltrain.run.recording import IO_ERROR, NotSaved
from rltrain.storage.checkpoint import saved_checkpoints
from rltrain.storage.run import find_checkpoint
from rltrain.testing import FakeWorld, make_config

FULL = OSError(errno.ENOSPC, "No space left on device")
SIZE = 200_000


def save(path):
    path.write_bytes(bytes(SIZE))


def run(each, log_root, writer=None, iterations=5, kind="writer"):
    def body(session):
        session.env.reset()
        for iteration in range(1, iterations + 1):
            each(session, iteration)
            session.env.step(np.zeros((session.env.num_envs, 1)))
            session.record(Scalars(iteration, {}))
            if session.should_save or iteration in (1, 4):
                session.save_checkpoint(f"{iteration}.pt", save, iteration)

    def rank(group):
        plugins = {} if writer is None or group.rank else {f"{kind}:mine": writer}
        where = {"log_root": str(log_root), "max_iterations": iterations}
        return session_of(group, body, plugins, **where).run()

    return FakeWorld(2).run(rank)[0]


def fill(folder):
    with contextlib.suppress(OSError):
        (folder / "ballast").write_bytes(bytes(2 << 20))


def at(number, action):
    def each(session, iteration):
        if iteration == number and not session.world.rank:
            action(session)

    return each


def test_a_checkpoint_that_cannot_be_written_ends_the_run(stub, small_disk, capsys):
    with says(NotSaved) as ended:
        run(at(3, lambda session: fill(small_disk)), small_disk)
    assert (ended.value.exit_code, ended.value.may_restart) == (IO_ERROR, False)
    found = find_checkpoint(
        make_config(log_root=str(small_disk), library="rl_games", checkpoint="latest"), print
    )
    assert Path(str(found)).name == "1.pt"
    saved = saved_checkpoints(found.path.parents[1], lambda text: None)
    assert [entry["name"] for entry in saved] == ["1.pt"]
    assert not list(small_disk.rglob(".*"))  # Nothing is half-written.


def test_a_run_folder_that_was_removed_is_not_made_again(stub, tmp_path):
    with says(NotSaved):
        run(at(3, lambda session: shutil.rmtree(session.run_folder.path)), tmp_path)
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize("kind", [RuntimeError, OSError])
def test_a_librarys_own_error_of_a_full_disk_is_recognized(small_disk, kind):
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


def test_a_log_root_without_room_and_a_writer_refuse_a_run(stub, small_disk, tmp_path):
    with says(UsageError):
        run(lambda *_: None, tmp_path, FailingWriter(UsageError("log in first"), [1]))
    fill(small_disk)
    with says(UsageError):
        train(**{**stub.OPTIONS, "log_root": str(small_disk)})


class FailingWriter:
    def __init__(self, error, records):
        self.error, self.records, self.count = error, records, 0

    @hookimpl
    def rltrain_write(self, record):
        self.count += 1
        if self.count in self.records:
            raise self.error


@pytest.mark.parametrize("records", [[1], [2], range(1, 99), [99]], ids=str)
@pytest.mark.parametrize("error", [ValueError("a mistake"), FULL], ids=["mistake", "disk"])
def test_a_writer_that_raises_is_named_once_and_the_status_says_so(
    stub, tmp_path, capsys, records, error
):
    writer = FailingWriter(error, records)
    result = run(lambda *_: None, tmp_path, writer)
    fails = 99 not in list(records)[:1]
    assert (result.exit_code, result.iterations) == (IO_ERROR if fails else 0, 5)
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if line.startswith("rltrain: ")]
    assert len(lines) == 2 * fails
    if fails:
        check_said(lines[0])
        check_said(lines[1])
        assert printed.err.count("Traceback") == 1


class FailsAtTheEnd:
    @hookimpl
    def rltrain_write(self, record): ...

    @hookimpl
    def rltrain_shutdown(self):
        raise ValueError("too late")


@pytest.mark.parametrize(
    ("kind", "plugin"),
    [("writer", FailsAtTheEnd()), ("observer", FailingWriter(ValueError("a mistake"), [2]))],
)
def test_a_writer_at_the_end_and_an_observer_are_named_too(stub, tmp_path, capsys, kind, plugin):
    result = run(lambda *_: None, tmp_path, plugin, kind=kind)
    assert (result.exit_code, result.iterations) == (IO_ERROR, 5)
    check_said(capsys.readouterr().out)
