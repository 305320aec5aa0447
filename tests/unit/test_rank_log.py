"""A rank's log: all of its output, from Python or from C, goes there, and is shown if wanted."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import python

from rltrain.ranks.logs import LossyFile, RankLog, as_text, console_stream, older


def test_all_output_goes_to_the_file(tmp_path):
    log = tmp_path / "rank_0.log"
    done = python(
        """
        import os, subprocess, sys
        from pathlib import Path
        from rltrain.ranks.logs import RankLog
        print("before")
        with RankLog(Path(sys.argv[1])):
            print("python out")
            print("python err", file=sys.stderr)
            os.write(1, b"C out\\n")
            os.write(2, b"C err\\n")
            subprocess.run(["echo", "from a child"])
        print("after")
        os.write(2, b"C after\\n")
        """,
        str(log),
    )
    assert log.read_text().splitlines() == [
        *("python out", "python err", "C out", "C err", "from a child")
    ]
    assert done.stdout == "before\nafter\n"
    assert done.stderr == "C after\n"


def test_the_console_still_reaches_the_user(tmp_path):
    done = python(
        """
        import sys
        from pathlib import Path
        from rltrain.ranks.logs import RankLog, console_stream
        sys.stdout.write("unflushed ")
        with RankLog(Path(sys.argv[1])) as log:
            print("to the console", file=console_stream())
            print("to the log")
            with RankLog(Path(sys.argv[2])):
                print("from an inner log", file=console_stream())
            print("again", file=console_stream())
        assert console_stream() is sys.stdout
        """,
        str(tmp_path / "log"),
        str(tmp_path / "inner"),
    )
    assert done.stdout == "unflushed to the console\nfrom an inner log\nagain\n"
    assert (tmp_path / "log").read_text() == "to the log\n"
    assert (tmp_path / "inner").read_text() == ""


def test_moving_keeps_the_content_of_both_and_leaves_a_link(tmp_path):
    early, late = tmp_path / "early.log", tmp_path / "late.log"
    with RankLog(early) as log:
        print("one")
        log.move(late)
        print("two")
    assert late.read_text() == "one\ntwo\n"
    assert early.is_symlink()
    assert early.resolve() == late.resolve()
    # That of a rank that starts again goes on in the same file.
    for text in ("failed", "again"):
        with RankLog(tmp_path / f"{text}.log") as log:
            print(text)
            log.move(tmp_path / "rank_0.log")
            print("training")
    assert (tmp_path / "rank_0.log").read_text() == "failed\ntraining\nagain\ntraining\n"


def test_streams_are_restored_after_an_error(tmp_path, monkeypatch):
    streams = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), RankLog(tmp_path / "log"):
        print(1 / 0)
    assert (sys.stdout, sys.stderr) == streams
    assert console_stream() is sys.stdout
    with pytest.raises(FileNotFoundError), RankLog(tmp_path / "missing" / "log"):
        pass
    assert (sys.stdout, sys.stderr) == streams
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert console_stream() is sys.stdout


def test_a_stream_without_a_descriptor_stays_the_console(tmp_path, monkeypatch):
    cell = io.StringIO()
    monkeypatch.setattr(sys, "stdout", cell)
    with RankLog(tmp_path / "log"):
        print("to the log")
        print("to the cell", file=console_stream())
    assert cell.getvalue() == "to the cell\n"
    assert (tmp_path / "log").read_text() == "to the log\n"


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr("rltrain.ranks.logs.LIMIT", 100)


def test_a_long_log_goes_on_in_a_new_file(short, tmp_path):
    early, late = tmp_path / "early.log", tmp_path / "late.log"
    with RankLog(early) as log:
        kept = sys.stdout
        log.move(late)
        for number in range(4):
            log.rotate()
            print(f"{number} " + "x" * 60)
        os.write(2, b"from C\n")
        print("through a kept stream", file=kept)
    assert [line[:6] for line in older(late).read_text().splitlines()] == ["0 xxxx", "1 xxxx"]
    assert late.read_text().splitlines()[2:] == ["from C", "through a kept stream"]
    assert early.resolve() == late.resolve()


def test_a_full_disk_does_not_stop_a_rank_that_prints(small_disk):
    ballast, path = small_disk / "ballast", small_disk / "rank_0.log"
    path.touch()
    with RankLog(path):
        print("before")
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(2 << 20))
        print("x" * 10_000)
        print("still lost")
        ballast.unlink()
        print("after")
    before, *_, after = path.read_text().splitlines()
    assert before == "before"
    assert after.endswith("after")


def test_a_console_on_a_full_disk_does_not_stop_a_rank(tmp_path):
    code = """
        import sys
        from pathlib import Path
        from rltrain.ranks.logs import RankLog, console_stream
        with RankLog(Path(sys.argv[1])) as log:
            print("to the console", file=console_stream())
            print("to the log")
    """
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "log")]
        subprocess.run(command, stdout=full, timeout=60, check=True)
    assert (tmp_path / "log").read_text() == "to the log\n"


def test_logs_follow_one_another_without_leaking_descriptors(tmp_path):
    done = python(
        """
        import os, sys
        from pathlib import Path
        from rltrain.ranks.logs import RankLog
        counts = []
        for number in range(5):
            with RankLog(Path(sys.argv[1]) / f"{number}.log") as log:
                log.move(Path(sys.argv[1]) / f"moved_{number}.log")
            counts.append(len(os.listdir("/proc/self/fd")))
        print(counts[0] == counts[-1])
        """,
        str(tmp_path),
    )
    assert done.stdout == "True\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_full_pipe_that_another_process_has_made_non_blocking_is_waited_for():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, bytes(1 << 16)):
            pass

    def written() -> int:
        with contextlib.closing(as_text(LossyFile(writer))) as stream:
            return stream.write("a line\n")

    with ThreadPoolExecutor(1) as pool:
        before = resource.getrusage(resource.RUSAGE_SELF)
        line = pool.submit(written)
        time.sleep(1)
        after, early = resource.getrusage(resource.RUSAGE_SELF), line.done()
        with open(reader, "rb") as file:
            read = file.read()
    assert not early
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5
    assert read.lstrip(b"\0") == b"a line\n"


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
