"""Lists the tests that take 0.3 s or more, which `make test-fast` leaves out.

    python tests/seconds.py build/versions/tested.fastest.xml build/versions/tested.seconds.xml

writes tests/seconds.txt from the reports of `make test SAMPLE=0:1 PER_FILE=0:1` on an idle machine.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".txt")

FROM, IN_ALL = 0.3, 3.0
"""The seconds of a test, or of all cases of one, from which on it is listed."""

HEAD = "# Tests that take 0.3 s or more: `make test-fast` leaves them out. See seconds.py.\n"


def listed(reports: Iterable[Path]) -> list[str]:
    """Return the tests that take long, sorted."""
    times = defaultdict(list)
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            test = f"{case.get('classname')}.{case.get('name', '').partition('[')[0]}"
            times[test].append(float(case.get("time", 0)))
    return sorted(
        _name(test)
        for test, taken in times.items()
        if max(sum(taken) / len(taken) - FROM, sum(taken) - IN_ALL) >= 0
    )


def _name(test: str) -> str:
    """Return pytest's name of a test, whose parts a report separates by dots alone."""
    path, parts = ROOT, test.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    return "::".join((f"{(path / parts[0]).relative_to(ROOT)}.py", *parts[1:]))


if __name__ == "__main__":
    LIST.write_text(HEAD + "".join(f"{test}\n" for test in listed(map(Path, sys.argv[1:]))))
