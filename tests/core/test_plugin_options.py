"""Helpers of library and suite plugins that read and set options."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rltrain.files.dotted import leaves
from rltrain.types import is_image


def test_leaves_are_values_that_are_not_mappings():
    options = {"a": {"b": 1, "c": {"d": [{"e": 2}]}}, "f": None, "empty": {}}
    assert dict(leaves(options)) == {"a.b": 1, "a.c.d": [{"e": 2}], "f": None}


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
