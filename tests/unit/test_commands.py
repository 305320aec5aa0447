"""Commands and words of other programs that plugins add, and what may be asked of a line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from helpers import python
from messages import check_said, says

from rltrain.cli.main import main
from rltrain.commands import read_run, resolve_run
from rltrain.errors import PluginError, UsageError
from rltrain.plugins import ours
from rltrain.plugins.registry import Registry, discover
from rltrain.specs import CommandSpec

GREET = '''
from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.specs import CommandSpec


class Greet:
    """Greet somebody.

    examples:
      rltrain greet --who world
    """

    def add_arguments(self, parser):
        parser.add_argument("--who", required=True, help="whom to greet")

    def run(self, arguments, rest):
        if arguments.who == "nobody":
            raise UsageError("--who nobody: name somebody.")
        print("hello", arguments.who, rest)
        return 3


@hookimpl
def rltrain_provides():
    here = __name__ + ":"
    return [
        CommandSpec(name="greet", factory=here + "Greet", summary="greets"),
        CommandSpec(name="plugins", factory=here + "Greet"),
        CommandSpec(name="gone", factory=here + "Gone"),
    ]
'''


@pytest.fixture
def cli(site, cli):
    site.install("greeter", GREET)
    return cli


def test_a_plugin_adds_a_command_with_help_that_is_its_docstring(cli, capsys):
    words = ("greet", "--who", "you", "--", "--who", "me", "--", "a.b=1")
    assert cli(*words) == (3, "hello you ['--who', 'me', '--', 'a.b=1']\n", "")
    assert cli("greet", "--who=you") == (3, "hello you []\n", "")
    with pytest.raises(SystemExit):
        cli("greet", "--help")
    usage, flags = capsys.readouterr().out.split("options:")
    assert usage == "usage: rltrain greet [-h] --who WHO\n\nGreet somebody.\n\n"
    assert flags.endswith("\n\nexamples:\n  rltrain greet --who world\n")


def test_plugins_lists_it_and_the_cores_commands_come_first(cli):
    rows = [line.split() for line in cli("plugins")[1].splitlines()]
    assert ["command", "greet", "1.0", "greeter", "ready", "greets"] in rows
    assert rows[0][0] == "KIND"
    assert "command greet, from greeter 1.0: greets" in cli("plugins", "greet")[1]
    assert "  scheduler.cores=1  (int)\n      Of a rank.\n" in cli("plugins", "scheduler")[1]


def test_a_name_of_two_plugins_is_refused_where_it_is_used_and_nowhere_else(cli, site):
    site.install("other", GREET)
    assert cli("--help")[0] == 0
    twice = "The command 'greet' is provided twice, by greeter 1.0 and other 1.0. Uninstall one"
    assert cli("plugins")[1].count(f"    {twice}") == 2
    status, _, err = cli("greet", "--who", "you")
    assert (status, twice in err) == (2, True)


@pytest.mark.parametrize(
    "line",
    ["greet", "greet --whom x", "greet --who x --wo y", "greet --who nobody", "gret", "gone"],
)
def test_what_is_wrong_is_reported_in_one_message(cli, line):
    status, out, err = cli(*line.split())
    assert (status, out) == (2 if " " in line or line in ("greet", "gret") else 1, "")
    check_said(err)


def test_a_command_that_is_not_installed_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["rltrain.cli.main"], "discover", lambda: Registry(()))
    for name, wanted in ours.COMMANDS.items():
        assert main([name, "latest"]) == 2
        distribution = wanted.partition("[")[0]
        message = f"rltrain: {name}: a command of {distribution}. pip install '{wanted}'.\n"
        assert capsys.readouterr().err == message


def test_a_command_whose_library_is_missing_says_what_to_install(site, capsys):
    site.install("greeter", GREET, point="hello", requires=("nowhere>=2; extra == 'library'",))
    assert main(["greet", "--who", "you"]) == 2
    check_said(capsys.readouterr().err)


def test_a_name_that_cannot_be_typed_as_a_command_is_the_authors_mistake():
    with says(PluginError):
        CommandSpec(name="Greet_1", factory="a:b")


@pytest.mark.parametrize("line", ["train --help", "plugins --help", "--version"])
def test_the_cores_commands_do_not_look_for_plugins(line):
    code = (
        "import sys, contextlib, io, importlib.metadata as metadata\n"
        "import rltrain.cli\n"
        "metadata.entry_points = None\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    sys.exit(rltrain.cli.main({line.split()!r}))\n"
    )
    done = python(code, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_of_the_guide_works(site, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "plugin-by-hand.md").read_text()
    [source] = re.findall(r"^```python\n((?:(?!^```).)*CommandSpec.*?)^```", page, re.M | re.S)
    site.install("newest", source)
    monkeypatch.chdir(tmp_path)
    assert main(["newest"]) == 2
    check_said(capsys.readouterr().err)
    run = tmp_path / "logs" / "rl_games" / "Task-v0" / "run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").touch()
    assert main(["newest"]) == 0
    assert capsys.readouterr().out == f"{run}\n"


STUB = "--library stub --task Stub-v0 --framework numpy --grad-sync plain"


def test_the_given_options_of_a_run_are_read(stub):
    words = f"{STUB} --distributed --nproc_per_node 2 --dry-run agent.learn.rate=0.5".split()
    options = read_run(words)
    assert (options["library"], options["nproc_per_node"]) == ("stub", "2")
    assert options["agent"] == {"learn.rate": 0.5}
    assert not {"nnodes", "dry_run"} & set(options)
    assert read_run(["Stub-v0"])["task"] == "Stub-v0"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--libary stub", "Unknown argument '--libary'. Did you mean '--library'"),
        ("plugins --json", "rltrain plugins: does not train. Give the flags of a run."),
        ("trian", "Unknown command 'trian'. Did you mean 'train'"),
    ],
)
def test_what_is_no_run_is_refused(stub, line, message):
    with pytest.raises(UsageError, match=message):
        read_run(line.split())


def test_a_run_is_resolved_for_a_machine_with_other_gpus(stub, monkeypatch):
    """Whatever GPUs, folders and variables this one has."""
    monkeypatch.setenv("STUB_GPUS", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    options = read_run([*STUB.split(), "--distributed", "--nnodes", "2"])
    options |= {"log_root": "/proc/none", "checkpoint": "latest"}
    config = resolve_run(options, gpus=4)
    assert (config.device_kind, config.nproc_per_node) == ("cuda", 4)
    assert (config.nnodes, config.node_rank, config.checkpoint) == (2, 0, "latest")
    assert resolve_run(options, gpus=0).device_kind == "cpu"


@pytest.mark.parametrize(
    "more",
    [{"nproc_per_node": 5}, {"library": "stubb"}, {"run_name": "a/b"}, {"agent": {"learn.rat": 1}}],
)
def test_a_run_that_cannot_work_there_is_refused_here(stub, more):
    with says(UsageError):
        resolve_run({**read_run(STUB.split()), "distributed": True, **more}, gpus=4)


DIALECT = """
from rltrain.specs import Dialect, refusals
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, WriterSpec

def translate(words):
    if "--pocket" in words:
        raise UsageError("--pocket: needs a size, as in --pocket=9.")
    return [word.replace("--pocket=", "--num-envs=") for word in words]

class Unfold:
    __doc__ = "Unfold a run."

    def add_arguments(self, parser):
        parser.add_argument("run")

    def run(self, arguments, rest):
        return 0

@hookimpl
def rltrain_provides():
    unfold = CommandSpec(name="unfold", factory=f"{__name__}:Unfold", takes="options")
    return [WriterSpec(name="pocket", factory="x:Y"), unfold]

@hookimpl
def rltrain_dialect():
    return Dialect(
        program="PocketRL",
        commands={"watch": "rltrain play RUN"},
        trains={"learn": ("--max-iterations", "3", "--default-library", "stub")},
        translate=translate,
        refuses=refusals([("fold", "paper only.", "Leave it out.")]),
        refuses_of_policies=refusals([("fold", "it is folded.", "Unfold it.")]),
        train_flags={"--pocket-name": lambda value: [f"--run-name={value}"]},
        ignored={"--lint -l": "not used"},
    )
"""


RUN = "learn --task=Stub-v0 --framework=numpy --grad-sync=plain --backend=stub --dry-run --lint"


@pytest.fixture
def pocket(site, stub):
    site.install("rltrain-pocket", DIALECT, point="pocket")


def test_words_of_another_program_are_translated_and_set_options(pocket):
    words = ["learn", "--pocket=9", "--lint", "a", "--pocket-name", "b"]
    found = read_run(words)
    assert found.pop("agent") == found.pop("env") == {}
    of_pocket = {"num_envs": "9", "run_name": "b"}
    assert found == {**of_pocket, "max_iterations": "3", "library": "stub"}
    assert read_run([*words, "--library", "other"])["library"] == "other"


@pytest.mark.parametrize(
    ("words", "status"),
    [(f"{RUN} a", 0), ("--fold 1", 2), ("unfold RUN --fold", 2), ("--pocket", 2), ("watch", 2)],
)
def test_what_is_refused_or_changes_nothing_says_so(pocket, capsys, words, status):
    assert main(words.split()) == status
    check_said(capsys.readouterr().err)


def programs():
    return [each.program for each in discover().dialects()]


def test_it_counts_where_what_the_plugin_adapts_is_not_installed(site, monkeypatch):
    needs = ("no-such-simulator>=2; extra == 'library'",)
    site.install("rltrain-pocket", DIALECT, point="pocket", requires=needs)
    assert "PocketRL" in programs()
    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-stub")
    assert "PocketRL" not in programs()


def test_a_dialect_that_is_none_breaks_its_plugin_alone(site):
    source = DIALECT.replace("return Dialect(", "return dict(")
    site.install("rltrain-pocket", source, point="pocket")
    other = DIALECT.replace("PocketRL", "OtherRL").replace('name="pocket"', 'name="other"')
    site.install("rltrain-other", other, point="other")
    assert "PocketRL" not in programs()
    assert "OtherRL" in programs()
