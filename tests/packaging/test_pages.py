"""Pages are what the sources say: kinds of plugins, folders, helpers, tasks, flags, tables."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import of_isaaclab
import pytest
from helpers import run

import rltrain_devkit
from rltrain.cli.main import command_of
from rltrain.cli.parser import make_parser, parse
from rltrain.errors import UsageError
from rltrain.specs import KINDS
from rltrain_devkit.new import files_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += sorted(DOCS.rglob("*.md"))

# What a script prints

PRINTED = {
    "support": "tests/equivalence/support_table.py",
    "policies": "tests/equivalence/policies_table.py",
}
TABLES = {"scaling": "benchmarks/scaling_on_paper.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRINTED, *TABLES])
def test_a_page_has_what_its_script_prints(name):
    printed = run(sys.executable, ROOT / (PRINTED | TABLES)[name], cwd=ROOT)
    page = (DOCS / f"{name}.md").read_text()
    if name in PRINTED:
        assert page == printed
    else:
        rows = [line for line in page.splitlines() if line.startswith("|")]
        assert rows == printed.replace("\n\n", "\n").splitlines()


# The kinds of plugins

OF_KINDS = (DOCS / "kinds.md").read_text()


def test_every_kind_has_a_row_and_a_section_and_a_kit_that_exists():
    sections = re.findall(r"^## (.*)$", OF_KINDS, re.M)
    assert sections == re.findall(r"^\| `(\w+)` \|", OF_KINDS, re.M)
    assert set(sections) == set(KINDS)
    for name in re.findall(r"`(\w+Conformance)` \|$", OF_KINDS, re.M):
        assert getattr(rltrain_devkit, name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_of_a_kind_names_what_its_class_must_have(kind):
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", OF_KINDS, re.M)
    assert all(f"`{name}`" in row for name in KINDS[kind].requires)


@pytest.mark.parametrize("kind", ["gradient_sync", "observer"])
def test_the_code_of_a_kind_is_what_new_writes(kind):
    section = OF_KINDS.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    assert block in files_of("my", kind)[f"rltrain_my/{kind}.py"]


# The house

LINE = re.compile(r"^(?P<indent> *)(?P<name>[\w.{},/-]+)/(?:  +(?P<about>\S.*))?$")


def drawn() -> dict[str, str]:
    (tree,) = re.findall(r"```text\n(.*?)```", (DOCS / "house.md").read_text(), re.DOTALL)
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in tree.splitlines():
        match = LINE.match(line)
        assert match, f"{line!r}: is no folder with a line about it"
        depth = len(match["indent"])
        above = [(at, name) for at, name in above if at < depth]
        path = "/".join([*(name for _, name in above), match["name"]])
        above.append((depth, match["name"]))
        assert path not in found, f"{path} is drawn twice"
        found[path] = match["about"] or ""
    return found


def folders() -> set[str]:
    """Return the folders whose place a newcomer has to know."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    parts = [path.split("/")[:-1] for path in listed.stdout.splitlines()]
    deep = {"src/core": 4, "src/plugins": 4, "src/plugins/libraries": 6}
    found = set()
    for part in parts:
        for end in range(1, len(part) + 1):
            path = "/".join(part[:end])
            most = max((n for top, n in deep.items() if path.startswith(f"{top}/")), default=2)
            if end <= most:
                found.add(path)
    return {each for each in found if not each.startswith(".") and "/tests" not in each}


def test_the_house_has_each_folder_once_with_a_line_or_folders_of_its_own():
    tree = drawn()
    assert set(tree) == folders()
    silent = [path for path, about in tree.items() if not about]
    assert all(any(other.startswith(f"{path}/") for other in tree) for path in silent)


# The helpers of rltrain_torch and rltrain_jax that plugins use

FRAMEWORKS = {
    name: ROOT / "src" / "plugins" / "backends" / f"rltrain-{name}" for name in ("torch", "jax")
}


def documented(name):
    page = (DOCS / "reference" / f"{name}.md").read_text()
    blocks = re.findall(r"^::: (\S+)\n    options:\n      members: \[(.*)\]$", page, re.MULTILINE)
    assert len(blocks) == page.count("\n:::")
    return {(module, member) for module, members in blocks for member in members.split(", ")}


def imported(name):
    package = f"rltrain_{name}"
    sources = [
        path
        for folder in ("src/plugins", "examples")
        for suffix in ("*.py", "*.py.tmpl")
        for path in (ROOT / folder).rglob(suffix)
        if FRAMEWORKS[name] not in path.parents and "tests" not in path.parts
    ]
    found = set()
    for path in sources:
        for module, names in re.findall(
            rf"^ *from ({package}(?:\.\w+)*) import ([\w, ]+)", path.read_text(), re.MULTILINE
        ):
            found |= {(module, each.strip()) for each in names.split(",")}
    return found


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_plugins_import_is_on_the_page(name):
    assert len(imported(name)) > 3
    assert imported(name) - documented(name) == set()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_the_page_names_says_what_it_takes_and_returns(name):
    for module, member in documented(name):
        path = FRAMEWORKS[name] / f"{module.replace('.', '/')}.py"
        (node,) = (
            node
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == member
        )
        text = ast.get_docstring(node)
        assert text, (module, member)
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns) != "None":
            assert re.search(r"\bReturns?\b", text), (module, member)
        if isinstance(node, ast.FunctionDef) and len(node.args.args) > 1:
            assert "Args:" in text, (module, member)


# Tasks

# What the wheels of Isaac Lab say, which a test compares with them.
KNOWN = json.loads(of_isaaclab.FILE.read_text())
IN_ISAACLAB = {version.split(".")[0]: set(known["tasks"]) for version, known in KNOWN.items()}
SUITES = ("gymnasium", "mjlab", "playground", "envpool")
_OF_ISAACLAB = re.compile(r"(?<![:\w/-])Isaac\w*-[\w-]+")
"""Names after a module and a colon are a user's own."""
_OF_OTHERS = re.compile(r"(?<![:\w/-])(?:Mjlab-[\w-]+|(?:\w+/)?[A-Z]\w*-v\d+(?!\.yaml|/))")
_TYPED = re.compile(r"--task[ =]([\w/-]+)(?![\w:$.])")
_PLACEHOLDERS = {"T", "TASK", "NAME", "MODULE", "module", "and", "with"}


def version_of(before: str, line: str) -> str:
    """Return the major version that a line speaks of: 3, unless it or its table says another."""
    header = [row for row in before.rpartition("\n\n")[2].splitlines() if row.startswith("|")][:1]
    said = re.findall(r"Isaac Lab (\d)|\b(2)\.3", "\n".join([*header, line]))
    versions = {first or second for first, second in said} & set(IN_ISAACLAB)
    return versions.pop() if len(versions) == 1 else "3"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_isaac_lab_has_the_tasks_that_a_page_names(page):
    text = page.read_text()
    for match in _OF_ISAACLAB.finditer(text):
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        version = version_of(text[:start], text[start:end])
        assert match[0] in IN_ISAACLAB[version], f"{match[0]} is not in Isaac Lab {version}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_suites_have_the_tasks_that_a_page_names(page):
    known = set(gymnasium.registry)
    for suite in SUITES:  # Some version sets lack some.
        known.update(pytest.importorskip(f"rltrain_{suite}.plugin").tasks())
    text = page.read_text()
    named = set(_OF_OTHERS.findall(text)) | set(_TYPED.findall(text)) - _PLACEHOLDERS
    own = set(re.findall(r"\w:([\w-]+)", text))  # The page makes them.
    assert {name for name in named if not _OF_ISAACLAB.fullmatch(name)} - known - own == set()


# Flags of Isaac Lab's commands

COMING = (DOCS / "coming-from.md").read_text()
COMMANDS = {
    "train": "train",
    "train_multigpu": "train",
    "play": "play",
    "random_agent": "play",
    "leapp export": "export",
}
FLAGS = KNOWN["3.0.0"]["flags"]


def said(command, words: list[str]) -> str:
    try:
        parse(command_of([command])[1], None, words)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FLAGS)
def test_each_flag_of_isaac_lab_is_taken_or_answered(name):
    for flag in FLAGS[name]:
        message = said(COMMANDS[name], [flag, "1"])
        assert f"Unknown argument '{flag.replace('_', '-')}'" not in message
        assert "\n" not in message


@pytest.mark.parametrize("name", FLAGS)
def test_the_page_has_the_flags_that_are_not_ours(name):
    parser = make_parser(command_of([COMMANDS[name]])[1], name)
    ours = {option for action in parser._actions for option in action.option_strings}
    others = [flag for flag in FLAGS[name] if flag.replace("_", "-") not in ours]
    assert [flag for flag in others if f"`{flag}" not in COMING] == []


def test_the_page_has_the_fields_of_a_request():
    fields = KNOWN["3.0.0"]["request"]
    assert len(fields) == 12
    assert [name for name in fields if f"`{name}`" not in COMING] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", of_isaaclab.VERSIONS)
def test_the_wheels_say_the_same(version, tmp_path):
    try:
        folder = of_isaaclab.wheel.fetched(tmp_path, version)
    except of_isaaclab.wheel.Missing as reason:
        pytest.skip(str(reason))
    assert of_isaaclab.read(folder) == KNOWN[version]
