"""Files that somebody else may have written: plain ones are read, and no more than fits."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from messages import says

from rltrain.files.reading import Unreadable, read_bytes, read_text


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "media").mkdir(parents=True)
    (folder / "media" / "a.png").write_bytes(b"picture")
    (tmp_path / "private.txt").write_bytes(b"private")
    return folder


def test_a_file_is_read_through_links_within_the_folder(run: Path) -> None:
    (run / "link").symlink_to("media/a.png")
    (run / "folder").symlink_to(run / "media")
    for name in ("media/a.png", "link", "folder/a.png", "media/../link"):
        assert read_bytes(run / name, 7, run) == b"picture"
    # The folder may be reached by a link.
    other = run.parent / "other"
    other.symlink_to(run)
    assert read_bytes(other / "media/a.png", 7, other) == b"picture"


@pytest.mark.parametrize("target", ["../private.txt", "media/../../private.txt", "{absolute}"])
def test_a_link_out_of_the_folder_is_refused(run: Path, target: str) -> None:
    (run / "link").symlink_to(target.format(absolute=run.parent / "private.txt"))
    with says(Unreadable):
        read_bytes(run / "link", 100, run)
    assert read_bytes(run / "link", 100) == b"private"


def test_a_folder_that_is_a_link_out_is_refused_and_one_whose_name_begins_alike(run: Path) -> None:
    (run / "out").symlink_to(run.parent)
    with says(Unreadable):
        read_bytes(run / "out" / "private.txt", 100, run)
    beside = run.parent / "run2"
    beside.mkdir()
    (beside / "a").write_bytes(b"x")
    with pytest.raises(Unreadable):
        read_bytes(run / ".." / "run2" / "a", 100, run)


@pytest.fixture(params=["fifo", "folder", "socket", "zero", "link to zero", "link to fifo"])
def special(
    request: pytest.FixtureRequest, run: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    path = run / "special"
    os.mkfifo(run / "fifo")
    open_socket = socket.socket(socket.AF_UNIX)
    if request.param == "folder":
        path.mkdir()
    elif request.param == "socket":
        monkeypatch.chdir(run)  # A socket's path may have 107 bytes.
        open_socket.bind("special")
    elif "zero" in request.param:
        path = Path("/dev/zero")
    if "link" in request.param:
        (run / "link").symlink_to(path if "zero" in request.param else run / "fifo")
        path = run / "link"
    yield run / "fifo" if request.param == "fifo" else path
    open_socket.close()


def test_what_is_no_plain_file_is_refused_at_once(special: Path) -> None:
    begun = time.monotonic()
    with says(Unreadable):
        read_bytes(special, 100)
    assert time.monotonic() - begun < 5


def test_a_writer_of_a_pipe_does_not_notice(run: Path) -> None:
    """A pipe is not opened: whoever waits for a reader goes on waiting."""
    os.mkfifo(run / "fifo")
    opened = threading.Event()

    def write() -> None:
        with open(run / "fifo", "wb"):
            opened.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    time.sleep(0.2)
    with pytest.raises(Unreadable):
        read_bytes(run / "fifo", 100)
    assert not opened.wait(0.2)
    os.close(os.open(run / "fifo", os.O_RDONLY | os.O_NONBLOCK))
    writer.join(5)


def test_a_file_of_any_size_costs_no_memory(run: Path) -> None:
    with (run / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    with says(Unreadable):
        read_bytes(run / "sparse", 100)
    with says(Unreadable):
        read_bytes(run / "media/a.png", 6)


def test_a_missing_file_is_missing_and_text_is_utf_8(run: Path) -> None:
    (run / "link").symlink_to("nowhere")
    for name in ("absent", "link"):
        with pytest.raises(FileNotFoundError):
            read_bytes(run / name, 100, run)
    (run / "text").write_text("grün", encoding="utf-8")
    assert read_text(run / "text", 100, run) == "grün"
    (run / "text").write_bytes(b"\xff\xfe")
    with says(Unreadable):
        read_text(run / "text", 100)
