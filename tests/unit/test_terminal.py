"""Text of others reaches no terminal with characters that control it."""

from __future__ import annotations

import io
import json
import sys

import pytest
from helpers import python
from hostile import HOSTILE, controls, hostile_records
from made_up_runs import make_run

from rltrain.builtin.console import ConsoleWriter
from rltrain.cli.main import main
from rltrain.ranks.logs import RankLog, console_stream, say
from rltrain.terminal import one_line, plain, plain_output, plain_stream, raw

FLAGS = ("--task", "--library", "--run-name", "--config", "--checkpoint", "--resume")


def test_control_characters_become_visible():
    assert controls(plain(HOSTILE)) == []
    assert plain("\x1b[1m\x9b\u202e\r") == r"\x1b[1m\x9b\u202e\r"
    assert plain("naïve, 你好 🤖 עברית\nnext") == "naïve, 你好 🤖 עברית\nnext"
    assert one_line("a\nrltrain: forged") == r"a\nrltrain: forged"
    assert plain("half \udce9").encode() == rb"half \udce9"  # A file's name that is no UTF-8.


def test_a_plain_stream_is_a_stream():
    stream = io.StringIO()
    wrapped = plain_stream(stream)
    print("a\x1bb", file=wrapped)
    wrapped.writelines(["c\r", "\n"])
    assert stream.getvalue() == "a\\x1bb\nc\\r\n"
    assert plain_stream(wrapped) is wrapped
    assert raw(wrapped) is stream is raw(stream)
    assert not wrapped.isatty()


def test_whatever_a_command_prints_is_plain(capsys):
    with plain_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
    printed = capsys.readouterr()
    assert controls(printed.out + printed.err) == []
    assert r"\x1b[2J" in printed.out
    assert r"\x1b[2J" in printed.err


@pytest.mark.parametrize(
    "words",
    [
        *([word, HOSTILE] for word in FLAGS),
        *([word, HOSTILE] for word in ("play", "evaluate", "report", "plugins")),
        *([HOSTILE], [f"agent.{HOSTILE}=1"], [f"{HOSTILE}.x=1"], [f"--{HOSTILE}"]),
        *(["tasks", "--suite", HOSTILE], ["doctor", "--library", HOSTILE]),
        *(["scale", "--runs", HOSTILE], ["new", HOSTILE, "--kind", "writer"]),
    ],
    ids=lambda words: words[0][:12].encode("unicode_escape").decode(),
)
def test_errors_about_what_was_typed_are_plain(stub, capsys, words):
    assert main(words)
    printed = capsys.readouterr()
    assert controls(printed.out + printed.err) == []


def hostile_plugin(site) -> None:
    text = HOSTILE.replace("\x00", "") + "\nforged  line"
    site.install(
        "hostile",
        f"""
        from rltrain.hookspecs import hookimpl
        from rltrain.specs import LibrarySpec, SuiteSpec, WriterSpec
        from rltrain.types import TaskInfo

        TEXT = {text!r}

        @hookimpl
        def rltrain_provides():
            return [
                WriterSpec(name="hostile", factory="a:B", summary=TEXT),
                SuiteSpec(
                    name="hostile",
                    factory="a:B",
                    frameworks=("numpy",),
                    describe=lambda task, env: TaskInfo(task, TEXT, num_envs=1, actions=(1,)),
                    tasks=lambda: [TEXT],
                ),
            ]
        """,
    )
    site.install("failing", f"raise RuntimeError({text!r})")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["plugins"], ["plugins", "--json"], ["doctor", "--no-ranks"]])
def test_a_plugins_words_are_plain(stub, site, capsys, words):
    hostile_plugin(site)
    main(words)
    printed = capsys.readouterr()
    assert controls(printed.out + printed.err) == []
    assert "[bold]" in printed.out or words[0] == "doctor"
    assert not [line for line in printed.out.splitlines() if line.startswith("forged")]


@pytest.mark.slow
def test_what_a_stranger_wrote_into_a_run_folder_is_plain(stub, tmp_path, capsys):
    settings = {"task": HOSTILE, "library": HOSTILE, "iterations": 3, "value": HOSTILE}
    name = HOSTILE.replace("\x00", "").replace("/", "") + "\nforged"
    run = make_run(tmp_path / name, warning=HOSTILE, error=f"E: {HOSTILE}", **settings)
    assert controls(str(run)), "or this would prove nothing"
    manifest = {"host": HOSTILE, "command": HOSTILE, "config": {**settings, "run_name": HOSTILE}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    empty = make_run(tmp_path / f"empty{name}", error=HOSTILE, **{**settings, "iterations": 0})
    for words in ("report", "play", "evaluate", "export", "--resume", "scale --runs"):
        for more in ([str(run)], [str(run), str(empty)]):
            main([*words.split(), *more])
            printed = capsys.readouterr()
            assert controls(printed.out + printed.err) == [], words
            assert not [x for x in printed.err.splitlines() if x.startswith("forged")]


def test_the_lines_of_a_run_are_plain():
    stream = io.StringIO()
    writer = ConsoleWriter(stream)
    for record in hostile_records():
        writer.rltrain_write(record)
    writer.rltrain_shutdown()
    assert controls(stream.getvalue()) == []


def test_what_a_rank_says_is_plain_and_what_it_prints_is_its_own(tmp_path, capfd):
    log = tmp_path / "log"
    with RankLog(log):
        say(HOSTILE)
        print(HOSTILE, file=console_stream())
        print("\x1b[32mgreen\x1b[0m")
    assert controls(capfd.readouterr().out) == []
    assert "\x1b[32mgreen" in log.read_text()
    assert "\x1b[2J" not in log.read_text()


def test_an_unexpected_error_is_plain_too(tmp_path):
    code = (
        "import rltrain.cli.main as m\n"
        f"def fail(words): raise RuntimeError({HOSTILE!r})\n"
        "m._run = fail\nraise SystemExit(m.main([]))"
    )
    ended = python(code, check=False)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert controls(ended.stderr) == []
