"""Options of libraries and tasks: read, set, refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rltrain.errors import UsageError
from rltrain_adapters import get_positive_int, is_image, set_child, unknown_env_option


def test_a_positive_int_is_read_or_refused():
    agent = {"learn": {"steps": 8, "rate": 0.5, "none": 0}}
    assert get_positive_int(agent, "learn.steps") == 8
    assert get_positive_int(agent, "learn.epochs", 3) == 3
    for key in ("learn.rate", "learn.none"):
        with pytest.raises(UsageError, match=rf"agent\.{key}=0.*: must be a whole number"):
            get_positive_int(agent, key)


def test_children_are_set_by_key_index_or_name():
    node = SimpleNamespace(terms={3: "old"}, items=[1, 2])
    set_child(node.terms, "3", "new")
    set_child(node.items, "1", 5)
    set_child(node, "scale", 0.5)
    assert (node.terms, node.items, node.scale) == ({3: "new"}, [1, 5], 0.5)


def test_an_unknown_task_option_lists_the_known_ones():
    message = str(unknown_env_option("Point-v0", "sim.dtt", ["sim.dt", "sim.gravity"]))
    assert "env.sim.dtt: the task Point-v0 has no such option." in message
    assert "Did you mean 'sim.dt'? Its options: sim.dt, sim.gravity." in message
    assert str(unknown_env_option("Point-v0", "x", [])).endswith("Its options: none.")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box(0, 255, (8, 8, 3), np.uint8), True),
        (Box(0, 1, (8, 8, 3), np.float32), True),
        (Box(0, 1, (8, 8, 3), np.float64), False),
        (Box(0, 1, (8,)), False),
        (Discrete(3), False),
    ],
)
def test_images_are_boxes_of_height_width_and_channels(space, expected):
    assert is_image(space) is expected
