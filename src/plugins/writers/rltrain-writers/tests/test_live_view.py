"""The live view of a run, on terminals of any size."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import math
import os
import re
import signal
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_records import SAVED, Terminal, ended, scalars, started, write_records
from helpers import python
from hostile import controls, hostile_records

from rltrain.builtin.console import ConsoleWriter
from rltrain.plugins.registry import discover
from rltrain.ranks.folders import Notes
from rltrain.ranks.logs import RankLog, say
from rltrain.ranks.signals import ask_to_end
from rltrain.records import Record, Warned
from rltrain.specs import WriterSpec
from rltrain_console.live import LiveConsoleWriter
from rltrain_console.plugin import rltrain_provides


class RealTerminal(Terminal):
    """Has a real terminal's size, and keeps everything that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors = os.openpty()
        self.resize(80)

    def fileno(self) -> int:
        return self.descriptors[0]

    def resize(self, columns: int, rows: int = 24) -> None:
        fcntl.ioctl(self.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def drawings(self) -> list[list[str]]:
        """Return what each drawing wrote."""
        texts = re.split(r"\r\x1b\[\d+A|\x1b\[H\x1b\[2J", self.getvalue())
        return [re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", text).splitlines() for text in texts]

    def screen(self) -> list[str]:
        """Return what is on a terminal of any height, which moves the cursor as it is told."""
        rows, row = [""], 0
        for part in re.split(r"(\r\x1b\[\d+A|\x1b\[H\x1b\[2J|\x1b\[J|\n)", self.getvalue()):
            if up := re.fullmatch(r"\r\x1b\[(\d+)A", part):
                row -= int(up[1])
                assert row >= 0
            elif part == "\x1b[J":
                del rows[row + 1 :]
                rows[row] = ""
            elif part == "\x1b[H\x1b[2J":
                rows, row = [""], 0
            elif part == "\n":
                row += 1
                rows += [""] * (row == len(rows))
            elif part:
                rows[row] = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", part)
        return rows[:-1]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealTerminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("TTY_INTERACTIVE", "TTY_COMPATIBLE", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    terminal = RealTerminal()
    yield terminal
    list(map(os.close, terminal.descriptors))


def view(terminal: RealTerminal, *records: Record) -> list[str]:
    write_records(LiveConsoleWriter(terminal), *records)
    return terminal.screen()


def rows(shown: list[str]) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip("│ ")) for line in shown]


VALUES = {"time": 1.0, "loss/a": -0.0123456, "loss/b": math.nan, "info/kl": 0.0, "info/lr": 3e-4}


class TestLiveView:
    def test_the_last_state_stays_on_screen(self, terminal: RealTerminal) -> None:
        best, last = scalars(3, 0.5, episode_return=200.0), scalars(12, 2.0, values=VALUES)
        shown = view(terminal, started(), best, SAVED, last, ended(12, True))
        assert shown[0].startswith("╭─ suite/Task-v1 ─")
        assert rows(shown)[1:13] == [
            ["rl_games ppo", "2 ranks on cuda", "seed 42"],
            [rows(shown)[2][0], "12%"],
            ["iteration", "12/100", "info/lr", "0.0003"],
            ["return", "187.3", "loss/a", "-0.01235"],
            ["best", "200.0 in iteration 3", "loss/b", "nan"],
            ["length", "190.0", "info/kl", "0"],
            ["frames", "196,608", "time", "1"],
            ["fps", "41,200 (20,500 + 20,700)"],
            ["waiting", "12%, communication 25% of the ranks' time"],
            ["time", "0:21"],
            ["checkpoint", "ep_1.pth", "iteration 1"],
            ["run folder", "logs/rl_games/Task-v1/2025-01-01_00-00-00"],
        ]
        assert shown[13].endswith("─ solved ─╯")
        assert [line.partition("  ")[0] for line in shown[14:]] == [
            *("to play", "to evaluate", "to export", "to report"),
        ]

    def test_while_it_trains(self, terminal: RealTerminal) -> None:
        shown = view(terminal, started(), scalars(50, 10.0), SAVED)
        assert re.search(r"━  50%  left 8:29 │$", shown[2])
        assert ["checkpoint", "ep_1.pth", "iteration 1", "0:00 ago"] in rows(shown)
        assert shown[-1].endswith("─ training ─╯")

    @pytest.mark.parametrize("columns", [20, 60, 80, 130, 300])
    def test_it_follows_the_terminals_width(self, terminal: RealTerminal, columns: int) -> None:
        writer = LiveConsoleWriter(terminal)
        writer.rltrain_write(started())
        terminal.resize(columns, rows=100)
        values = {f"{'loss' * 9}/{number}": 1.0 for number in range(9)}
        writer.rltrain_write(scalars(12, 2.0, values=values))
        writer.rltrain_shutdown()
        shown = terminal.screen()
        assert {len(line) for line in shown} == {min(columns, 140)}
        beside = max(line.count("loss") > 0 and line.count(" 1 ") for line in shown)
        assert beside == {20: 0, 60: 0, 80: 1, 130: 2, 300: 2}[columns]

    @pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 12, 18])
    def test_a_low_terminal_gets_a_line(self, terminal: RealTerminal, height: int) -> None:
        terminal.resize(80, height)
        writer = LiveConsoleWriter(terminal)
        for record in (started(), scalars(12, 2.0, values=VALUES), SAVED):
            writer.rltrain_write(record)
        for _ in range(2):
            writer._view._render()  # type: ignore[union-attr]
        shown = terminal.drawings()[-1]
        assert len(shown) == (14 if height == 18 else 1)
        assert any("187.3" in line for line in shown)
        writer.rltrain_write(ended(12))
        writer.rltrain_shutdown()
        assert len(terminal.drawings()[-1]) == 18  # All of it: it is not rendered again.

    def test_warnings_stay(self, terminal: RealTerminal) -> None:
        warnings = [Warned(f"Rank {number} is slow.", number) for number in range(1, 6)]
        shown = rows(view(terminal, started(), *warnings, scalars(9, 9.0)))
        assert shown[-4:-1] == [
            ["earlier warnings, above: 3"],
            ["warning in iteration 4: Rank 4 is slow."],
            ["warning in iteration 5: Rank 5 is slow."],
        ]

    def test_values_that_are_not_known_yet(self, terminal: RealTerminal) -> None:
        unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None)
        shown = rows(view(terminal, started(), unknown))
        assert shown[2:6] == [["iteration", "3"], ["return", "-"], ["best", "-"], ["length", "-"]]
        assert ["time", "0:00"] in shown

    def test_names_are_not_markup(self, terminal: RealTerminal) -> None:
        shown = view(terminal, started(), scalars(1, 1.0, values={"[red]loss[/red]": 1.0}))
        assert "[red]loss[/red]" in shown[3]

    def test_without_color(self, terminal: RealTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        shown = view(terminal, started(), scalars(50, 2.0), ended(50, error="E: no"))
        assert not re.search(r"\x1b\[[\d;]*3[0-7]", terminal.getvalue())
        assert 30 < shown[2].count("━") < 45  # Half of the bar.
        assert shown[-1].endswith("─ failed ─╯")

    def test_a_killed_rank_leaves_the_cursor_visible(self, terminal: RealTerminal) -> None:
        view(terminal, started())
        assert "\x1b[?25l" not in terminal.getvalue()

    def test_lines_of_others_are_above_it(
        self, terminal: RealTerminal, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with RankLog(tmp_path / "rank_0.log"):
            writer = LiveConsoleWriter(terminal)
            writer.rltrain_write(started())
            print("of the library")
            say("Rank 1 is slow [bold]")
            code = "import sys, pathlib; from rltrain.ranks.logs import show\n"
            code += "show('of the launcher', pathlib.Path(sys.argv[1]))"
            python(code, str(tmp_path))
            Notes(tmp_path).set_training()
            assert ask_to_end(tmp_path, signal.SIGINT)
            writer.rltrain_shutdown()
            say("after")
        shown = terminal.screen()
        assert shown[0] == "rltrain: Rank 1 is slow [bold]"
        assert shown[1] == "of the launcher"
        assert shown[2].startswith("Ctrl-C: ending after this iteration")
        assert shown[3].startswith("╭─ suite/Task-v1 ─")
        assert sum("╭" in line for line in shown) == 1
        assert capfd.readouterr().out == "rltrain: after\n"
        assert "of the library" not in terminal.getvalue()

    def test_it_is_redrawn_at_most_a_few_times_per_second(self, terminal: RealTerminal) -> None:
        view(terminal, started(), *(scalars(i, i / 100) for i in range(1, 1000)))
        assert terminal.getvalue().count("suite/Task-v1") < 10

    def test_a_dumb_terminal(self, terminal: RealTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert view(terminal, started())[0].startswith("suite/Task-v1  rl_games")

    def test_ranks_that_are_shown_print_on_the_same_terminal(self, terminal: RealTerminal) -> None:
        shown = dataclasses.replace(started(), config={"show_ranks": "all"})
        assert view(terminal, shown)[0].startswith("suite/Task-v1  rl_games")


def test_the_live_view_draws_with_nothing_but_its_own_controls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    write_records(LiveConsoleWriter(stream), *hostile_records())
    drawn = re.sub("\x1b\\[[0-9;]*[mAHJK]|\r(?=\x1b)", "", stream.getvalue())
    assert drawn != stream.getvalue()
    assert controls(drawn) == []
    assert "\x1b[2J\x1b]0" not in stream.getvalue()
    assert r"\x1b[2J" in drawn


def test_a_pipe_gets_the_lines_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipe, plain = io.StringIO(), io.StringIO()
    for writer in (LiveConsoleWriter(pipe), ConsoleWriter(plain)):
        write_records(writer, started(), scalars(1, 1.0), ended(1))
    assert pipe.getvalue() == plain.getvalue()


def test_it_takes_the_place_of_the_cores_writer() -> None:
    (spec,) = rltrain_provides()
    assert discover().get(WriterSpec, "console") == spec
    without = discover(["rltrain-writers"]).get(WriterSpec, "console")
    assert without.factory == "rltrain.builtin.console:ConsoleWriter"
