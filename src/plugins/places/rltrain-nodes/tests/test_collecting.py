"""The files of other nodes come to the run folder of rank 0's node."""

from __future__ import annotations

import socket
import threading

import pytest

from rltrain_nodes.collecting import requested, send_files, take_file
from rltrain_nodes.line import File, parse_message
from rltrain_nodes.messages import receive_line


@pytest.fixture
def here(tmp_path):
    """The run folder on node 0."""
    return folder(tmp_path / "here")


@pytest.fixture
def there(tmp_path):
    """The run folder on another node."""
    return folder(tmp_path / "there")


def folder(path):
    path.mkdir()
    return path


def files(path):
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if not each.is_dir())


def collect(here, there):
    """Bring the files, and return their names in the order in which they came."""
    names = []
    a, b = socket.socketpair()
    with a, b, requested(str(here)) as (_, mark):
        sender = threading.Thread(target=send_files, args=(b, str(there), mark), daemon=True)
        sender.start()
        while isinstance(said := parse_message(receive_line(a, 30)), File):
            names.append(said.name)
            take_file(a, str(here), said.name, said.size)
        sender.join(30)
    return names


def test_all_files_that_node_0_lacks_come(here, there):
    long = bytes(range(256)) * 10_000
    for name, content in (("logs/rank_1.log", long), ("videos/a/b.mp4", b"x"), ("empty", b"")):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(content)
    for path, text in ((here, "mine"), (there, "not mine")):
        (path / "manifest.json").write_text(text)
    assert collect(here, there) == ["empty", "videos/a/b.mp4", "manifest.json", "logs/rank_1.log"]
    assert files(here) == ["empty", "logs/rank_1.log", "manifest.json", "videos/a/b.mp4"]
    assert (here / "manifest.json").read_text() == "mine"
    assert (here / "logs" / "rank_1.log").read_bytes() == long


def test_links_and_partial_files_stay_where_they_are(here, there, tmp_path):
    (tmp_path / "secret").write_text("x")
    (there / "link").symlink_to(tmp_path / "secret")
    (there / "linked").symlink_to(tmp_path)
    (there / ".partial-video.mp4").write_text("half")
    (there / ".partial-1-last.pt").mkdir()
    (there / ".partial-1-last.pt" / "last.pt").write_text("half")
    assert collect(here, there) == []


def test_nothing_is_copied_on_a_shared_disk(here):
    (here / "rank_1.log").write_text("x")
    assert collect(here, here) == []
    assert files(here) == ["rank_1.log"]


@pytest.mark.parametrize("name", ["../out", "{}/out", "a/../../out", "", ".", "linked/out"])
def test_no_file_leaves_the_run_folder(here, tmp_path, capsys, name):
    name = name.format(tmp_path)
    (here / "linked").symlink_to(tmp_path)
    before = files(tmp_path)
    a, b = socket.socketpair()
    with a, b:
        b.sendall(b"hello!")
        take_file(a, str(here), name, 5)
        assert a.recv(1) == b"!"  # The next message can be read.
    assert "it is outside of the run folder" in capsys.readouterr().err
    assert files(tmp_path) == before


def test_a_file_is_complete_or_absent(here):
    a, b = socket.socketpair()
    with a, b:
        b.sendall(b"hel")
        taking = threading.Thread(target=pytest.raises, args=(EOFError, take_file, a, here, "x", 5))
        taking.start()
        while not files(here):
            assert taking.is_alive()
        assert all(name.startswith(".partial-") for name in files(here))
        b.close()
        taking.join(30)
    assert files(here) == []


def test_a_file_that_cannot_be_written_does_not_fail_the_run(here, there, capsys):
    (there / "a").mkdir()
    (there / "a" / "log").write_text("x")
    (there / "b").write_text("longer")
    (here / "a").write_text("in the way")
    assert collect(here, there) == ["a/log", "b"]
    assert files(here) == ["a", "b"]
    assert f"{here}/a/log: a file of another node cannot be written: " in capsys.readouterr().err


def test_a_run_folder_that_is_gone_does_not_fail_the_run(here, there, capsys):
    (there / "log").write_text("x")
    here.rmdir()
    with requested(str(here)) as request:
        assert request == ("", "")
    assert f"{here}: the files of other nodes cannot be written there: " in capsys.readouterr().err
