"""Private temporary folders, and those that killed processes have left."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from helpers import python
from messages import says

from rltrain.errors import UsageError
from rltrain.ranks.folders import private_folder, remove_leftovers


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def killed(temporary):
    """Return the folder of a process that was killed in the middle of its work."""
    code = """
        import sys
        from rltrain.ranks.folders import private_folder
        with private_folder() as folder:
            (folder / "report").touch()
            print(folder, flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        folder = Path(process.stdout.readline().strip())
        remove_leftovers()
        assert folder.parent == temporary
        assert folder.is_dir()  # The process lives.
        process.send_signal(signal.SIGKILL)
    return folder


def test_a_folder_is_private_and_removed_with_what_was_left_meanwhile(temporary):
    with private_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").touch()
        remove_leftovers()
        assert (folder / "file").exists()
        (temporary / "rltrain-of-a-killed-rank.private").mkdir()
    assert list(temporary.iterdir()) == []


def test_a_machine_without_any_place_is_refused_in_a_line(monkeypatch):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with says(UsageError), private_folder():
        pass


def test_what_a_killed_process_left_is_removed_by_the_next_one_also_if_it_was_removing_it(
    killed, temporary
):
    with private_folder() as folder:
        assert list(temporary.iterdir()) == [folder]
    code = """
        import os
        from rltrain.ranks.folders import private_folder
        with private_folder() as folder:
            (folder / "run").mkdir()
            os.rmdir = lambda path, **_: os.kill(os.getpid(), 9) if "rltrain-" in str(path) else 0
    """
    python(code, check=False)
    assert len(list(temporary.iterdir())) == 1
    remove_leftovers()
    assert list(temporary.iterdir()) == []


def test_what_is_not_a_leftover_stays(killed, temporary):
    (temporary / "rltrain-of-the-user").mkdir()
    (temporary / "other-folder").mkdir()
    (temporary / "rltrain-file").touch()
    elsewhere = killed.rename(temporary / "elsewhere")
    (temporary / "rltrain-link.private").symlink_to(elsewhere)
    before = sorted(temporary.iterdir())
    remove_leftovers()
    assert sorted(temporary.iterdir()) == before
    assert (elsewhere / "report").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_another_users_folder_stays(killed):
    os.chown(killed, 12345, 12345)
    remove_leftovers()
    assert killed.is_dir()
