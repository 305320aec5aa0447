from __future__ import annotations

import dataclasses
import fcntl
import io
import math
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltrain.builtin.console import ConsoleWriter
from rltrain.builtin.console.words import duration, number
from rltrain.launch.rank_log import RankLog, say
from rltrain.records import (
    CheckpointSaved,
    Media,
    Record,
    RunEnded,
    RunStarted,
    Scalars,
    Warned,
)
from rltrain.types import World

RUN_DIR = str(Path("logs/rl_games/Task-v1/2025-01-01_00-00-00").resolve())
SAVED = CheckpointSaved(RUN_DIR + "/checkpoints/ep_1.pth", 1)
MEDIA = Media("video.mp4", "video", 1)


def started(ranks: int = 2, device: str = "cuda:0", nodes: int = 1) -> RunStarted:
    world = World(world_size=ranks, num_nodes=nodes, device=device)
    return RunStarted(RUN_DIR, "rl_games", "ppo", "suite/Task-v1", world, 8, seed=42)


def scalars(iteration: int, seconds: float, **more: object) -> Scalars:
    frames, fps = 16384 * iteration, (20500.0, 20700.0)
    record = Scalars(iteration, {}, 100, frames, seconds, fps, 187.31, 190.0)
    times = {"rollout": (0.5, 0.25), "update": (0.25, 0.25), "collectives": (0.25, 0.5)}
    return dataclasses.replace(record, **{**times, **more})  # type: ignore[arg-type]


def ended(iterations: int, solved: bool = False, error: str | None = None) -> RunEnded:
    return RunEnded(iterations, 16384 * iterations, 21.0, 187.31, solved=solved, error=error)


def write_records(stream: io.StringIO, *records: Record) -> None:
    writer = ConsoleWriter(stream)
    for record in records:
        writer.rltrain_write(record)
    writer.rltrain_shutdown()


def lines(*records: Record) -> list[str]:
    stream = io.StringIO()
    write_records(stream, *records)
    return stream.getvalue().splitlines()


class TestLines:
    def test_one_run_from_start_to_end(self) -> None:
        first, second = scalars(1, 2.0), scalars(12, 7.5, episode_return=90.5)
        assert lines(started(), MEDIA, first, SAVED, second, ended(12, solved=True)) == [
            "suite/Task-v1  rl_games ppo  2 ranks on cuda  seed 42",
            "run folder  logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "iteration   1/100  return 187.3  length 190.0  frames 16,384"
            "  fps 41,200 (20,500 + 20,700)  waiting 12% (for rank 0), communication 25%"
            "  left 3:18",
            "iteration  12/100  return 90.5 (best 187.3)  length 190.0  frames 196,608"
            "  fps 41,200 (20,500 + 20,700)  waiting 12% (for rank 0), communication 25%"
            "  left 0:44",
            "solved  iteration  12/100  return 90.5 (best 187.3)  length 190.0  frames 196,608"
            "  time 0:21",
            "checkpoint  logs/rl_games/Task-v1/2025-01-01_00-00-00/checkpoints/ep_1.pth",
            "run folder  logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "to play      rltrain play logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "to evaluate  rltrain evaluate logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "to export    rltrain export logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "to report    rltrain report logs/rl_games/Task-v1/2025-01-01_00-00-00",
        ]

    def test_what_to_do_next_depends_on_how_the_run_ended(self) -> None:
        def commands(*records: Record, **more: object) -> list[str]:
            begun = dataclasses.replace(started(), **more)  # type: ignore[arg-type]
            printed = lines(begun, scalars(2, 2.0), *records)
            return [line.partition("rltrain ")[2] for line in printed if line.startswith("to ")]

        folder = "logs/rl_games/Task-v1/2025-01-01_00-00-00"
        asked = dataclasses.replace(ended(2), asked=True)
        assert commands(ended(2)) == [f"report {folder}"]
        assert commands(SAVED, ended(2, error="E: no")) == []
        assert commands(SAVED, asked)[-1] == f"--resume {folder}"
        assert commands(SAVED, asked, config={"nnodes": 2})[-1] == ""
        named = f"{folder} --task my_envs:Pole-v0"  # Its module is not taken from the folder.
        assert commands(SAVED, asked, config={"task": "my_envs:Pole-v0"}) == [
            *(f"play {named}", f"evaluate {named}", f"export {named}", f"report {folder}"),
            f"--resume {named}",
        ]
        spaced = commands(ended(2), run_dir=str(Path("my logs/a").resolve()))
        assert spaced == ["report 'my logs/a'"]

    def test_the_end_repeats_the_last_warnings(self) -> None:
        warnings = [Warned(f"warning {number}", number) for number in range(1, 5)]
        printed = lines(started(), scalars(4, 4.0), *warnings, ended(4))
        assert [line for line in printed if "warn" in line] == [
            f"warned in iteration {number}  warning {number}" for number in (2, 3, 4)
        ]

    def test_the_best_return_is_a_number(self) -> None:
        returns = [math.nan, None, -5.0, -7.0, math.nan]
        records = [scalars(i + 1, 2.0 * i, episode_return=x) for i, x in enumerate(returns)]
        shown = [line.split("  ")[2] for line in lines(started(), *records)[2:]]
        assert shown == [
            *("return nan", "return -", "return -5", "return -7 (best -5)"),
            "return nan (best -5)",
        ]

    def test_ranks_that_are_about_as_fast_wait_for_no_rank_in_particular(self) -> None:
        alike = {"rollout": (0.5, 0.51), "update": (0.25, 0.25)}
        assert "waiting 11%, comm" in lines(started(), scalars(1, 1.0, **alike))[2]
        unknown = dict.fromkeys(("rollout", "update", "collectives"), ())
        assert "waiting" not in lines(started(), scalars(1, 1.0, **unknown))[2]

    def test_one_rank_waits_for_nobody(self) -> None:
        assert "waiting" not in lines(started(ranks=1), scalars(1, 1.0))[2]

    def test_at_most_one_line_per_second_but_the_first_and_the_last(self) -> None:
        quick = [scalars(i, 0.3 * i, iterations=10) for i in range(1, 11)]
        shown = [line.split()[1] for line in lines(started(), *quick)[2:]]
        assert shown == ["1/10", "5/10", "9/10", "10/10"]
        cut = lines(started(), quick[0], quick[1], ended(2))
        assert [line.split()[0] for line in cut[2:5]] == ["iteration", "iteration", "finished"]

    def test_unknown_values_are_omitted_or_shown_as_a_dash(self) -> None:
        unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None, fps=())
        shown = lines(started(ranks=1), unknown)[2]
        assert shown == "iteration 3  return -  length -  frames 49,152  fps -"

    def test_ranks_and_devices(self) -> None:
        worlds = [(1, "cuda:3"), (4, "cpu"), (16, "cuda:0", 2)]
        texts = [lines(started(*world))[0].split("  ")[2] for world in worlds]
        assert texts == ["1 rank on cuda:3", "4 ranks on cpu", "16 ranks on cuda, 2 nodes"]

    def test_frames_per_second_of_each_rank(self) -> None:
        def speed(*fps: float) -> str:
            return lines(started(), scalars(1, 1.0, fps=fps))[2].split("  ")[5]

        assert speed(20500.4) == "fps 20,500"
        assert speed(1, 2, 3, 4) == "fps 10 (1 + 2 + 3 + 4)"
        assert speed(5, 1, 2, 3, 4) == "fps 15 (1..5 a rank)"

    def test_the_time_left_ignores_the_first_and_the_resumed_iterations(
        self,
    ) -> None:
        printed = lines(started(), scalars(51, 30.0), scalars(53, 34.0))
        assert printed[-1].endswith("left 1:34")  # 47 iterations of 2 seconds.

    def test_the_outcome_is_one_short_line(self) -> None:
        def status(error: str | None) -> str:
            printed = lines(started(), scalars(3, 1.0), ended(3, error=error))
            assert not any("boom" in line for line in printed)
            return printed[3].split("  ")[0]

        assert status("RuntimeError: boom\nmore") == "failed"
        assert status("KeyboardInterrupt: ") == "interrupted"
        assert status(None) == "finished"

    def test_a_failure_before_the_first_iteration_or_before_the_start(self) -> None:
        assert lines(started(), ended(0, error="E: no"))[2].startswith("failed  iteration 0  ")
        assert lines(ended(0, error="E: no")) == ["failed before training began"]

    def test_a_pipe_is_not_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert not any("\x1b" in line for line in lines(started(), scalars(1, 1.0)))


class Terminal(io.StringIO):
    """Has a real terminal's size, and keeps everything that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors = os.openpty()
        self.resize(80)

    def isatty(self) -> bool:
        return True

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
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("TTY_INTERACTIVE", "TTY_COMPATIBLE", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal()
    yield terminal
    list(map(os.close, terminal.descriptors))


def view(terminal: Terminal, *records: Record) -> list[str]:
    write_records(terminal, *records)
    return terminal.screen()


def rows(shown: list[str]) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip("│ ")) for line in shown]


VALUES = {"time": 1.0, "loss/a": -0.0123456, "loss/b": math.nan, "info/kl": 0.0, "info/lr": 3e-4}


class TestLiveView:
    def test_the_last_state_stays_on_screen(self, terminal: Terminal) -> None:
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
            ["waiting", "12% (for rank 0), communication 25% of the ranks' time"],
            ["time", "0:21"],
            ["checkpoint", "ep_1.pth", "iteration 1"],
            ["run folder", "logs/rl_games/Task-v1/2025-01-01_00-00-00"],
        ]
        assert shown[13].endswith("─ solved ─╯")
        assert [line.partition("  ")[0] for line in shown[14:]] == [
            *("to play", "to evaluate", "to export", "to report"),
        ]

    def test_while_it_trains(self, terminal: Terminal) -> None:
        shown = view(terminal, started(), scalars(50, 10.0), SAVED)
        assert re.search(r"━  50%  left 8:29 │$", shown[2])
        assert ["checkpoint", "ep_1.pth", "iteration 1", "0:00 ago"] in rows(shown)
        assert shown[-1].endswith("─ training ─╯")

    @pytest.mark.parametrize("columns", [20, 60, 80, 130, 300])
    def test_it_follows_the_terminals_width(self, terminal: Terminal, columns: int) -> None:
        writer = ConsoleWriter(terminal)
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
    def test_a_low_terminal_gets_a_low_panel(self, terminal: Terminal, height: int) -> None:
        terminal.resize(80, height)
        writer = ConsoleWriter(terminal)
        for record in (started(), scalars(12, 2.0, values=VALUES), SAVED):
            writer.rltrain_write(record)
        for _ in range(2):
            writer._view._draw()  # type: ignore[union-attr]
        shown = terminal.drawings()[-1]
        assert len(shown) < max(height, 2)
        assert any("187.3" in line for line in shown)
        writer.rltrain_write(ended(12))
        writer.rltrain_shutdown()
        assert len(terminal.drawings()[-1]) == 18  # All of it: it is not drawn again.

    def test_warnings_stay(self, terminal: Terminal) -> None:
        warnings = [Warned(f"Rank {number} is slow.", number) for number in range(1, 6)]
        shown = rows(view(terminal, started(), *warnings, scalars(9, 9.0)))
        assert shown[-4:-1] == [
            ["earlier warnings, above: 3"],
            ["warning in iteration 4: Rank 4 is slow."],
            ["warning in iteration 5: Rank 5 is slow."],
        ]

    def test_values_that_are_not_known_yet(self, terminal: Terminal) -> None:
        unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None)
        shown = rows(view(terminal, started(), unknown))
        assert shown[2:6] == [["iteration", "3"], ["return", "-"], ["best", "-"], ["length", "-"]]
        assert ["time", "0:00"] in shown

    def test_names_are_not_markup(self, terminal: Terminal) -> None:
        shown = view(terminal, started(), scalars(1, 1.0, values={"[red]loss[/red]": 1.0}))
        assert "[red]loss[/red]" in shown[3]

    def test_without_color(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        shown = view(terminal, started(), scalars(50, 2.0), ended(50, error="E: no"))
        assert not re.search(r"\x1b\[[\d;]*3[0-7]", terminal.getvalue())
        assert 30 < shown[2].count("━") < 45  # Half of the bar.
        assert shown[-1].endswith("─ failed ─╯")

    def test_a_killed_rank_leaves_the_cursor_visible(self, terminal: Terminal) -> None:
        view(terminal, started())
        assert "\x1b[?25l" not in terminal.getvalue()

    def test_lines_of_others_are_above_it(self, terminal: Terminal, tmp_path: Path) -> None:
        with RankLog(tmp_path / "rank_0.log"):
            writer = ConsoleWriter(terminal)
            writer.rltrain_write(started())
            print("of the library")
            say("Rank 1 is slow [bold]")
            writer.rltrain_shutdown()
        shown = terminal.screen()
        assert shown[0] == "rltrain: Rank 1 is slow [bold]"
        assert shown[1].startswith("╭─ suite/Task-v1 ─")
        assert sum("╭" in line for line in shown) == 1
        assert "of the library" not in terminal.getvalue()

    def test_it_is_redrawn_at_most_a_few_times_per_second(self, terminal: Terminal) -> None:
        view(terminal, started(), *(scalars(i, i / 100) for i in range(1, 1000)))
        assert terminal.getvalue().count("suite/Task-v1") < 10

    def test_a_dumb_terminal(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert view(terminal, started())[0].startswith("suite/Task-v1  rl_games")

    def test_ranks_that_are_shown_print_on_the_same_terminal(self, terminal: Terminal) -> None:
        shown = dataclasses.replace(started(), config={"show_ranks": "all"})
        assert view(terminal, shown)[0].startswith("suite/Task-v1  rl_games")


def test_the_default_stream_is_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleWriter().rltrain_write(started())
    assert capsys.readouterr().out.startswith("suite/Task-v1")


def test_numbers_and_durations() -> None:
    values = [None, 0.0, 3e-4, 1.23456, -187.31, 12345.678, math.inf, math.nan]
    assert " ".join(map(number, values)) == "- 0 0.0003 1.235 -187.3 12,345.7 inf nan"
    assert " ".join(map(duration, [-1, 59.9, 61, 90061])) == "0:00 0:59 1:01 25:01:01"


def test_the_plugin_is_light_and_names_the_writer() -> None:
    heavy = {"gymnasium", "numpy", "rich", "tensorboard", "torch"}
    code = "import sys, rltrain.builtin.console, rltrain.builtin.plugin as plugin\n"
    code += f"print(plugin.rltrain_provides()[0].factory, *({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "rltrain.builtin.console:ConsoleWriter"
