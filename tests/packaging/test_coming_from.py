"""Every command on the page "Coming from Isaac Lab, mjlab, skrl or torchrun" works.

Each line of theirs, with the script replaced as the page says, gives the same plan as ours.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()


def pairs(header: str) -> list[tuple[str, str]]:
    found = re.findall(rf"^\| {header} \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in found for row in table.splitlines()]
    return [re.fullmatch(r"\| `([^`]*)` \| `([^`]*)` \|", row).groups() for row in rows]


RULES = pairs(r"in place of \| type")
COMMANDS = pairs(r".* \| rltrain")
BLOCKS = re.findall(r"^    (.*rltrain.*)$", PAGE, re.MULTILINE)


def replaced(line: str) -> str:
    for script, ours in RULES:
        line = line.replace(script, ours)
    return line


def plan(printed: str) -> dict[str, str]:
    """Return the plan's lines by name, with the options, and without who starts the ranks."""
    table, options = printed[printed.index("library ") :].split("\n\n", 1)
    rows = dict(line.split(maxsplit=1) for line in table.splitlines())
    del rows["ranks"]
    # A rank that was started has them from its launcher; and it is typed in other words.
    for name in ("GPUs", "network", "set"):
        rows.pop(name, None)
    return {**rows, "options of library and task": options.partition("\n\nNothing")[0]}


@pytest.mark.slow
@pytest.mark.parametrize(("theirs", "ours"), COMMANDS, ids=[theirs for theirs, _ in COMMANDS])
def test_their_command_gives_the_plan_of_ours(typed, theirs, ours):
    assert replaced(theirs) != theirs
    (status, of_theirs), (also, of_ours) = typed(replaced(theirs)), typed(ours)
    assert (status, also) == (0, 0), of_theirs + of_ours
    assert plan(of_theirs) == plan(of_ours)
    assert ours.startswith("rltrain") or "=" in ours.split()[0]


@pytest.mark.parametrize("line", BLOCKS)
def test_a_command_of_the_page_works(typed, line):
    status, printed = typed(line)
    assert status == 0, printed


def test_the_page_has_commands_of_all_four():
    assert len(RULES) == 8
    assert len(BLOCKS) == 2
    for word in ("isaaclab train_multigpu", "uv run train", "skrl.utils", "torch.distributed.run"):
        assert any(word in theirs for theirs, _ in COMMANDS)
