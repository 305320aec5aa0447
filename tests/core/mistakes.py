"""Small plugins, each with a mistake that an author may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["MISTAKES", "WRITES", "Mistake", "parts", "writer"]

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
    """Return a plugin's module that declares these specs."""
    return HEAD + before + PROVIDES.format(specs=specs)


def writer(more: str = "", before: str = "") -> str:
    """Return a plugin's module with a writer whose class is in the module `..._parts`."""
    return plugin(WRITER.format(more=more), before)


def parts(methods: str = WRITES, more: str = "") -> str:
    """Return the module `..._parts`."""
    return PARTS.format(methods=methods, more=more)


OF_LIBRARY = "factory='stub_parts:StubLibrary', required_keys=(), default_agent=lambda *a: dict()"


def suite(tasks: str = "list", describe: str = "lambda task, env: None") -> str:
    """Return a plugin's module with a suite of these functions."""
    functions = f"tasks={tasks}, describe={describe}"
    return plugin(f"SuiteSpec(name='mine', factory='a:B', frameworks=('numpy',), {functions})")


def cluster(find: str) -> str:
    """Return a plugin's module with a cluster of this function."""
    return plugin(f"ClusterSpec(name='mine', find={find}, order=20, variables=('MINE_*',))")


def library(functions: str) -> str:
    """Return a plugin's module with a library of these functions, and the stub's class."""
    return plugin(
        "LibrarySpec(name='mine', frameworks=('numpy',), algorithms=('ppo',), "
        f"factory='stub_parts:StubLibrary', required_keys=(), {functions})"
    )


OPTIONS = "\n@dataclass{}\nclass Options:\n    flush: int = 1\n    {}\n"
DOCUMENTED = '"""Rows between two flushes."""'


@dataclass(frozen=True)
class Mistake:
    """A plugin called `mine` with a mistake."""

    plugin: str
    """The module of its entry point."""
    says: str
    """In the answer of `rltrain plugins --check mine`."""
    plan: str | None = None
    """In the answer of a run that uses it; None if it says the same."""
    parts: str = field(default_factory=parts)
    """The module of its class."""
    run: Mapping[str, Any] = field(default_factory=lambda: {"writers": ["mine"]})
    """The options with which a run uses it."""
    requires: tuple[str, ...] = ()
    twice: bool = False
    """Whether another distribution has the same plugin."""
    found_by: Literal["plan", "ranks", "check"] = "plan"
    """Whether a run is refused before its ranks start, by them, or not at all."""


MISTAKES: dict[str, Mistake] = {
    "a hook is missing": Mistake(
        writer(),
        "implement rltrain_write with @rltrain.hookimpl.",
        parts=parts("@hookimpl\n    def rltrain_shutdown(self): ..."),
        found_by="ranks",
    ),
    "a hook is misspelt": Mistake(
        writer(),
        "rltrain_wirte: is no hook. Did you mean 'rltrain_write'?",
        parts=parts(WRITES.replace("write", "wirte")),
        found_by="ranks",
    ),
    "a hook is not marked": Mistake(
        writer(),
        "mark rltrain_write with @rltrain.hookimpl, or it is never called.",
        parts=parts(WRITES.replace("@hookimpl\n    ", "")),
        found_by="ranks",
    ),
    "a hook's argument does not exist": Mistake(
        writer(),
        "rltrain_write: is not given 'recrod'. Did you mean 'record'?",
        parts=parts(WRITES.replace("record", "recrod")),
        found_by="ranks",
    ),
    "an import string without a colon": Mistake(
        plugin("WriterSpec(name='mine', factory='mine.writer.Mine')"),
        "'mine.writer.Mine' must be written package.module:Class.",
        found_by="ranks",
    ),
    "the module is missing": Mistake(
        plugin("WriterSpec(name='mine', factory='rltrain.builtin.consol:Mine')"),
        "there is no module rltrain.builtin.consol. Did you mean 'console'?",
        found_by="ranks",
    ),
    "the class is misspelt": Mistake(
        writer(),
        "has no Mine. Did you mean 'Mime'?",
        parts=parts().replace("class Mine", "class Mime"),
        found_by="ranks",
    ),
    "a writer imports what is not installed": Mistake(
        writer(),
        "imports tracking_service, which is not installed. Install it, and name it among",
        parts=parts(more="import tracking_service\n"),
        found_by="ranks",
    ),
    "options are not frozen": Mistake(
        writer(", options=f'{__name__}:Options'", OPTIONS.format("", DOCUMENTED)),
        "make it @dataclass(frozen=True)",
        parts=parts(f"def __init__(self, options): ...\n\n    {WRITES}"),
        found_by="check",
    ),
    "an option is not documented": Mistake(
        writer(", options=f'{__name__}:Options'", OPTIONS.format("(frozen=True)", "")),
        "mine.flush: say under the field",
        parts=parts(f"def __init__(self, options): ...\n\n    {WRITES}"),
        found_by="check",
    ),
    "the entry point imports its library": Mistake(
        writer(before="import slow_library\n"),
        "its module imports slow_library whenever plugins are listed. Import inside functions",
        requires=("slow-library; extra == 'library'",),
        found_by="check",
    ),
    "another version of rltrain is needed": Mistake(
        writer(), "needs rltrain>=7, but ", requires=("rltrain>=7",)
    ),
    "a later level of the API is needed": Mistake(
        writer() + "rltrain_api = 7\n",
        "needs rltrain_api = 7, but the installed rltrain has 1: pip install --upgrade rltrain",
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
    "a backend of a new framework names no gradient sync": Mistake(
        plugin(
            "BackendSpec(name='mine', factory='stub_parts:StubBackend', framework='new', "
            "device='cpu', launcher='mine'), "
            "LauncherSpec(name='mine', factory='stub_parts:StubLauncher', frameworks=('new',)), "
            "GradientSyncSpec(name='aaa', factory='stub_parts:StubSync', frameworks=('new',)), "
            f"LibrarySpec(name='mine', frameworks=('new',), algorithms=('ppo',), {OF_LIBRARY}), "
            "SuiteSpec(name='mine', factory='stub_parts:StubSuite', frameworks=('new',), "
            "tasks=list, describe=lambda task, env: TaskInfo(task, 'discrete'))",
            "from rltrain.types import TaskInfo\n",
        ),
        "name a grad_sync: runs of the framework new have no usual one",
        "--grad-sync: neither the backend mine nor a usual one of new names its own. Give",
        run={
            **{"backend": "mine", "library": "mine", "framework": "new", "suite": "mine"},
            **{"task": "Any-v0", "grad_sync": None},
        },
    ),
    "a class that takes no options": Mistake(
        writer(", options=f'{__name__}:Options'", OPTIONS.format("(frozen=True)", DOCUMENTED)),
        "is given its options",
        "could not be loaded: it raises TypeError: Mine() takes no arguments",
        found_by="ranks",
    ),
    "what is declared is no spec": Mistake(
        plugin("'mine'"), "rltrain_provides must return specs from rltrain.specs; got 'mine'"
    ),
    "a spec alone, and no list": Mistake(
        writer().replace("[", "(").replace("]", ")"),
        "rltrain_provides must return a list; got the writer alone",
    ),
    "rltrain_provides raises": Mistake(
        plugin("1 / 0"),
        "is broken: ZeroDivisionError: division by zero",
    ),
    "a name with a space": Mistake(
        writer().replace("'mine'", "'my own'"),
        "a writer's name must be a word of letters, digits, '-' and '_', which users type; not",
    ),
    "a framework that nobody provides": Mistake(
        plugin(f"LibrarySpec(name='mine', frameworks=('nunpy',), algorithms=('a',), {OF_LIBRARY})"),
        "no installed backend knows the framework 'nunpy'. Did you mean 'numpy'?",
        "--framework numpy: mine runs on nunpy only. Did you mean 'nunpy'?",
        run={"library": "mine"},
    ),
    "a library without an algorithm": Mistake(
        plugin(f"LibrarySpec(name='mine', frameworks=('numpy',), algorithms=(), {OF_LIBRARY})"),
        "mine: a library must name its algorithms and its frameworks",
        run={"library": "mine"},
    ),
    "the entry point is no plugin": Mistake(
        "provides = []", "which has no rltrain_provides: name the module whose"
    ),
    "a suite cannot list its tasks": Mistake(
        suite(tasks="lambda: 1 / 0"),
        "its tasks() raises ZeroDivisionError: division by zero. Its author must mend it",
        run={"suite": "mine", "task": "Typo-v0"},
    ),
    "a suite lists no names": Mistake(
        suite(tasks="lambda: None"),
        "its tasks() must return Iterable, not None.",
        run={"suite": "mine", "task": "Typo-v0"},
    ),
    "a suite looks up a task that it does not have": Mistake(
        suite(describe="lambda task, env: {}[task]"),
        "its describe() raises KeyError: 'no/such'. Its author must mend it: --no-plugin mine",
        "its describe() raises KeyError: 'Stub-v0'. Its author must mend it: --no-plugin mine",
        run={"suite": "mine"},
    ),
    "a suite describes its own task wrongly": Mistake(
        suite("lambda: ['Mine-v0']", "lambda task, env: {} if task == 'Mine-v0' else None"),
        "its describe() must return TaskInfo or None, not dict. Its author must mend it",
        run={"suite": "mine", "task": "Mine-v0"},
    ),
    "a cluster reads a variable that may not be set": Mistake(
        cluster("lambda environ: environ['MINE_RANK']"),
        "its find() raises KeyError: 'MINE_RANK'. Its author must mend it: --no-plugin mine",
        run={"cluster": "mine"},
    ),
    "a cluster finds no place": Mistake(
        cluster("dict"),
        "its find() must return StartedRank or StartedNode or None, not dict.",
        run={"cluster": "mine"},
    ),
    "a library has no default options": Mistake(
        library("default_agent=lambda task, algorithm: None"),
        "its default_agent() must return Mapping, not None. Its author must mend it",
        run={"library": "mine"},
    ),
    "a library returns the number of its steps": Mistake(
        library("default_agent=lambda *a: dict(), iteration=lambda config: 16"),
        "its iteration() must return Iteration, not int. Its author must mend it",
        run={"library": "mine"},
    ),
    "a library's refusal raises": Mistake(
        library(
            "default_agent=lambda *a: dict(), refuses=[Refusal('odd', lambda *a: 1 / 0, '', '')]"
        ),
        "its refusal 'odd' raises ZeroDivisionError: division by zero. Its author must mend it",
        run={"library": "mine"},
    ),
}
"""By what is wrong."""
