"""What a rank prints is shown on the console too, after its number, if the user wants it."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import pytest

from rltrain.ranks.logs import RankLog


def shown(monkeypatch):
    """Return the console from now on: pytest sets its own between fixtures and the test."""
    console = io.StringIO()
    monkeypatch.setattr(sys, "stdout", console)
    return console


def test_lines_are_shown_after_the_ranks_number(tmp_path, monkeypatch):
    console = shown(monkeypatch)
    with RankLog(tmp_path / "early") as log:
        print("before")
        with log.echoed(3):
            os.write(1, "from C, ü\n".encode())
            log.move(tmp_path / "late")
            print("moved\nunfinished", end="")
    assert console.getvalue().splitlines() == [
        *("[rank 3] before", "[rank 3] from C, ü", "[rank 3] moved", "[rank 3] unfinished")
    ]
    assert (tmp_path / "late").read_text() == "before\nfrom C, ü\nmoved\nunfinished"


def test_a_log_that_is_rotated_is_shown_whole(tmp_path, monkeypatch):
    console = shown(monkeypatch)
    monkeypatch.setattr("rltrain.ranks.logs.LIMIT", 10)
    with RankLog(tmp_path / "early") as log:
        log.move(tmp_path / "late")
        with log.echoed(0):
            print("a first line")
            log.rotate()
            print("a second")
    assert console.getvalue() == "[rank 0] a first line\n[rank 0] a second\n"
    assert (tmp_path / "late").read_text() == "a second\n"


def test_what_ranks_that_failed_have_printed_is_not_shown_again(tmp_path, monkeypatch):
    console = shown(monkeypatch)
    late = tmp_path / "late"
    late.write_text("failed\n")
    with RankLog(tmp_path / "early") as log, log.echoed(3):
        print("before")
        log.move(late)
        print("moved")
    assert console.getvalue() == "[rank 3] before\n[rank 3] moved\n"
    assert late.read_text() == "failed\nbefore\nmoved\n"


def test_an_error_is_shown_too(tmp_path, monkeypatch):
    console = shown(monkeypatch)
    with contextlib.suppress(OSError), RankLog(tmp_path / "log") as log, log.echoed(0):
        print("last words")
        raise OSError
    assert console.getvalue() == "[rank 0] last words\n"


def test_a_console_that_no_one_reads_does_not_disturb_the_rank(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    unread = os.fdopen(writer, "w", buffering=1)
    monkeypatch.setattr(sys, "stdout", unread)
    with RankLog(tmp_path / "log") as log, log.echoed(0):
        print("unseen")
    with pytest.raises(BrokenPipeError):
        unread.close()  # What could not be written is left.
    assert (tmp_path / "log").read_text() == "unseen\n"
