"""Every task that a page names exists: of Isaac Lab in the version that the page speaks of."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gymnasium
import of_isaaclab
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
IN_ISAACLAB = {
    version.split(".")[0]: set(known["tasks"])
    for version, known in json.loads(of_isaaclab.FILE.read_text()).items()
}
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
