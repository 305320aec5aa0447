"""The page on the kinds of plugins has each, and its code keeps the contract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rltrain_devkit
from rltrain.specs import KINDS, GradientSyncSpec
from rltrain.testing import FakeWorld, RunPlugins

PAGE = (Path(__file__).parents[2] / "docs" / "kinds.md").read_text()


def code(kind):
    """Return what the code of a kind's section defines."""
    section = PAGE.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names = {"__name__": "page"}
    exec(block, names)
    return names


def test_every_kind_has_a_row_and_a_section_and_a_kit_that_exists():
    assert re.findall(r"^## (.*)$", PAGE, re.M) == [*re.findall(r"^\| `(\w+)` \|", PAGE, re.M)]
    assert set(re.findall(r"^## (.*)$", PAGE, re.M)) == set(KINDS)
    for name in re.findall(r"`(\w+Conformance)` \|$", PAGE, re.M):
        assert getattr(rltrain_devkit, name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_of_a_kind_names_what_its_class_must_have(kind):
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", PAGE, re.M)
    assert all(f"`{name}`" in row for name in KINDS[kind].requires)


def test_the_gradient_sync_keeps_the_contract():
    sync = code("gradient_sync")["MeanSync"]()
    RunPlugins().register(sync, "mean", requires=GradientSyncSpec.requires)


def test_the_observer_adds_its_number_to_the_metrics(tmp_path, scalars):
    options = {"library": "skrl", "num_envs": 4, "max_iterations": 1, "log_root": str(tmp_path)}
    agent = {"agent.rollouts": 8, "agent.mini_batches": 1}
    world = FakeWorld(2, rank_local=["skrl:config.torch"])
    runs = world.train(observers=[scalars, code("observer")["SyncTime"]], agent=agent, **options)
    assert runs[0].observers[0].values[0]["time/sync"] > 0
