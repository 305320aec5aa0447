"""The errors: their exit statuses, and that they can be sent between processes."""

from __future__ import annotations

import pickle

import pytest

from rltrain.errors import DivergenceError, PluginError, RankFailed, UsageError, suggest


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
