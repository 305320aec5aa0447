"""The page on the kinds of plugins has each, and its code keeps the contract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rltrain_devkit
from rltrain.specs import KINDS
from rltrain_devkit.new import files_of

PAGE = (Path(__file__).parents[2] / "docs" / "kinds.md").read_text()


def test_every_kind_has_a_row_and_a_section_and_a_kit_that_exists():
    assert re.findall(r"^## (.*)$", PAGE, re.M) == [*re.findall(r"^\| `(\w+)` \|", PAGE, re.M)]
    assert set(re.findall(r"^## (.*)$", PAGE, re.M)) == set(KINDS)
    for name in re.findall(r"`(\w+Conformance)` \|$", PAGE, re.M):
        assert getattr(rltrain_devkit, name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_of_a_kind_names_what_its_class_must_have(kind):
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", PAGE, re.M)
    assert all(f"`{name}`" in row for name in KINDS[kind].requires)


@pytest.mark.parametrize("kind", ["gradient_sync", "observer"])
def test_the_code_of_a_kind_is_what_new_writes(kind):
    section = PAGE.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    assert block in files_of("my", kind)[f"rltrain_my/{kind}.py"]
