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

from rltrain.builtin.console import ConsoleWriter, _duration, _number
from rltrain.records import CheckpointSaved, Media, Record, RunEnded, RunStarted, Scalars
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
    return dataclasses.replace(record, **more)  # type: ignore[arg-type]


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
        first, second = scalars(1, 2.0), scalars(12, 7.5)
        assert lines(started(), MEDIA, first, SAVED, second, ended(12, solved=True)) == [
            "suite/Task-v1  rl_games ppo  2 ranks on cuda  seed 42",
            "run folder  logs/rl_games/Task-v1/2025-01-01_00-00-00",
            "iteration   1/100  return 187.3  length 190.0  frames 16,384"
            "  fps 41,200 (20,500 + 20,700)  left 3:18",
            "iteration  12/100  return 187.3  length 190.0  frames 196,608"
            "  fps 41,200 (20,500 + 20,700)  left 0:44",
            "solved  iteration  12/100  return 187.3  length 190.0  frames 196,608  time 0:21",
            "checkpoint  logs/rl_games/Task-v1/2025-01-01_00-00-00/checkpoints/ep_1.pth",
            "run folder  logs/rl_games/Task-v1/2025-01-01_00-00-00",
        ]

    def test_at_most_one_line_per_second_but_the_first_and_the_last(self) -> None:
        quick = [scalars(i, 0.3 * i, iterations=10) for i in range(1, 11)]
        shown = [line.split()[1] for line in lines(started(), *quick)[2:]]
        assert shown == ["1/10", "5/10", "9/10", "10/10"]
        cut = lines(started(), quick[0], quick[1], ended(2))
        assert [line.split()[0] for line in cut[2:5]] == ["iteration", "iteration", "finished"]

    def test_unknown_values_are_omitted_or_shown_as_a_dash(self) -> None:
        unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None, fps=())
        assert (
            lines(started(), unknown)[2] == "iteration 3  return -  length -  frames 49,152  fps -"
        )

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
    """Has a real terminal's width, and keeps everything that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors = os.openpty()
        self.resize(80)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptors[0]

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def last_drawing(self) -> list[str]:
        last = re.split(r"\x1b\[2K(?:\x1b\[1A\x1b\[2K)*", self.getvalue())[-1]
        return re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", last).splitlines()


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
    return terminal.last_drawing()


VALUES = {"time": 1.0, "loss/a": -0.0123456, "loss/b": math.nan, "info/kl": 0.0, "info/lr": 3e-4}


class TestLiveView:
    def test_the_last_state_stays_on_screen(self, terminal: Terminal) -> None:
        shown = view(terminal, started(), scalars(12, 2.0, values=VALUES), SAVED, ended(12, True))
        text = [line.strip("│ ") for line in shown]
        assert shown[0].startswith("╭─ suite/Task-v1 ─")
        assert text[1] == "rl_games ppo  2 ranks on cuda  seed 42"
        assert text[2].startswith("━")
        assert [re.split(r"\s{2,}", line) for line in text[3:7]] == [
            ["iteration", "12/100", "info/lr", "0.0003"],
            ["return", "187.3", "loss/a", "-0.01235"],
            ["length", "190.0", "loss/b", "nan"],
            ["frames", "196,608", "info/kl", "0"],
        ]
        assert [re.split(r"\s{2,}", line) for line in text[7:11]] == [
            ["fps", "41,200 (20,500 + 20,700)"],
            ["time", "0:21"],
            ["run folder", "logs/rl_games/Task-v1/2025-01-01_00-00-00"],
            ["checkpoint", "checkpoints/ep_1.pth"],
        ]
        assert shown[11].endswith("─ solved ─╯")

    @pytest.mark.parametrize("columns", [20, 60, 300])
    def test_it_follows_the_terminals_width(self, terminal: Terminal, columns: int) -> None:
        writer = ConsoleWriter(terminal)
        writer.rltrain_write(started())
        terminal.resize(columns)
        writer.rltrain_write(scalars(12, 2.0, values={"loss" * 9: 1.0}))
        writer.rltrain_shutdown()
        assert {len(line) for line in terminal.last_drawing() if line} == {min(columns, 100)}

    def test_values_that_are_not_known_yet(self, terminal: Terminal) -> None:
        unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None)
        text = [line.strip("│ ") for line in view(terminal, started(), unknown)]
        assert text[2] == ""
        assert [line.split() for line in text[3:6]] == [
            ["iteration", "3"],
            ["return", "-"],
            ["length", "-"],
        ]
        assert re.match(r"time +0:0", text[8])
        assert any(line.endswith("─ training ─╯") for line in text)

    def test_names_are_not_markup(self, terminal: Terminal) -> None:
        shown = view(terminal, started(), scalars(1, 1.0, values={"[red]loss[/red]": 1.0}))
        assert "[red]loss[/red]" in shown[3]

    def test_without_color(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        shown = view(terminal, started(), scalars(50, 2.0), ended(50, error="E: no"))
        assert not re.search(r"\x1b\[[\d;]*3[0-7]", terminal.getvalue())
        assert 30 < shown[2].count("━") < 45  # Half of the bar.
        assert shown[10].endswith("─ failed ─╯")

    def test_a_killed_rank_leaves_the_cursor_visible(self, terminal: Terminal) -> None:
        view(terminal, started())
        hides, shows = (terminal.getvalue().count(f"\x1b[?25{letter}") for letter in "lh")
        assert shows == hides + 1  # One immediately, one more at the end.

    def test_other_output(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        writer = ConsoleWriter(terminal)
        writer.rltrain_write(started())
        print("of the library")
        writer.rltrain_shutdown()
        assert capsys.readouterr().out == "of the library\n"
        assert "of the library" not in terminal.getvalue()

    def test_it_is_redrawn_at_most_a_few_times_per_second(self, terminal: Terminal) -> None:
        view(terminal, started(), *(scalars(i, i / 100) for i in range(1, 1000)))
        assert terminal.getvalue().count("suite/Task-v1") < 10

    def test_a_dumb_terminal(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert view(terminal, started())[0].startswith("suite/Task-v1  rl_games")


def test_the_default_stream_is_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleWriter().rltrain_write(started())
    assert capsys.readouterr().out.startswith("suite/Task-v1")


def test_numbers_and_durations() -> None:
    values = [None, 0.0, 3e-4, 1.23456, -187.31, 12345.678, math.inf, math.nan]
    assert " ".join(map(_number, values)) == "- 0 0.0003 1.235 -187.3 12,345.7 inf nan"
    assert " ".join(map(_duration, [-1, 59.9, 61, 90061])) == "0:00 0:59 1:01 25:01:01"


def test_the_plugin_is_light_and_names_the_writer() -> None:
    heavy = {"gymnasium", "numpy", "rich", "tensorboard", "torch"}
    code = "import sys, rltrain.builtin.console, rltrain.builtin.plugin as plugin\n"
    code += f"print(plugin.rltrain_provides()[0].factory, *({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "rltrain.builtin.console:ConsoleWriter"
