"""Which test holds which promise: names and docstrings of tests, and of the kits' rules.

python tests/promises.py resume    # every promise with these words, and the test that holds it
python tests/promises.py           # the page of the site: the kits' rules, and what each file holds
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KITS = "src/plugins/tools/rltrain-devkit/rltrain_devkit/kits"


def sentence(node: ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef | ast.Module) -> str:
    """Return the first paragraph of a docstring in one line; "" without one."""
    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Return the tests of a module with their names below it."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        of_class = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for each in inside:
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
                yield f"{of_class}{each.name}", each


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Return the modules of tests, and those of the kits, by their path."""
    kits = sorted((ROOT / KITS).glob("*.py"))
    for path in [*kits, *sorted(ROOT.glob("tests/**/test_*.py")), *_of_packages()]:
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def _of_packages() -> list[Path]:
    return sorted(
        [*ROOT.glob("src/**/tests/**/test_*.py"), *ROOT.glob("examples/*/tests/test_*.py")]
    )


def found(words: list[str]) -> Iterator[str]:
    """Return the promises with all of some words, each with its test."""
    for path, tree in modules():
        for name, node in functions(tree):
            promise = sentence(node) or node.name.removeprefix("test_").replace("_", " ")
            if all(word.lower() in f"{promise} {path}".lower() for word in words):
                yield f"{promise}\n    {path}::{name}"


def page() -> str:
    """Return the site's page."""
    rules, files = [], []
    for path, tree in modules():
        if path.startswith(KITS):
            kit = Path(path).stem.partition("_")[0].replace("gradient", "gradient sync")
            rules += [
                f"| {kit} | {sentence(node)} | `{node.name}` |" for _, node in functions(tree)
            ]
        else:
            files.append(f"| {sentence(tree)} | `{path}` |")
    return "\n".join(
        [
            "# Which test holds which promise",
            "",
            "`python tests/promises.py WORDS` prints every promise with these words, and its test.",
            "",
            "## What each plugin of a kind keeps",
            "",
            "A rule runs for each plugin and its variants: [test with fake ranks](testing.md).",
            "",
            "| kind | rule | test |",
            "| --- | --- | --- |",
            *rules,
            "",
            "## What each file of tests holds",
            "",
            "| promise | tests |",
            "| --- | --- |",
            *files,
            "",
        ]
    )


if __name__ == "__main__":
    print(("\n".join(found(sys.argv[1:])) or "None has these words.") if sys.argv[1:] else page())
