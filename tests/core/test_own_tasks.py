"""Tasks of packages and modules that users bring: who is asked, and what must not be imported."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from helpers import refusal

from rltrain.errors import UsageError
from rltrain.plan.choices import find_modules_here, find_task, having
from rltrain.plugins import registry
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo


class Suite:
    """Counts how often it is asked for real."""

    def __init__(self, name, has=(), knows=None):
        self.asked = []
        self.has = has
        known = None if knows is None else lambda task: task in knows
        self.spec = SuiteSpec(
            name=name,
            factory="x:y",
            frameworks=("torch",),
            describe=self.describe,
            tasks=lambda: list(has),
            probably_has=known,
        )

    def describe(self, task, env):
        self.asked.append(task)
        return TaskInfo(task, "continuous") if task in self.has else None


def names(found):
    return [spec.name for spec, _ in found]


def test_a_simulator_is_not_started_for_a_name_that_it_does_not_know():
    simulator = Suite("simulator", has=["Robot", "Composed"], knows=["Robot"])
    light = Suite("light", has=["CartPole"])
    both = [light.spec, simulator.spec]
    assert names(having("CartPole", {}, both, Registry())) == ["light"]
    assert having("Composed", {}, both, Registry()) == having("Typo", {}, both, Registry()) == []
    assert not simulator.asked
    assert names(having("Robot", {}, both, Registry())) == ["simulator"]
    assert light.asked == ["CartPole", "Composed", "Typo"]
    wrong = Suite("wrong", knows=["CartPole"])  # It seems to know a name.
    assert names(having("CartPole", {}, [light.spec, wrong.spec], Registry())) == ["light"]


def test_who_names_the_suite_or_a_module_asks_for_real():
    simulator = Suite("simulator", has=["Composed", "mine:Composed"], knows=[])
    light = Suite("light", has=["mine:CartPole"])
    assert names(having("Composed", {}, [simulator.spec], Registry(), "simulator")) == ["simulator"]
    both = [light.spec, simulator.spec]
    assert names(having("mine:CartPole", {}, both, Registry())) == ["light"]
    assert simulator.asked == ["Composed"]
    assert names(having("mine:Composed", {}, both, Registry())) == ["simulator"]


class Registry(registry.Registry):
    def __init__(self, *suites, unusable=()):
        super().__init__(())
        self.suites = [suite.spec for suite in suites]
        self.unusables = [SimpleNamespace(name=name, status="unmet") for name in unusable]

    def all(self, kind):
        return self.suites

    def unusable(self, kind):
        return self.unusables

    def not_ready(self, kind):
        return "".join(f" Not ready: {each.name}." for each in self.unusables)


def test_an_unknown_name_says_how_to_name_a_module():
    light = Suite("light", has=["CartPole-v1"])
    assert refusal(find_task, "CartPole-v2", {}, None, Registry(light)) == (
        "Unknown task 'CartPole-v2'. Did you mean 'CartPole-v1'? Suites searched: light. "
        "For one of yours give --task MODULE:NAME."
    )


def test_an_unknown_name_may_be_that_of_a_package_which_is_not_imported():
    light = Suite("light", has=["Pong-v4"])

    def games(module):
        return [] if module else ["games:More/Pong-v5", "games:Pong-v5"]

    light.spec = replace(light.spec, undiscovered_tasks=games)
    with pytest.raises(UsageError, match=r"Did you mean 'games:Pong-v5'\?"):
        find_task("Pong-v5", {}, None, Registry(light))
    with pytest.raises(UsageError, match=r"Did you mean 'Pong-v4'\?"):  # They have been asked.
        find_task("games:Pong-v5", {}, None, Registry(light))


@pytest.mark.parametrize(
    ("task", "suite"),
    [
        ("envpool/HalfCheetah-v4", "envpool"),
        ("Mjlab-Cartpole-Balance", "mjlab"),
        ("Isaac-Cartpole-v0", "isaaclab"),
    ],
)
def test_a_suite_of_ours_that_is_not_installed_is_named(task, suite):
    light = Suite("light", has=["HalfCheetah-v4"])
    told = f"Unknown task {task!r}. {suite}: a suite of rltrain-{suite}. pip install 'rltrain-"
    assert refusal(find_task, task, {}, None, Registry(light)).startswith(told)
    not_ready = Registry(light, unusable=[suite])
    assert "a suite of" not in refusal(find_task, task, {}, None, not_ready)


@pytest.mark.parametrize("task", ["bots_of_ours", "bots_of_ours:Robot"])
def test_the_tasks_of_a_module_are_named_where_none_is_meant(task):
    light = Suite("light", has=["Both-v1"])
    names = {"bots_of_ours": ["bots_of_ours:Bot-v0", "bots_of_ours:Box-v0"]}
    light.spec = replace(light.spec, undiscovered_tasks=lambda module: names.get(module, []))
    with pytest.raises(UsageError, match=r"bots_of_ours has bots_of_ours:Bot-v0, bots_of_ours:Box"):
        find_task(task, {}, None, Registry(light))
    names["bots_of_ours"] *= 6
    assert "bots_of_ours has" not in refusal(find_task, task, {}, None, Registry(light))


def test_a_module_may_have_a_task_in_its_sources_alone_and_an_unknown_name_be_another():
    light = Suite("light", has=["Both-v1"])
    light.spec = replace(light.spec, undiscovered_tasks=lambda module: [f"{module}:Bot-v0"])
    with pytest.raises(UsageError, match=r"Did you mean 'bots_of_ours:Bot-v0'\?"):
        find_task("bots_of_ours:Bot-v1", {}, None, Registry(light))
    with pytest.raises(
        UsageError, match=r"'bots_of_ours:Bot-v0'\. The sources of bots_of_ours have"
    ):
        find_task("bots_of_ours:Bot-v0", {}, None, Registry(light))


def test_a_task_of_a_suite_that_is_not_ready_is_no_misspelled_other():
    light = Suite("light", has=["CartPole-v1"])
    told = refusal(find_task, "Isaac-CartPole-v1", {}, None, Registry(light, unusable=["isaaclab"]))
    assert "Did you mean" not in told
    assert "Not ready: isaaclab" in told


def test_modules_in_the_current_folder_are_found_last(monkeypatch, tmp_path):
    (tmp_path / "bot_alone.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert find_spec("bot_alone") is None
    find_modules_here()
    find_modules_here()
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    assert find_spec("bot_alone") is not None
