"""The errors: their statuses, how they are sent between processes, and how they are in a line."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from rltrain.errors import DivergenceError, PluginError, RankFailed, UsageError, in_a_line, suggest


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (PluginError("x"), 1),
        (DivergenceError("x"), 1),
        (RankFailed("x", rank=3), 1),
        (RankFailed("x", rank=None, exit_code=143), 143),
    ],
)
def test_an_error_keeps_its_status_from_process_to_process(error, code):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.exit_code) == (type(error), "x", code)
    assert getattr(again, "rank", None) == getattr(error, "rank", None)


KNOWN = ["HopperHop", "Hopper-v4", "Hopper-v5", "gymnasium", "envpool", "rl_games", "CartPole-v1"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *(("rl_game", "rl_games"), ("CARTPOLE-V1", "CartPole-v1"), ("nothing like it", "")),
        # A version comes before a similar word, and a beginning after it.
        *(("hopper", "Hopper-v5"), ("HoperHop", "HopperHop"), ("gym", "gymnasium"), ("gy", "")),
        ("", ""),
    ],
)
def test_suggestions(name, hint):
    assert suggest(name, KNOWN) == (f" Did you mean {hint!r}?" if hint else "")
    assert suggest(name, []) == ""


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
