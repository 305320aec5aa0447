"""Errors in a line."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rltrain.errors import in_a_line


def raised_in(*files):
    """Return an error that these files have raised, each called by the one before it."""
    module = SimpleNamespace(call=None)
    for name in reversed(files):
        source = "def call():\n    inner() if inner else [][0]\n"
        scope = {"inner": module.call}
        exec(compile(source, name, "exec"), scope)
        module.call = scope["call"]
    with pytest.raises(IndexError) as caught:
        module.call()
    return caught.value


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (("/home/me/task.py",), "/home/me/task.py:2"),
        (("/home/me/task.py", "/env/site-packages/gym/core.py"), "/home/me/task.py:2"),
        (("/env/site-packages/gym/core.py", "/home/me/task.py"), "/home/me/task.py:2"),
        (("/env/site-packages/gym/core.py",), "/env/site-packages/gym/core.py:2"),
    ],
)
def test_the_place_is_in_the_users_own_code_if_it_is_in_the_trace(files, place):
    error = raised_in(*files)
    assert in_a_line(error) == "IndexError: list index out of range"
    error.__traceback__ = error.__traceback__.tb_next  # Without this file.
    assert in_a_line(error, placed=True) == f"IndexError: list index out of range ({place})"
