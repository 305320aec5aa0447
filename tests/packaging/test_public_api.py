"""What a change does to the public API is seen: the file beside this one has each name."""

from __future__ import annotations

import pytest
from public_api import FILE, current, written


def test_the_file_has_the_public_api():
    changed = set(written(current()).splitlines()) ^ set(FILE.read_text().splitlines())
    assert not changed, "run `python tests/packaging/public_api.py` (docs/stability.md)"


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("rltrain_torch.gradients.synchronize", ["sync", "parameters", "extras=()"]),
        ("rltrain_jax.trees.broadcast_tree", ["group", "tree", "device"]),
        ("rltrain_play.evaluating.evaluate", None),
        ("rltrain_adapters.sources.mentions", None),
        ("rltrain.session.Session.should_stop", None),
        ("rltrain.policy.Policy.groups", None),
        ("rltrain.types.ProcessGroup.all_reduce", ["x", "op='sum'"]),
    ],
)
def test_what_plugins_use_is_in_it(name, takes):
    now = current()
    assert name in now
    assert takes in (None, now[name])
