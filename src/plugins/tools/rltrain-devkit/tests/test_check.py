"""What `rltrain plugins --check` says of each mistake: `pytest -s` prints the table."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from messages import check_said, says

from rltrain.cli.main import main
from rltrain.commands import make_plan
from rltrain.errors import PluginError
from rltrain.specs import WriterSpec
from rltrain.testing import RunPlugins

HEAD = """
from dataclasses import dataclass
from rltrain import hookimpl
from rltrain.specs import *

"""

PROVIDES = """
@hookimpl
def rltrain_provides():
    return [{specs}]
"""

WRITER = "WriterSpec(name='mine', factory=f'{{__name__}}_parts:Mine'{more})"

PARTS = """
from rltrain import hookimpl
{more}
class Mine:
    {methods}
"""

WRITES = "@hookimpl\n    def rltrain_write(self, record): ..."


def plugin(specs: str, before: str = "") -> str:
    return HEAD + before + PROVIDES.format(specs=specs)


def writer(more: str = "", before: str = "") -> str:
    """Return a plugin's module with a writer whose class is in the module `..._parts`."""
    return plugin(WRITER.format(more=more), before)


def parts(methods: str = WRITES, more: str = "") -> str:
    return PARTS.format(methods=methods, more=more)


OF_LIBRARY = (
    "factory='stub_parts:StubLibrary', schema=OptionSchema(required=()), "
    "default_agent=lambda *a: dict()"
)


def suite(tasks: str = "list", describe: str = "lambda task, env: None") -> str:
    functions = f"tasks={tasks}, describe={describe}"
    return plugin(f"SuiteSpec(name='mine', factory='a:B', frameworks=('numpy',), {functions})")


def cluster(find: str) -> str:
    return plugin(f"ClusterSpec(name='mine', find={find}, order=20, variables=('MINE_*',))")


def library(functions: str) -> str:
    """Return a plugin's module with a library of these functions, and the stub's class."""
    return plugin(
        "LibrarySpec(name='mine', frameworks=('numpy',), algorithms=('ppo',), "
        f"factory='stub_parts:StubLibrary', schema=OptionSchema(required=()), {functions})"
    )


OPTIONS = "\n@dataclass{}\nclass Options:\n    flush: int = 1\n"


@dataclass(frozen=True)
class Mistake:
    """A plugin called `mine` with a mistake."""

    plugin: str
    """The module of its entry point."""
    says: str
    """In the answer of `rltrain plugins --check mine`."""
    parts: str = field(default_factory=parts)
    """The module of its class."""
    requires: tuple[str, ...] = ()
    twice: bool = False
    """Whether another distribution has the same plugin."""


IMPORTED = "its module imports slow_library whenever plugins are listed. Import inside functions"
NO_HOOK = "implement rltrain_write with @rltrain.hookimpl."
OF_CLASSES = {
    "a hook is missing": (parts("@hookimpl\n    def rltrain_shutdown(self): ..."), NO_HOOK),
    "a hook is misspelt": (parts(WRITES.replace("write", "wirte")), "hook 'rltrain_wirte'"),
    "a hook is not marked": (parts(WRITES.replace("@hookimpl\n    ", "")), NO_HOOK),
    "a hook's argument does not exist": (
        parts(WRITES.replace("record", "recrod")),
        "Argument(s) {'recrod'} are declared in the hookimpl but can not be found in the hookspec",
    ),
    "the class is misspelt": (parts().replace("class Mine", "class Mime"), "no attribute 'Mine'"),
    "a writer imports what is not installed": (
        parts(more="import tracking_service\n"),
        "No module named 'tracking_service'",
    ),
}
"""The module of a writer's class, and what is said."""

BACKEND = """
BackendSpec(name='mine', factory='stub_parts:StubBackend', framework='new', device='cpu',
            launcher='mine'),
LauncherSpec(name='mine', factory='stub_parts:StubLauncher', frameworks=('new',)),
GradientSyncSpec(name='aaa', factory='stub_parts:StubSync', frameworks=('new',)),
SuiteSpec(name='mine', factory='stub_parts:StubSuite', frameworks=('new',), tasks=list,
          describe=lambda task, env: TaskInfo(task, 'discrete')),
"""
OF_NEW = f"LibrarySpec(name='mine', frameworks=('new',), algorithms=('ppo',), {OF_LIBRARY})"
OF_NUNPY = f"LibrarySpec(name='mine', frameworks=('nunpy',), algorithms=('a',), {OF_LIBRARY})"
OF_NONE = f"LibrarySpec(name='mine', frameworks=('numpy',), algorithms=(), {OF_LIBRARY})"
AGENT = "default_agent=lambda *a: dict()"
ODD = f"{AGENT}, refuses=[Refusal('odd', lambda *a: 1 / 0, '', '')]"
DIVIDED = "raises ZeroDivisionError: division by zero"
DESCRIBES = "lambda task, env: {} if task == 'Mine-v0' else None"
OF_PLUGINS = {
    "an import string without a colon": (
        plugin("WriterSpec(name='mine', factory='mine.writer.Mine')"),
        "'mine.writer.Mine' must be written package.module:Class.",
    ),
    "the module is missing": (
        plugin("WriterSpec(name='mine', factory='rltrain.builtin.consol:Mine')"),
        "No module named 'rltrain.builtin.consol'",
    ),
    "a backend of a new framework names no gradient sync": (
        plugin(BACKEND + OF_NEW, "from rltrain.types import TaskInfo\n"),
        "name a grad_sync: runs of the framework new have no usual one",
    ),
    "a class that takes no options": (
        writer(", options=f'{__name__}:Options'", OPTIONS.format("(frozen=True)")),
        "could not be loaded: it raises TypeError: Mine() takes no arguments",
    ),
    "what is declared is no spec": (
        plugin("'mine'"),
        "rltrain_provides must return specs from rltrain.specs; got 'mine'",
    ),
    "a spec alone, and no list": (
        writer().replace("[", "(").replace("]", ")"),
        "is broken: TypeError: 'WriterSpec' object is not iterable",
    ),
    "rltrain_provides raises": (plugin("1 / 0"), "is broken: ZeroDivisionError: division by zero"),
    "a name with a space": (
        writer().replace("'mine'", "'my own'"),
        "its name must be a word of letters, digits, '-' and '_', which users type",
    ),
    "a framework that no backend has": (
        plugin(OF_NUNPY),
        "no installed backend knows the framework 'nunpy'. Did you mean 'numpy'?",
    ),
    "a library without an algorithm": (
        plugin(OF_NONE),
        "a library must name its algorithms and its frameworks",
    ),
    "the entry point is no plugin": ("provides = []", "no rltrain_provides: name the module whose"),
    "a suite cannot list its tasks": (suite(tasks="lambda: 1 / 0"), f"tasks(): {DIVIDED}"),
    "a suite lists no names": (
        suite(tasks="lambda: None"),
        "tasks(): raises TypeError: 'NoneType' object is not iterable",
    ),
    "a suite looks up a task that it does not have": (
        suite(describe="lambda task, env: {}[task]"),
        "describe(): raises KeyError: 'no/such'",
    ),
    "a suite describes its own task wrongly": (
        suite("lambda: ['Mine-v0']", DESCRIBES),
        "describe() must return TaskInfo or None, not dict.",
    ),
    "a cluster reads a variable that may not be set": (
        cluster("lambda environ: environ['MINE_RANK']"),
        "find(): raises KeyError: 'MINE_RANK'",
    ),
    "a cluster finds no place": (
        cluster("dict"),
        "find() must return StartedRank or StartedNode or None, not dict.",
    ),
    "a library has no default options": (
        library("default_agent=lambda task, algorithm: None"),
        "default_agent() must return Mapping, not NoneType.",
    ),
    "a library returns the number of its steps": (
        library(f"{AGENT}, iteration=lambda config: 16"),
        "iteration() must return Iteration, not int.",
    ),
    "a library's refusal raises": (library(ODD), f"refusal 'odd': {DIVIDED}"),
}
"""The module of the entry point, and what is said."""

MISTAKES: dict[str, Mistake] = {
    **{wrong: Mistake(writer(), says, own) for wrong, (own, says) in OF_CLASSES.items()},
    **{wrong: Mistake(*row) for wrong, row in OF_PLUGINS.items()},
    "options are not frozen": Mistake(
        writer(", options=f'{__name__}:Options'", OPTIONS.format("")),
        "make it @dataclass(frozen=True)",
        parts(f"def __init__(self, options): ...\n\n    {WRITES}"),
    ),
    "the entry point imports its library": Mistake(
        writer(before="import slow_library\n"),
        IMPORTED,
        requires=("slow-library; extra == 'library'",),
    ),
    "another version of rltrain is needed": Mistake(
        writer(), "needs rltrain>=7, but ", requires=("rltrain>=7",)
    ),
    "another version of the library is needed": Mistake(
        writer(),
        "needs slow-library>=2, but 1.0 is installed: pip install 'slow-library>=2'",
        requires=("slow-library>=2; extra == 'library'",),
    ),
    "two provide one name": Mistake(
        writer(),
        "The writer 'mine' is provided twice, by mine 1.0 and other 1.0. Uninstall one of them",
        twice=True,
    ),
}
"""By what is wrong."""

PAGE = (Path(__file__).parents[5] / "docs" / "mistakes.md").read_text()


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
    assert main(["plugins", "--check", "mine"]) == 1
    return re.sub(r"fixture_\d+_mine", "mine", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("planted", MISTAKES, indirect=True)
def test_each_mistake_is_named(planted, stub, capsys, request):
    wrong = request.node.callspec.id
    line, *_ = [line for line in of_check(capsys).splitlines() if planted.says in line]
    if request.config.option.capture == "no":
        print(f"\n| {wrong} | {line.removeprefix('mine 1.0: ')} |")
    (row,) = (row for row in PAGE.splitlines() if row.startswith(f"| {wrong} |"))
    assert planted.says in row


NOT_CHOSEN = [
    *(name for name in MISTAKES if name.startswith(("a suite", "a library"))),
    "a cluster reads a variable that may not be set",
]


@pytest.mark.parametrize("planted", NOT_CHOSEN, indirect=True)
def test_a_mistake_stops_no_run_that_does_not_use_the_plugin(
    planted, stub, capsys, request, monkeypatch
):
    monkeypatch.setenv("RLTRAIN_PLUGINS", "stub,mine")
    assert make_plan(stub.OPTIONS).config.library == "stub"
    told, name = capsys.readouterr().err, request.node.callspec.id
    asked = "looks up" in name or "a variable" in name
    assert told.count("--no-plugin mine leaves it out") == asked, told
    assert main(["--help"]) == main(["plugins"]) == 0


@pytest.mark.parametrize(
    "planted", ["a cluster reads a variable that may not be set"], indirect=True
)
def test_a_cluster_whose_variables_are_set_is_not_left_out(planted, stub, capsys, monkeypatch):
    monkeypatch.setenv("MINE_SIZE", "4")
    with says(PluginError):
        make_plan(stub.OPTIONS)


@pytest.mark.parametrize(
    "planted", ["a suite looks up a task that it does not have"], indirect=True
)
def test_strict_raises_what_a_function_raised(planted, stub, monkeypatch):
    monkeypatch.setenv("RLTRAIN_STRICT", "1")
    with pytest.raises(KeyError):
        make_plan(stub.OPTIONS)


def test_nothing_is_wrong_with_a_good_plugin(site, stub, capsys):
    assert main(["plugins", "--check", "notes"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_what_is_checked_must_be_there(stub, capsys):
    assert main(["plugins", "--check", "stubb"]) == 2
    check_said(capsys.readouterr().err)


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
