"""Prints the structure of the code: modules, lines, import levels, cycles, imports of plugins.

    python benchmarks/structure.py

It reads the checkout that contains it, with grimp, which import-linter installs.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "public-api.md"
PUBLIC = frozenset(re.findall(r"^\| \[?`([\w.]+)`", PAGE.read_text(), re.MULTILINE))

CORE = ROOT / "src" / "core" / "rltrain"
PLUGINS = ROOT / "src" / "plugins"
BUDGET = {
    "core without testing": 15_786,
    "rltrain.testing": 1_205,
    "largest package of the core": 2_182,
    "source": 51_307,
    "largest adapter of a library": 4_243,
    "distributions": 18,
    "options of a run": 47,
    "tests": 50_503,
    "benchmarks": 2_246,
    "examples": 2_195,
}
"""What there is, mostly in lines; a test holds it. What makes the core larger is better a plugin,
and what makes all of it larger takes the place of something."""


def lines(folder: Path, pattern: str = "**/*.py") -> Counter[str]:
    """Count modules and lines by the first part of the path below a folder."""
    found: Counter[str] = Counter()
    for path in folder.glob(pattern):
        part = path.relative_to(folder).parts[0]
        found[part] += len(path.read_text().splitlines())
    return found


def sizes() -> dict[str, int]:
    """Return the size of what has a budget."""
    from rltrain.options import RunOptions

    counted, of_plugins = lines(CORE), lines(PLUGINS, "*/*/rltrain_*/**/*.py")
    testing = counted.pop("testing")
    return {
        "core without testing": counted.total(),
        "rltrain.testing": testing,
        "largest package of the core": max(counted.values()),
        "source": counted.total() + testing + of_plugins.total(),
        "largest adapter of a library": max(
            lines(adapter, "rltrain_*/**/*.py").total()
            for adapter in (PLUGINS / "libraries").iterdir()
        ),
        "distributions": 1 + len(list(PLUGINS.glob("*/*/pyproject.toml"))),
        "options of a run": len(dataclasses.fields(RunOptions)),
        "tests": sum(
            lines(ROOT, pattern).total()
            for pattern in ("conftest.py", "tests/**/*.py", "[se]*/**/tests/**/*.py")
        ),
        "benchmarks": lines(ROOT, "benchmarks/**/*.py").total(),
        "examples": lines(ROOT, "examples/**/*.py").total(),
    }


def levels(graph: grimp.ImportGraph) -> tuple[int, list[set[str]]]:
    """Return the number of import levels, and the cycles: modules that import each other."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(graph.modules):
        stack = [(start, False)]
        while stack:
            module, done = stack.pop()
            if done:
                order.append(module)
            elif module not in seen:
                seen.add(module)
                stack.append((module, True))
                stack += [(x, False) for x in graph.find_modules_directly_imported_by(module)]
    group: dict[str, str] = {}
    for root in reversed(order):
        stack2 = [root]
        while stack2:
            module = stack2.pop()
            if module not in group:
                group[module] = root
                stack2 += graph.find_modules_that_directly_import(module)
    members: dict[str, set[str]] = defaultdict(set)
    for module, root in group.items():
        members[root].add(module)
    height: dict[str, int] = {}
    for module in order:  # Imported modules come first, except in cycles.
        below = [
            height.get(group[x], 0)
            for x in graph.find_modules_directly_imported_by(module)
            if group[x] != group[module]
        ]
        height[group[module]] = max(height.get(group[module], 0), 1 + max(below, default=0))
    return max(height.values()), [x for x in members.values() if len(x) > 1]


def main() -> None:
    """Print the structure."""
    import grimp

    packages = sorted((ROOT / "src").glob("**/rltrain-*/rltrain_*"))
    sys.path[:0] = [str(CORE.parent), *(str(path.parent) for path in packages)]
    names = [path.name for path in packages]
    print(f"core: {sum(1 for _ in CORE.rglob('*.py'))} modules, {lines(CORE).total()} lines")
    for part, count in sorted(lines(CORE).items()):
        modules = len(list((CORE / part).rglob("*.py"))) if (CORE / part).is_dir() else 1
        print(f"  {part:<16} {modules:>3} modules {count:>6} lines")
    for what, count in sizes().items():
        print(f"{what}: {count:,}, at most {BUDGET[what]:,}")
    height, cycles = levels(grimp.build_graph("rltrain", cache_dir=None))
    print(f"import levels of the core: {height}; cycles: {len(cycles)}")
    for cycle in cycles:
        print(f"  {len(cycle)} modules: {', '.join(sorted(cycle))}")
    graph = grimp.build_graph("rltrain", *names, cache_dir=None)
    outside = sorted(
        (module, imported)
        for module in graph.modules
        if module.startswith("rltrain_")
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.partition(".")[0] == "rltrain"
        and imported not in PUBLIC
        and not imported.startswith("rltrain.testing.")
    )
    print(f"imports of plugins outside the public API: {len(outside)}")
    for module, imported in outside:
        print(f"  {module} -> {imported}")
    source = lines(ROOT / "src").total()
    tests_beside = lines(ROOT / "src", "**/rltrain-*/tests/**/*.py").total()
    tests = lines(ROOT / "tests").total() + tests_beside
    print(f"lines of source: {source - tests_beside}; of tests: {tests}")


if __name__ == "__main__":
    main()
