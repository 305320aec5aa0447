"""Plants one-line faults in the sources, one at a time, and lists those that no fast test finds.

    python tests/packaging/mutants/mutants.py --number 200 --seed 7
    python tests/packaging/mutants/mutants.py --number 12 --of src/core/rltrain --tests tests/unit

It takes the last commit. Faults are drawn from all places by the seed. First every test runs once,
to find out which lines each of them runs; then, for each fault, the tests that run its line. What
no fast test runs is listed apart: tests of real ranks are for that, and they take too long here.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from changes import Change, changes
from coverage import CoverageData

ROOT = Path(__file__).parents[3]

PATIENCE = 240
"""Seconds for the tests of a fault. One that takes longer is found: something waits for ever."""

MOST = 400
"""Tests of a fault: those that run fewest lines come first."""

_NOT_FOUND = "ERROR: not found: "
"""What pytest says of a test that is not there."""

FAST = ["-m", "not slow", "-p", "no:cacheprovider", "-q", "--no-header"]


class Tree:
    """A clone of the last commit, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "rltrain"
        subprocess.run(["git", "clone", "--quiet", ROOT, self.root], check=True, timeout=120)
        (folder / "tmp").mkdir()
        others = sorted(self.root.glob("src/**/rltrain-*"))
        path = [self.root / "src" / "core", *others, *sys.path[1:]]
        own = {"PYTHONPATH": os.pathsep.join(map(str, path)), "TMPDIR": str(folder / "tmp")}
        self._environ = {**os.environ, **own, "OMP_NUM_THREADS": "1"}

    def test(self, *words: str, seconds: float) -> tuple[int | None, str]:
        """Run tests; return the status, None if they took longer, and what was printed."""
        output = self.root.parent / "output"
        with output.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *FAST, *words],
                cwd=self.root,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        return status, output.read_text(errors="replace")


class Lines:
    """Which tests run a line, as a first run of all has noted."""

    def __init__(self, tree: Tree, tests: list[str]) -> None:
        settings = tree.root / "coverage.cfg"
        settings.write_text("[run]\nsource = src\nconcurrency = thread\n")
        words = ["--cov", "--cov-context=test", f"--cov-config={settings}", "--cov-report="]
        status, said = tree.test(*words, "--numprocesses", "auto", *tests, seconds=3600)
        if status not in (0, 1):
            raise SystemExit(f"{said[-3000:]}\nThat is without a fault: mend it first.")
        failed = [line for line in said.splitlines() if line.startswith("FAILED ")]
        if failed:
            print("These fail without a fault, too, and are left out:", *failed, sep="\n")
        self._failing = {line.removeprefix("FAILED ").partition(" - ")[0] for line in failed}
        self.root = tree.root
        data = CoverageData(str(tree.root / ".coverage"))
        data.read()
        self._by_line = {name: data.contexts_by_lineno(name) for name in data.measured_files()}
        files = self._by_line.values()
        self._breadth = Counter(test for file in files for ran in file.values() for test in ran)

    def tests(self, change: Change) -> list[str]:
        """Return the tests that run its line; the most special first.

        What runs when a module is imported concerns all that run a line of it.
        """
        lines = self._by_line.get(str(self.root / change.path.relative_to(ROOT)), {})
        ran = lines.get(change.line, [])
        if "" in ran:
            ran = {each for contexts in lines.values() for each in contexts}
        by_breadth = sorted(ran, key=lambda each: (self._breadth[each], each))
        tests = (each.removesuffix("|run") for each in by_breadth if each.endswith("|run"))
        return [each for each in tests if each not in self._failing][:MOST]


class Outcome(NamedTuple):
    """What has become of a fault."""

    change: Change
    tests: int
    found: bool

    def __str__(self) -> str:
        change = self.change
        before, after = (" ".join(text.split()) for text in (change.before, change.after))
        where = f"{change.path.relative_to(ROOT)}:{change.line}"
        return f"{where}  `{before[:60]}` -> `{after[:60]}`  ({self.tests} tests run it)"


def judge(change: Change, lines: Lines, trees: queue.Queue[Tree]) -> Outcome:
    tests = lines.tests(change)
    if not tests:
        return Outcome(change, 0, False)
    tree = trees.get()
    path = tree.root / change.path.relative_to(ROOT)
    before = path.read_text()
    chosen = tree.root.parent / "chosen"
    # The names of some cases have the path of the tree in which they were first run.
    chosen.write_text("\n".join(tests).replace(str(lines.root), str(tree.root)))
    path.write_text(change.apply())
    try:
        status, said = tree.test("-x", f"@{chosen}", seconds=PATIENCE)
        path.write_text(before)
        # A fault may take cases away that a test makes of what is installed.
        if _NOT_FOUND in said:
            _, said = tree.test("--collect-only", f"@{chosen}", seconds=PATIENCE)
    finally:
        path.write_text(before)
        trees.put(tree)
    if _NOT_FOUND in said:
        raise SystemExit(f"{said[-3000:]}\nThe tests of {change} were not found.")
    return Outcome(change, len(tests), status != 0)


def drawn(folders: list[Path], number: int, seed: int) -> list[Change]:
    """Draw faults from all places in the sources below folders, except templates.

    A line that changes changes the faults in it alone: of the others, the same are drawn.
    """
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    sources = (path for path in paths if not {"tests", "templates"} & set(path.parts))
    found = [change for path in sources for change in changes(path)]
    return sorted(found, key=lambda change: _place(change, seed))[:number]


def _place(change: Change, seed: int) -> bytes:
    """Return where a seed places a fault: anywhere alike, whatever else there is."""
    source = change.path.read_bytes()
    begin = source.rfind(b"\n", 0, change.start) + 1
    line = source[begin:].partition(b"\n")[0].decode()
    what = change.path.relative_to(ROOT), line, change.start - begin, change.after
    return hashlib.sha256(f"{seed} {what}".encode()).digest()


def outcomes(faults: list[Change], tests: list[str], workers: int) -> Iterator[Outcome]:
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        trees: queue.Queue[Tree] = queue.Queue()
        for number in range(workers):
            (folder / str(number)).mkdir()
            trees.put(Tree(folder / str(number)))
        lines = Lines(trees.queue[0], tests)
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(lambda fault: judge(fault, lines, trees), faults)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Print what survives; return 1 if that is more than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=200, help="of faults")
    parser.add_argument("--seed", type=int, default=0, help="by which they are drawn")
    parser.add_argument("--of", nargs="*", type=Path, default=[ROOT / "src"], help="folders")
    parser.add_argument("--tests", nargs="*", default=[], help="folders, all by default")
    parser.add_argument("--survivors", type=int, help="how many are allowed")
    arguments = parser.parse_args()
    # Shells let what runs in the background ignore these, and tests send them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    folders = [path.resolve() for path in arguments.of]
    faults = drawn(folders, arguments.number, arguments.seed)
    counts = {"found": 0, "survived": 0, "in lines that no fast test runs": 0}
    for each in outcomes(faults, arguments.tests, os.cpu_count() or 1):
        how = "found" if each.found else "survived" if each.tests else list(counts)[2]
        counts[how] += 1
        if not each.found:
            print(f"{how}: {each}", flush=True)
    words = ", ".join(f"{count} {how}" for how, count in counts.items())
    print(f"{len(faults)} faults by seed {arguments.seed}: {words}")
    allowed = arguments.survivors
    return 1 if allowed is not None and counts["survived"] > allowed else 0


if __name__ == "__main__":
    raise SystemExit(main())
