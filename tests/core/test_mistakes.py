"""What an author of a plugin is told of a mistake, and by whom: `pytest -s` prints the table."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
from mistakes import MISTAKES, WRITES, Mistake, parts, writer

from rltrain import specs
from rltrain.cli.main import main
from rltrain.commands import make_plan
from rltrain.errors import PluginError, UsageError
from rltrain.plugins.faults import IMPORT_STRINGS
from rltrain.plugins.manager import RunPlugins
from rltrain.specs import WriterSpec

PAGE = (Path(__file__).parents[2] / "docs" / "mistakes.md").read_text()


@pytest.fixture
def planted(request, site, stub) -> Mistake:
    """A mistake, in an installed plugin that is called `mine`."""
    mistake: Mistake = MISTAKES[request.param]
    sys.modules.pop("slow_library", None)
    (site.path / "slow_library.py").write_text("")
    site.install("slow-library")
    module = site.install("mine", mistake.plugin, requires=mistake.requires)
    (site.path / f"{module}_parts.py").write_text(mistake.parts)
    if mistake.twice:
        other = site.install("other", mistake.plugin)
        (site.path / f"{other}_parts.py").write_text(parts())
    return mistake


def of_check(capsys) -> str:
    """Return what `rltrain plugins --check mine` says."""
    assert main(["plugins", "--check", "mine"]) == 1
    return re.sub(r"fixture_\d+_mine", "mine", capsys.readouterr().out)


def of_run(mistake: Mistake, stub) -> str:
    """Return what a run says that uses the plugin, before a rank starts or in each."""
    try:
        plan = make_plan({**stub.OPTIONS, **mistake.run})
        assert mistake.found_by != "plan"
        RunPlugins().choose(plan.registry.get(WriterSpec, "mine"))
    except (UsageError, PluginError) as error:
        assert mistake.found_by != "check"
        return str(error)
    assert mistake.found_by == "check"
    return ""


@pytest.mark.parametrize("planted", MISTAKES, indirect=True)
def test_each_mistake_is_named_with_its_remedy(planted, stub, capsys, request):
    wrong, answers = request.node.callspec.id, of_check(capsys).splitlines()
    told = of_run(planted, stub)
    line, *_ = [line for line in answers if planted.says in line]
    run = {"plan": "refused", "ranks": "ended", "check": "not stopped"}[planted.found_by]
    if planted.found_by != "check":
        assert (planted.plan or planted.says) in told
        assert len(told.splitlines()) == 1
    if request.config.option.capture == "no":
        print(f"\n| {wrong} | {run} | {line.removeprefix('mine 1.0: ')} |")
    (row,) = (row for row in PAGE.splitlines() if row.startswith(f"| {wrong} | {run} |"))
    assert planted.says in row


NOT_CHOSEN = [name for name in MISTAKES if name.startswith(("a suite", "a cluster", "a library"))]


@pytest.mark.parametrize("planted", NOT_CHOSEN, indirect=True)
def test_a_mistake_stops_no_run_that_does_not_use_the_plugin(
    planted, stub, capsys, request, monkeypatch
):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "stub,mine")
    assert make_plan(stub.OPTIONS).config.library == "stub"
    told, name = capsys.readouterr().err, request.node.callspec.id
    asked = "looks up" in name or name.startswith("a cluster")
    assert told.count("--no-plugin mine leaves it out") == asked, told
    assert len(told.splitlines()) == asked
    for words in (["--help"], ["plugins"], ["tasks", "--suite", "stubs"], ["tasks"]):
        assert main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("planted", ["a suite cannot list its tasks"], indirect=True)
def test_a_list_of_tasks_says_whose_are_not_there(planted, stub, capsys, monkeypatch):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "stub,mine")
    assert main(["tasks"]) == 0
    assert "its tasks() raises ZeroDivisionError" in capsys.readouterr().err
    assert main(["tasks", "--suite", "mine"]) == 1
    assert "The suite 'mine' of mine 1.0: its tasks() raises" in capsys.readouterr().err


@pytest.mark.parametrize(
    "planted", ["a cluster reads a variable that may not be set"], indirect=True
)
def test_a_cluster_whose_variables_are_set_is_not_left_out(planted, stub, capsys, monkeypatch):
    monkeypatch.setenv("MINE_SIZE", "4")
    with pytest.raises(PluginError, match=r"The cluster 'mine' of mine 1.0: its find\(\) raises"):
        make_plan(stub.OPTIONS)


@pytest.mark.parametrize(
    "planted", ["a suite looks up a task that it does not have"], indirect=True
)
def test_strict_raises_what_a_function_raised(planted, stub, monkeypatch):
    monkeypatch.setenv("RLTRAIN_STRICT", "1")
    with pytest.raises(KeyError):
        make_plan(stub.OPTIONS)


@pytest.mark.parametrize("planted", ["the entry point imports its library"], indirect=True)
def test_an_import_is_named_where_another_plugin_had_imported_it_before(planted, stub, capsys):
    importlib.import_module("slow_library")
    assert planted.says in of_check(capsys)


def test_nothing_is_wrong_with_a_good_plugin(site, stub, capsys):
    assert main(["plugins", "--check", "notes"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--check: name a plugin, or what it provides"),
        (["stubb"], "--check stubb: there is no such plugin. Did you mean 'stub'?"),
    ],
)
def test_what_is_checked_must_be_named(stub, capsys, words, message):
    assert main(["plugins", "--check", *words]) == 2
    assert message in capsys.readouterr().err


SOUND = {
    "a function that makes the object": "def Mine(): return Made()",
    "made when it is asked for": "def __getattr__(name): return Made",
    "under another name": (
        "class Mine:\n    @hookimpl(specname='rltrain_write')\n    def note(self, record): ..."
    ),
    "of a later rltrain": (
        "class Mine(Made):\n    @hookimpl(optionalhook=True)\n    def rltrain_later(self): ..."
    ),
    "with a default": "class Mine:\n    @hookimpl\n    def rltrain_write(self, record, now=0): ...",
}
"""Sources of classes that are as they must be."""


@pytest.mark.parametrize("source", SOUND.values(), ids=SOUND)
def test_a_class_that_is_sound_is_not_refused(site, stub, capsys, source):
    module = site.install("mine", writer())
    made = f"from rltrain import hookimpl\nclass Made:\n    {WRITES}\n"
    (site.path / f"{module}_parts.py").write_text(f"{made}{source}\n")
    plan = make_plan({**stub.OPTIONS, "writers": ["mine"]})
    assert f"{module}_parts" not in sys.modules
    assert RunPlugins().choose(plan.registry.get(WriterSpec, "mine"))
    assert main(["plugins", "--check", "mine"]) == 0, capsys.readouterr().out


def test_all_fields_that_are_import_strings_are_checked():
    told = re.compile(r"    (\w+): str(?: \| None)?(?: = .*)?\n    \"\"\"Import string")
    assert set(told.findall(inspect.getsource(specs))) == set(IMPORT_STRINGS)
