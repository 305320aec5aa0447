"""Plugins that are not installed: given to a run, or named in the environment."""

from __future__ import annotations

import os
import types

import pytest
import stub_plugin

import rltrain
from rltrain.commands import make_plan
from rltrain.errors import UsageError
from rltrain.plugins import discover, given
from rltrain.specs import LibrarySpec, WriterSpec
from rltrain.testing import FakeWorld

OPTIONS = {**stub_plugin.OPTIONS, "max_iterations": 2}


class Writes:
    """A plugin that is an object."""

    @rltrain.hookimpl
    def rltrain_provides(self):
        return [WriterSpec(name="given", factory=f"{__name__}:Counts")]


class Counts:
    records = 0

    @rltrain.hookimpl
    def rltrain_write(self, record):
        Counts.records += 1


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stub_plugin.EVENTS.clear()


def test_what_is_given_is_found_inside_only():
    before = dict(os.environ)
    with given([stub_plugin, Writes()]):
        assert discover().get(LibrarySpec, "stub").frameworks == ("numpy",)
        assert discover().get(WriterSpec, "given").name == "given"
    with pytest.raises(UsageError, match="Unknown library 'stub'"):
        discover().get(LibrarySpec, "stub")
    assert dict(os.environ) == before


def test_a_run_takes_plugins_that_are_not_installed():
    Counts.records = 0
    result = rltrain.train(**{**OPTIONS, "writers": ["given"]}, plugins=[stub_plugin, Writes()])
    assert result.iterations == 2
    assert Counts.records >= 2


def test_fake_ranks_take_them_too():
    runs = FakeWorld(2).train(**OPTIONS, plugins=[stub_plugin])
    assert [run.result.iterations for run in runs] == [2, 2]


def test_what_is_installed_and_given_is_not_found_twice(stub):
    with given([stub_plugin]):
        assert discover().get(LibrarySpec, "stub").name == "stub"


def test_options_of_plugins_are_still_taken(stub):
    with pytest.raises(UsageError, match="notes: the writer notes has no options"):
        rltrain.train(**OPTIONS, plugins={"notes": {"flush": 1}})


@pytest.mark.parametrize("plugin", [Writes(), types.ModuleType("made")])
def test_what_ranks_could_not_import_is_refused_before_they_start(plugin):
    options = {**OPTIONS, "distributed": True, "nproc_per_node": 2}
    with pytest.raises(UsageError, match=r"plugins: (Writes|made) cannot be imported by ranks"):
        rltrain.train(**options, plugins=[stub_plugin, plugin])
    assert ("launch", 2) not in stub_plugin.EVENTS


def test_ranks_are_started_for_a_module():
    rltrain.train(**OPTIONS, distributed=True, nproc_per_node=2, plugins=[stub_plugin])
    assert ("launch", 2) in stub_plugin.EVENTS


def test_a_rank_finds_what_the_environment_names(monkeypatch):
    monkeypatch.setenv("RLTRAIN_MODULES", "stub_plugin, nowhere_at_all")
    assert make_plan(OPTIONS).config.library == "stub"
    (record,) = [each for each in discover().records if each.name == "nowhere_at_all"]
    assert record.reason == "ModuleNotFoundError: No module named 'nowhere_at_all'"
