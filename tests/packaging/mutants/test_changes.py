"""Which faults are planted."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = '''
"""Text == text."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import heavy

__all__ = ["f"]
LIMIT: int = 3


def f(x: int | None, *, strict: bool = True) -> bool:
    """Return 1 == 1."""
    log("a" + "b")
    if x is None or x.ok:
        return not strict
    if done(x):
        return min(x.rank, 2) < LIMIT * 2
    return f"{x == 1}"
'''


def test_each_change_is_of_code_that_runs_and_is_python(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    from changes import changes

    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    found = changes(path)
    assert [(each.before, each.after) for each in found] == [
        ("3", "(3 + 1)"),
        ("True", "False"),
        ('log("a" + "b")', "pass"),
        ("is", "is not"),
        ("or", "and"),
        ("not ", ""),
        ("done(x)", "not done(x)"),
        ("min", "max"),
        ("rank", "local_rank"),
        ("2", "(2 + 1)"),
        ("<", "<="),
        ("*", "/"),
        ("2", "(2 + 1)"),
    ]
    for each in found:
        ast.parse(each.apply())
        assert each.apply() != SOURCE
