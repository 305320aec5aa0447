"""Prints the structure of the code: modules, lines, import levels, cycles, imports of plugins.

    python benchmarks/structure.py

It reads the checkout that contains it, with grimp, which import-linter installs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "public-api.md"
PUBLIC = frozenset(re.findall(r"^\| \[?`([\w.]+)`", PAGE.read_text(), re.MULTILINE))


def lines(folder: Path, pattern: str = "**/*.py") -> Counter[str]:
    """Count modules and lines by the first part of the path below a folder."""
    found: Counter[str] = Counter()
    for path in folder.glob(pattern):
        part = path.relative_to(folder).parts[0]
        found[part] += len(path.read_text().splitlines())
    return found


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
    core = ROOT / "src" / "core" / "rltrain"
    sys.path[:0] = [str(core.parent), *map(str, (ROOT / "src" / "plugins").glob("*/*"))]
    names = sorted(path.name for path in (ROOT / "src" / "plugins").glob("*/*/rltrain_*"))
    print(f"core: {sum(1 for _ in core.rglob('*.py'))} modules, {lines(core).total()} lines")
    for part, count in sorted(lines(core).items()):
        modules = len(list((core / part).rglob("*.py"))) if (core / part).is_dir() else 1
        print(f"  {part:<16} {modules:>3} modules {count:>6} lines")
    without = lines(core).total() - lines(core)["testing"]
    print(f"core without testing: {without} lines; to be at most 15,700")
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
    source = sum(lines(ROOT / "src", f"{part}/**/*.py").total() for part in ("core", "plugins"))
    tests_of_plugins = sum(
        len(path.read_text().splitlines())
        for path in (ROOT / "src" / "plugins").glob("*/*/tests/**/*.py")
    )
    tests = lines(ROOT / "tests").total() + tests_of_plugins
    print(f"lines of source: {source - tests_of_plugins}; of tests: {tests}")


if __name__ == "__main__":
    main()
