"""What plugins were written for in the last release is still there."""

from __future__ import annotations

import pytest
from public_api import RELEASED, breaks, current, read, written

HOOK = "rltrain.hookspecs.RunHooks.rltrain_train"
BEFORE = {
    "rltrain.errors.suggest": ["name", "known", "--more=()"],
    "rltrain.types.World": ["rank", "device='cpu'"],
    "rltrain.config.RunConfig": ["num_envs=8"],
    HOOK: ["session", "extras"],
    "rltrain.specs.KINDS": None,
    "a writer must implement rltrain_write": None,
}


def test_the_released_api_is_still_there():
    broken = list(breaks(read(RELEASED.read_text()), current()))
    assert not broken, "plugins of others would break (docs/stability.md):\n" + "\n".join(broken)


def test_what_a_release_writes_is_read_again():
    assert read(written(current())) == current()
    assert read(written(BEFORE)) == BEFORE


@pytest.mark.parametrize(
    ("name", "takes", "says"),
    [
        ("rltrain.errors.suggest", ["name", "--more=()"], "takes no known any more"),
        ("rltrain.errors.suggest", ["known", "name", "--more=()"], "stand in another order"),
        ("rltrain.errors.suggest", ["name", "known"], "takes no more any more"),
        ("rltrain.types.World", ["rank", "device"], "now needs device. Give it a default."),
        ("rltrain.types.World", ["rank", "device='cpu'", "place"], "now needs place"),
        ("rltrain.types.World", ["place=0", "rank", "device='cpu'"], "stand in another order"),
        ("rltrain.types.World", ["rank", "device='gpu'"], "device was 'cpu' by default, and is"),
        (HOOK, ["session"], "takes no extras any more"),
        ("rltrain.specs.KINDS", "gone", "is gone. Keep it for a release"),
        ("a writer must implement rltrain_open", None, "did not before"),
    ],
)
def test_what_breaks_a_plugin_is_named(name, takes, says):
    now = {key: value for key, value in {**BEFORE, name: takes}.items() if value != "gone"}
    (broken,) = breaks(BEFORE, now)
    assert broken.startswith(name)
    assert says in broken


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("rltrain.errors.suggest", ["name", "known", "cutoff=1", "--more=()"]),
        ("rltrain.types.World", ["rank", "device='cpu'", "--place=0"]),
        (HOOK, ["session", "new", "extras"]),
        ("rltrain.types.Place", ["rank"]),
        ("rltrain.config.RunConfig", ["num_envs=16"]),
    ],
)
def test_what_breaks_no_plugin_is_fine(name, takes):
    assert list(breaks(BEFORE, {**BEFORE, name: takes})) == []


@pytest.mark.parametrize(
    ("name", "took"),
    [
        ("rltrain_torch.gradients.synchronize", ["sync", "parameters", "extras=()"]),
        ("rltrain_jax.trees.broadcast_tree", ["group", "tree", "device"]),
        ("rltrain_play.evaluating.evaluate", []),
        ("rltrain_adapters.sources.mentions", []),
        ("rltrain.session.Session.should_stop", None),
        ("rltrain.policy.Policy.groups", None),
        ("rltrain.types.ProcessGroup.all_reduce", ["x", "op='sum'"]),
    ],
)
def test_what_plugins_use_is_in_it(name, took):
    now = current()
    assert name in now
    if took is not None:
        assert took == now[name] or not took
    (gone,) = breaks({name: now[name]}, {})
    assert "is gone" in gone
