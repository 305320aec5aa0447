"""The page that draws the house names each folder once, and no other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?P<indent> *)(?P<name>[\w.{},/-]+)/(?:  +(?P<about>\S.*))?$")


def drawn() -> dict[str, str]:
    """Return what the page says of each folder, by path."""
    page = (ROOT / "docs" / "house.md").read_text()
    (tree,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
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


def test_the_page_draws_each_folder_once():
    assert set(drawn()) == folders()


def test_each_folder_has_a_line_or_folders_of_its_own():
    tree = drawn()
    silent = [path for path, about in tree.items() if not about]
    assert all(any(other.startswith(f"{path}/") for other in tree) for path in silent)
