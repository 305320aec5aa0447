"""What a test meets of the messages: its whole text is that of the test in `tests/messages.txt`.

python tests/unit/messages.py    # takes what tests said that failed by it
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "messages.txt"
NEW = ROOT / "build" / "messages"

HEADER = re.compile(r"^\[(\S+\.py::.+)\]\n", re.MULTILINE)

DIFFERS = {
    r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(_\d+)?": "TIME",  # Of a run's folder.
    r"\b0x[0-9a-f]{8,}": "ADDRESS",
    r"\bfixture_\d+_": "fixture_",
    r"\bpathlib\._local\.": "pathlib.",  # Of Python 3.13.
    r"[\w./-]*/site-packages/": "SITE/",
    r"(\.py(:|\", line ))\d+": r"\1LINE",
    r"\b(rsl_rl|skrl) \d+(\.\d+)+": r"\1 VERSION",
    r" (Installed|Commands|Suites searched): [^.\n]*\.": r" \1: ...",
    r" Not ready: .*": "",
    r"[ \t]+$": "",
}
"""What is not the same everywhere, and what is kept instead."""

said: list[str] = []
"""By the test that runs."""


def check_said(text: str, **instead: Any) -> None:
    """Check a text by `tests/messages.txt`, with names instead of what differs: `PORT=port`."""
    for name, differs in instead.items():
        text = text.replace(str(differs), name)
    said.append(text)


@contextlib.contextmanager
def says(error: Any, **instead: Any) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error, as `pytest.raises` does, and check its message as `check_said` does."""
    with pytest.raises(error) as caught:
        yield caught
    check_said(str(caught.value), **instead)


def check_messages(test: str, folder: Path | None) -> None:
    """Fail where a test, whose files are below a folder, said something else than what is kept."""
    now = "\n".join(dict.fromkeys(said)).replace(sys.executable, "PYTHON")
    files = {rf"{re.escape(str(folder))}/\w+": "TMP"} if folder else {}
    for differs, instead in (files | {re.escape(str(ROOT)): "ROOT"} | DIFFERS).items():
        now = re.sub(differs, instead, now, flags=re.MULTILINE)
    now, before = now.strip(), kept().get(test, "")
    new = NEW / f"{zlib.crc32(test.encode()):08x}.txt"
    if now == before:
        new.unlink(missing_ok=True)
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(f"[{test}]\n{now}\n")
    lines = difflib.ndiff(before.splitlines(), now.splitlines())
    taken = "If these messages are better: python tests/unit/messages.py"
    pytest.fail("\n".join([*lines, taken]), pytrace=False)


@functools.cache
def kept() -> dict[str, str]:
    """Return what each test says, by the file, where tests that say the same share one text."""
    found, text = {}, ""
    _, *parts = HEADER.split(FILE.read_text())
    for test, following in zip(parts[-2::-2], parts[::-2], strict=True):
        found[test] = text = following.strip() or text
    return found


def is_there(test: str) -> bool:
    """Whether a test is in its file."""
    file, _, name = test.partition("[")[0].rpartition("::")
    path = ROOT / file.partition("::")[0]
    return path.is_file() and f"def {name}(" in path.read_text()


def take() -> None:
    """Merge what tests said into the file, without the tests that are gone."""
    now = dict(kept())
    for file in NEW.glob("*.txt"):
        _, test, text = HEADER.split(file.read_text())
        now[test] = text.strip()
        file.unlink()
    texts = []
    tests = sorted(test for test in now if now[test] and is_there(test))
    for text, alike in itertools.groupby(tests, now.__getitem__):
        texts.append("\n".join([*(f"[{test}]" for test in alike), text, ""]))
    FILE.write_text("\n".join(texts))


if __name__ == "__main__":
    take()
