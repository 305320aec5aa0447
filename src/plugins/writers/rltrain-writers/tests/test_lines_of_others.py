"""A line for the user is shown by the live view, whichever process of the node it comes from."""

from __future__ import annotations

import signal
import subprocess
import sys

from rltrain.ranks.board import board_of
from rltrain.ranks.ending import ask_to_end
from rltrain.ranks.logs.rank_log import RankLog, say
from rltrain_console.others import LinesOfOthers


def test_the_view_shows_the_lines_of_every_process_of_the_node(tmp_path, capsys):
    shown = []
    board_of(tmp_path).is_training = True
    with RankLog(tmp_path / "rank_0.log"):
        say("before")
        lines = LinesOfOthers(shown.append)
        say("of this rank")
        code = "import sys, pathlib; from rltrain.ranks.logs.rank_log import show\n"
        code += "show('of the launcher', pathlib.Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
        lines.look()
        assert shown == ["rltrain: of this rank", "of the launcher"]
        assert ask_to_end(tmp_path, signal.SIGINT)
        lines.close()
        assert shown[2].startswith("Ctrl-C: ending after this iteration")
        say("after")
    log = (tmp_path / "rank_0.log").read_text()
    assert log == "rltrain: before\nrltrain: of this rank\nrltrain: after\n"
    assert capsys.readouterr().out == "rltrain: before\nrltrain: after\n"
    assert len(shown) == 3


def test_lines_are_printed_if_the_view_cannot_be_told(tmp_path, capsys):
    with RankLog(tmp_path / "rank_0.log"):
        LinesOfOthers(print)
        (tmp_path / "view.lines").mkdir()
        say("printed")
    assert capsys.readouterr().out == "rltrain: printed\n"


def test_without_ranks_lines_are_printed(capsys):
    lines = LinesOfOthers(print)
    say("printed")
    lines.look()
    lines.close()
    assert capsys.readouterr().out == "rltrain: printed\n"
