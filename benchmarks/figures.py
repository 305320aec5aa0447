"""Writes the figures of pages: what the scripts of this folder printed is kept in `figures/`.

    python benchmarks/figures.py
    python benchmarks/stepping.py | python benchmarks/figures.py take speed stepping.py

The first line writes them into their pages. The second one keeps before what a script prints, in
place of the figures of that page that it printed last. A study that has answered its question
leaves this folder: `at` is then the commit that has it, and the page names it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "kept", "page_of", "rendered", "tables"]

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).with_suffix("")
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)


def page_of(name: str) -> Path:
    """Return the page of a file of figures."""
    return (ROOT if name.isupper() else ROOT / "docs") / f"{name}.md"


def kept(name: str) -> list[dict[str, Any]]:
    """Return the figures of a page, in its order: `by`, the command, `lines`, and maybe `at`."""
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def tables(text: str) -> list[list[str]]:
    """Return the tables of a page, or of what a script printed."""
    return [table.splitlines() for table in TABLE.findall(text)]


def rendered(text: str, figures: list[dict[str, Any]]) -> str:
    """Return a page with its figures: each in place of the next block with the same first line.

    Raises:
        ValueError: the page has no such block.
    """
    done = 0
    for figure in figures:
        first = figure["lines"][0]
        begin = text.index(f"{first}\n", done)
        end = begin
        # A table ends where no row follows, and a console's output at its fence.
        while text[end : end + 1] not in "\n`":
            end = text.index("\n", end) + 1
        text = text[:begin] + "".join(f"{line}\n" for line in figure["lines"]) + text[end:]
        done = begin + len(first)
    return text


def take(name: str, script: str, printed: str) -> None:
    """Keep the tables that a script printed, in place of those of the same heads."""
    figures = kept(name)
    for table in tables(printed):
        found = [x for x in figures if script in x["by"] and x["lines"][0] == table[0]]
        if not found:
            raise SystemExit(
                f"{name}.json has no table by {script} with this head. Put it there, and into the "
                f"page: {table[0]}"
            )
        found[0]["lines"] = table
    (FOLDER / f"{name}.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def main(words: list[str]) -> None:
    """Do what the command line says."""
    if words:
        _, name, script = words
        take(name, script, sys.stdin.read())
    for file in sorted(FOLDER.glob("*.json")):
        page = page_of(file.stem)
        page.write_text(rendered(page.read_text(), kept(file.stem)))


if __name__ == "__main__":
    main(sys.argv[1:])
