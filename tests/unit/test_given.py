"""Plugins that are not installed: given to a run, or named in the environment."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import types
from dataclasses import dataclass
from functools import partial

import numpy
import pytest
import stub_parts
import stub_plugin
from messages import check_said, says

import rltrain
from rltrain.commands import make_plan
from rltrain.errors import UsageError
from rltrain.plugins import discover, given
from rltrain.specs import LibrarySpec, ObserverSpec, WriterSpec
from rltrain.testing import FakeWorld

OPTIONS = {**stub_plugin.OPTIONS, "max_iterations": 2}


class Writes:
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


@dataclass(frozen=True)
class Amount:
    by: int = 1


class Counting:
    def __init__(self, options: Amount) -> None:
        self.by, self.count = options.by, 0

    @rltrain.hookimpl(wrapper=True)
    def rltrain_train(self):
        self.count += self.by
        return (yield)


def declares(kind, name, factory, **more):
    class Declares:
        @rltrain.hookimpl
        def rltrain_provides(self):
            return [kind(name=name, factory=f"{__name__}:{factory}", **more)]

    return Declares()


@pytest.mark.parametrize("observer", ["counting", Counting])
def test_an_observer_of_fake_ranks_has_its_options(observer):
    watching = [partial(Counting, Amount(5)), observer, "watcher"]
    plugin = declares(ObserverSpec, "counting", "Counting", options=f"{__name__}:Amount")
    given = {**OPTIONS, "counting": {"by": 3}, "plugins": [stub_plugin, plugin]}
    first, second = FakeWorld(2).train(**given, observers=watching)
    assert [each.count for each in first.observers[:2]] == [5, 3]
    assert type(second.observers[2]).__name__ == "Watcher"
    assert stub_plugin.EVENTS.count("before train") == 2


@pytest.mark.parametrize("name", ["launcher", "nnodes", "nproc_per_node"])
def test_fake_ranks_are_as_many_as_their_world_has(name):
    with says(UsageError):
        FakeWorld(2).train(**OPTIONS, distributed=True, plugins=[stub_plugin], **{name: 4})


def test_what_is_installed_and_given_is_not_found_twice_and_options_are_still_taken(stub):
    with given([stub_plugin]):
        assert discover().get(LibrarySpec, "stub").name == "stub"
    with says(UsageError):
        rltrain.train(**OPTIONS, plugins={"notes": {"flush": 1}})


@pytest.mark.parametrize("plugin", [Writes(), types.ModuleType("made")])
def test_what_ranks_could_not_import_is_refused_before_they_start(plugin):
    options = {**OPTIONS, "distributed": True, "nproc_per_node": 2}
    with says(UsageError):
        rltrain.train(**options, plugins=[stub_plugin, plugin])
    assert ("launch", 2) not in stub_plugin.EVENTS
    rltrain.train(**OPTIONS, distributed=True, nproc_per_node=2, plugins=[stub_plugin])
    assert ("launch", 2) in stub_plugin.EVENTS


def test_a_rank_finds_what_the_environment_names(monkeypatch):
    monkeypatch.setenv("RLTRAIN_MODULES", "stub_plugin, nowhere_at_all")
    assert make_plan(OPTIONS).config.library == "stub"
    (record,) = [each for each in discover().records if each.name == "nowhere_at_all"]
    assert record.reason == "ModuleNotFoundError: No module named 'nowhere_at_all'"


class Raises:
    @rltrain.hookimpl(wrapper=True)
    def rltrain_train(self):
        yield
        raise RuntimeError("planted")


@pytest.mark.parametrize("fails", [False, True])
def test_a_search_draws_another_number_for_each_run(fails):
    plugins = [stub_plugin, declares(ObserverSpec, "raises", "Raises")]
    given = {**OPTIONS, "seed": 7, "plugins": plugins, "observers": ["raises"] * fails}
    drawn = {True: [], False: []}
    for trains in drawn:
        random.seed(1)
        numpy.random.seed(1)
        for _ in range(3):
            drawn[trains].append((random.random(), numpy.random.rand()))
            with contextlib.suppress(RuntimeError):
                if trains:
                    rltrain.train(**given)
    assert drawn[True] == drawn[False]


class Meanwhile:
    said = ""

    @rltrain.hookimpl
    def rltrain_write(self, record):
        thread = threading.Thread(target=self.run)
        thread.start()
        thread.join()

    def run(self):
        try:
            rltrain.train(**OPTIONS)
        except UsageError as error:
            Meanwhile.said = str(error)


def test_two_threads_do_not_train_at_the_same_time():
    plugins = [stub_plugin, declares(WriterSpec, "meanwhile", "Meanwhile")]
    assert rltrain.train(**{**OPTIONS, "writers": ["meanwhile"]}, plugins=plugins).iterations == 2
    check_said(Meanwhile.said)
    assert rltrain.train(**OPTIONS, plugins=[stub_plugin]).iterations == 2


class Silent(stub_parts.StubLibrary):
    @rltrain.hookimpl
    def rltrain_train(self, session):
        session.wrap_model({"weight": numpy.zeros(2)}, "policy")
        session.env.reset()
        return session.result()


def test_a_library_that_records_nothing_is_told_so(capfd):
    (library,) = (x for x in stub_plugin.rltrain_provides() if isinstance(x, LibrarySpec))
    fields = {name: x for name, x in vars(library).items() if name not in ("name", "factory")}
    plugins = [stub_plugin, declares(LibrarySpec, "silent", "Silent", **fields)]
    rltrain.train(**{**OPTIONS, "library": "silent"}, plugins=plugins)
    told = "The library 'silent' has recorded nothing: call session.record("
    assert told in capfd.readouterr().out
    rltrain.train(**OPTIONS, plugins=plugins)
    assert "has recorded nothing" not in capfd.readouterr().out
