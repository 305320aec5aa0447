"""What rltrain answers to mistakes: `messages` has each line that is typed and the whole answer.

A changed answer shows as one difference to read. Where it is meant, take over what the test wrote.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WRITTEN = Path(__file__).parent / "messages"
SAID = Path("build") / "messages"


@pytest.mark.parametrize("file", sorted(WRITTEN.iterdir()), ids=lambda file: file.stem)
def test_mistakes_are_answered_as_written(typed, file):
    def answer(block: re.Match[str]) -> str:
        status, printed = typed(block[1])
        assert status == 2, printed
        return f"$ {block[1]}\n{printed}"

    written = file.read_text()
    said = re.sub(r"^\$ (.+)\n(?:.+\n)*", answer, written, flags=re.MULTILINE)
    if said != written:
        SAID.mkdir(parents=True, exist_ok=True)
        (SAID / file.name).write_text(said)
    assert said == written, f"If these are better: cp {SAID / file.name} {file}"
