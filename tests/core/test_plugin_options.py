"""Helpers of library and suite plugins that read and set options."""

from __future__ import annotations

from rltrain.files.dotted import leaves


def test_leaves_are_values_that_are_not_mappings():
    options = {"a": {"b": 1, "c": {"d": [{"e": 2}]}}, "f": None, "empty": {}}
    assert dict(leaves(options)) == {"a.b": 1, "a.c.d": [{"e": 2}], "f": None}
