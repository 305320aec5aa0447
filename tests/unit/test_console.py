from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path

from console_records import SAVED, Terminal, ended, scalars, started, write_records
from helpers import python

from rltrain.builtin.console import ConsoleWriter, duration, number
from rltrain.records import Media, Record, Warned

MEDIA = Media("video.mp4", "video", 1)


def lines(*records: Record) -> list[str]:
    stream = io.StringIO()
    write_records(ConsoleWriter(stream), *records)
    return stream.getvalue().splitlines()


def test_one_run_from_start_to_end():
    first, second = scalars(1, 2.0), scalars(12, 7.5, episode_return=90.5)
    assert lines(started(), MEDIA, first, SAVED, second, ended(12, solved=True)) == [
        "suite/Task-v1  rl_games ppo  2 ranks on cuda  seed 42",
        "run folder  logs/rl_games/Task-v1/2025-01-01_00-00-00",
        "iteration   1/100  return 187.3  length 190.0  frames 16,384"
        "  fps 41,200 (20,500 + 20,700)  waiting 12%, communication 25%"
        "  left 3:18",
        "iteration  12/100  return 90.5 (best 187.3)  length 190.0  frames 196,608"
        "  fps 41,200 (20,500 + 20,700)  waiting 12%, communication 25%"
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


def test_what_to_do_next_depends_on_how_the_run_ended():
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


def test_the_end_repeats_the_last_warnings():
    warnings = [Warned(f"warning {number}", number) for number in range(1, 5)]
    printed = lines(started(), scalars(4, 4.0), *warnings, ended(4))
    assert [line for line in printed if "warn" in line] == [
        f"warned in iteration {number}  warning {number}" for number in (2, 3, 4)
    ]


def test_the_best_return_is_a_number():
    returns = [math.nan, None, -5.0, -7.0, math.nan]
    records = [scalars(i + 1, 2.0 * i, episode_return=x) for i, x in enumerate(returns)]
    shown = [line.split("  ")[2] for line in lines(started(), *records)[2:]]
    assert shown == [
        *("return nan", "return -", "return -5", "return -7 (best -5)"),
        "return nan (best -5)",
    ]


def test_ranks_that_are_about_as_fast_wait_for_no_rank_in_particular():
    alike = {"rollout": (0.5, 0.51), "update": (0.25, 0.25)}
    assert "waiting 11%, comm" in lines(started(), scalars(1, 1.0, **alike))[2]
    unknown = dict.fromkeys(("rollout", "update", "collectives"), ())
    assert "waiting" not in lines(started(), scalars(1, 1.0, **unknown))[2]
    assert "waiting" not in lines(started(ranks=1), scalars(1, 1.0))[2]


def test_at_most_one_line_per_second_but_the_first_and_the_last():
    quick = [scalars(i, 0.3 * i, iterations=10) for i in range(1, 11)]
    shown = [line.split()[1] for line in lines(started(), *quick)[2:]]
    assert shown == ["1/10", "5/10", "9/10", "10/10"]
    cut = lines(started(), quick[0], quick[1], ended(2))
    assert [line.split()[0] for line in cut[2:5]] == ["iteration", "iteration", "finished"]


def test_unknown_values_are_omitted_or_shown_as_a_dash():
    unknown = scalars(3, 1.0, iterations=None, episode_return=None, episode_length=None, fps=())
    shown = lines(started(ranks=1), unknown)[2]
    assert shown == "iteration 3  return -  length -  frames 49,152  fps -"


def test_ranks_devices_and_frames_per_second_of_each_rank():
    worlds = [(1, "cuda:3"), (4, "cpu"), (16, "cuda:0", 2)]
    texts = [lines(started(*world))[0].split("  ")[2] for world in worlds]
    assert texts == ["1 rank on cuda:3", "4 ranks on cpu", "16 ranks on cuda, 2 nodes"]

    def speed(*fps: float) -> str:
        return lines(started(), scalars(1, 1.0, fps=fps))[2].split("  ")[5]

    assert speed(20500.4) == "fps 20,500"
    assert speed(1, 2, 3, 4) == "fps 10 (1 + 2 + 3 + 4)"
    assert speed(5, 1, 2, 3, 4) == "fps 15 (1..5 a rank)"


def test_the_time_left_ignores_the_first_and_the_resumed_iterations():
    printed = lines(started(), scalars(51, 30.0), scalars(53, 34.0))
    assert printed[-1].endswith("left 1:34")  # 47 iterations of 2 seconds.


def test_the_outcome_is_one_short_line_also_before_the_first_iteration_or_the_start():
    def status(error: str | None) -> str:
        printed = lines(started(), scalars(3, 1.0), ended(3, error=error))
        assert not any("boom" in line for line in printed)
        return printed[3].split("  ")[0]

    assert status("RuntimeError: boom\nmore") == "failed"
    assert status("KeyboardInterrupt: ") == "interrupted"
    assert status(None) == "finished"
    assert lines(started(), ended(0, error="E: no"))[2].startswith("failed  iteration 0  ")
    assert lines(ended(0, error="E: no")) == ["failed before training began"]


def test_the_core_has_lines_on_a_terminal_too(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not any("\x1b" in line for line in lines(started(), scalars(1, 1.0)))
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    write_records(ConsoleWriter(stream), started(), scalars(1, 1.0))
    assert stream.getvalue().splitlines() == lines(started(), scalars(1, 1.0))


def test_the_default_stream_is_the_console(capsys):
    ConsoleWriter().rltrain_write(started())
    assert capsys.readouterr().out.startswith("suite/Task-v1")


def test_numbers_and_durations():
    values = [None, 0.0, 3e-4, 1.23456, -187.31, 12345.678, math.inf, math.nan]
    assert " ".join(map(number, values)) == "- 0 0.0003 1.235 -187.3 12,345.7 inf nan"
    assert " ".join(map(duration, [-1, 59.9, 61, 90061])) == "0:00 0:59 1:01 25:01:01"


def test_the_plugin_is_light_and_names_the_writer():
    heavy = {"gymnasium", "numpy", "rich", "tensorboard", "torch"}
    code = "import sys, rltrain.builtin.console, rltrain.builtin.plugin as plugin\n"
    code += f"print(plugin.rltrain_provides()[0].factory, *({heavy} & set(sys.modules)))"
    assert python(code).stdout.strip() == "rltrain.builtin.console:ConsoleWriter"
