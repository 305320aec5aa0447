"""Print which tests ran in which version set: `python version_table.py FOLDER`.

The folder holds pytest's JUnit files: SET.fast.xml, and others of tests with real ranks. Such a
test records what it ran with `record_property("ran", "LIBRARY by LAUNCHER")`. Versions come from
each set's own Python; where they vary, the test records the library's `version` too.
The exit status is 1 if a test failed, or if in a set nothing ran: all of it may have been skipped.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWN = ("torch", "numpy", "gymnasium", "jax")
LIBRARIES = {"rl_games": "rl-games", "rsl_rl": "rsl-rl-lib", "skrl": "skrl"}

_VERSIONS = """
import importlib.metadata as metadata, json, platform, sys
found = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        found[name] = "-"
print(json.dumps(found))
"""


def versions(name: str) -> dict[str, str]:
    folder = ".venv" if name == "tested" else f".venv-{name}"
    command = [ROOT / folder / "bin" / "python", "-c", _VERSIONS, *SHOWN, *LIBRARIES.values()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(json.loads(shown))


def outcome(case: ET.Element) -> str:
    """Return a test's outcome in a word; why it was skipped goes with it."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "FAILED"
    skipped = case.find("skipped")
    return "passed" if skipped is None else f"skipped: {skipped.get('message', '')}"


def counted(cases: list[ET.Element]) -> str:
    found = collections.Counter(outcome(case).partition(":")[0] for case in cases)
    words = [word for word in ("passed", "skipped", "FAILED") if found[word]]
    return ", ".join(f"{found[word]} {word}" for word in words) or "-"


def cases(paths: list[Path]) -> list[ET.Element]:
    return [case for path in paths for case in ET.parse(path).iter("testcase")]


def ran(cases: list[ET.Element], here: dict[str, str]) -> list[tuple[str, str, str, str]]:
    """Return the libraries, their versions, what started their ranks, and the outcomes."""
    found = set()
    for case in cases:
        notes = {note.get("name"): str(note.get("value")) for note in case.iter("property")}
        if "ran" in notes:
            library, _, launcher = notes["ran"].partition(" by ")
            version = notes.get("version", here[LIBRARIES[library]])
            found.add((library, version, launcher, outcome(case)))
    return sorted(found)


def printed(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def main(folder: Path) -> int:
    names = sorted({path.stem.rpartition(".")[0] for path in folder.glob("*.xml")})
    sets = [("version set", "Python", *SHOWN, "fast tests", "tests with real ranks")]
    runs = [("version set", "library", "version", "started by", "outcome")]
    failed = False
    for name in names:
        here = versions(name)
        paths = set(folder.glob(f"{name}.*.xml"))
        fast = paths & {folder / f"{name}.fast.xml"}
        ranks = cases(sorted(paths - fast))
        own = (here[package] for package in ("Python", *SHOWN))
        sets.append((name, *own, counted(cases(sorted(fast))), counted(ranks)))
        runs.extend((name, *row) for row in ran(ranks, here))
        words = " ".join(sets[-1])
        failed |= "FAILED" in words or "passed" not in words
    print(printed(sets), printed(runs), sep="\n\n")
    return int(failed or not names)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
