"""Tasks of packages and modules that users bring: who is asked, and what must not be imported."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rltrain.errors import UsageError
from rltrain.plan.tasks import find_task, having
from rltrain.sources import (
    compared_with,
    find_modules_here,
    first_arguments,
    import_for,
    mentions,
    parameters,
    registered_names,
    texts_in,
)
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
            knows=known,
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
    assert names(having("CartPole", {}, both)) == ["light"]
    assert having("Composed", {}, both) == having("Typo", {}, both) == []
    assert not simulator.asked
    assert names(having("Robot", {}, both)) == ["simulator"]
    assert light.asked == ["CartPole", "Composed", "Typo"]


def test_who_names_the_suite_or_a_module_asks_for_real():
    simulator = Suite("simulator", has=["Composed", "mine:Composed"], knows=[])
    light = Suite("light", has=["mine:CartPole"])
    assert names(having("Composed", {}, [simulator.spec], named=True)) == ["simulator"]
    both = [light.spec, simulator.spec]
    assert names(having("mine:CartPole", {}, both)) == ["light"]
    assert simulator.asked == ["Composed"]
    assert names(having("mine:Composed", {}, both)) == ["simulator"]


def test_a_suite_that_seems_to_know_a_name_may_be_wrong():
    simulator = Suite("simulator", knows=["CartPole"])
    light = Suite("light", has=["CartPole"])
    assert names(having("CartPole", {}, [light.spec, simulator.spec])) == ["light"]


class Registry:
    def __init__(self, *suites, unusable=()):
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
    with pytest.raises(UsageError) as refused:
        find_task("CartPole-v2", {}, None, Registry(light))
    assert str(refused.value) == (
        "Unknown task 'CartPole-v2'. Did you mean 'CartPole-v1'? Suites searched: light. "
        "For one of yours give --task MODULE:NAME."
    )


def test_an_unknown_name_may_be_that_of_a_package_which_is_not_imported():
    light = Suite("light", has=["Pong-v4"])
    light.spec = replace(light.spec, unimported=lambda: ["games:More/Pong-v5", "games:Pong-v5"])
    with pytest.raises(UsageError, match=r"Did you mean 'games:Pong-v5'\?"):
        find_task("Pong-v5", {}, None, Registry(light))
    with pytest.raises(UsageError, match=r"Did you mean 'Pong-v4'\?"):  # They have been asked.
        find_task("games:Pong-v5", {}, None, Registry(light))


def test_an_unknown_name_in_a_module_may_be_another_of_that_module(package):
    light = Suite("light", has=["Both-v1"])
    with pytest.raises(UsageError, match=r"Did you mean 'bots_of_ours:Bot-v0'\?"):
        find_task("bots_of_ours:Bot-v1", {}, None, Registry(light))


def test_a_module_may_have_a_task_in_its_sources_alone(package):
    light = Suite("light", has=["Both-v1"])
    with pytest.raises(
        UsageError, match=r"'bots_of_ours:Bot-v0'\. The sources of bots_of_ours have"
    ):
        find_task("bots_of_ours:Bot-v0", {}, None, Registry(light))


def test_a_task_of_a_suite_that_is_not_ready_is_no_misspelled_other():
    light = Suite("light", has=["CartPole-v1"])
    with pytest.raises(UsageError) as refused:
        find_task("Isaac-CartPole-v1", {}, None, Registry(light, unusable=["isaaclab"]))
    assert "Did you mean" not in str(refused.value)
    assert "Not ready: isaaclab" in str(refused.value)


WORDS = """
raise SystemExit
__all__ = ["Bot", "Arm"]
known = {"walk": 1, "run": 2}.get(gait.lower())
self.gaits.register("walk", lambda: 1)
# self.gaits.register("swim", 1)
self.arms.register("grab", 1)
fast = config["gait"] == "run" or self.gait not in ("walk", "crawl") or gait.lower() == "trot"
class Bot:
    def __init__(self, legs, arms=2, *others, name, speed: float = 1.0, **more):
        def __init__(self, inner): ...
class Arm(Bot): ...
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that must not be imported."""
    inner = tmp_path / "bots_of_ours" / "tasks"
    inner.mkdir(parents=True)
    (tmp_path / "bots_of_ours" / "__init__.py").write_text("raise SystemExit")
    (inner / "__init__.py").write_text("import gymnasium as gym\ngym.register(id='Bot-v0')")
    (inner / "more.py").write_text('register(\n    "Other", 1\n)\nregister(f"{x}-v0")  # simulator')
    (tmp_path / "bot_alone.py").write_text("import simulator")
    (tmp_path / "bot_words.py").write_text(WORDS)
    (tmp_path / "bot_broken.py").write_text("known = {")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


def test_sources_are_read_without_importing_them(package):
    assert mentions("bots_of_ours.tasks", "simulator")
    assert mentions("bots_of_ours.tasks.more", "simulator")
    assert mentions("bot_alone", "nothing", "simulator")
    assert not mentions("bots_of_ours.tasks", "other words")
    for module in ("no_such_module", "bots_of_ours.nothing", "bots/../of", "", ".x", "a..b"):
        assert not mentions(module, "i")
    assert registered_names("bots_of_ours", "register", "id") == ["Bot-v0", "Other"]
    assert not any(name.startswith("bot") for name in sys.modules)


def test_words_are_read_without_importing_what_has_them(package):
    assert texts_in("bot_words", "__all__") == {"Bot", "Arm"}
    assert texts_in("bot_words", "known") == {"walk", "run"}
    assert first_arguments("bot_words", "gaits.register") == {"walk"}
    assert first_arguments("bot_words", "register") == {"walk", "grab"}
    assert compared_with("bot_words", "gait") == {"run", "walk", "crawl", "trot"}
    given = {"legs": False, "arms": True, "name": False, "speed": True}
    assert parameters("bot_words", "Bot") == given
    assert parameters("bot_words", "Arm") == parameters("no_such_module", "Bot") == {}
    for module in ("bot_words", "bot_broken", "no_such_module"):
        assert texts_in(module, "nothing") == frozenset()
    assert texts_in("bot_broken", "known") == frozenset()


def test_modules_in_the_current_folder_are_found_last(package, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:-1])
    assert not mentions("bot_alone", "simulator")
    find_modules_here()
    find_modules_here()
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    assert mentions("bot_alone", "simulator")


def test_a_module_whose_import_fails_is_named_with_its_task(monkeypatch, tmp_path):
    (tmp_path / "no_display.py").write_text("raise RuntimeError('no display\\n:0')")
    monkeypatch.syspath_prepend(tmp_path)
    message = "the module 'no_display' cannot be imported: RuntimeError: no display :0"
    with pytest.raises(UsageError, match=rf"^The task 'no_display:Pole-v0': {message}$"):
        import_for("no_display:Pole-v0")


def test_a_module_that_cannot_be_imported_is_named_with_its_task():
    assert import_for("CartPole") == "CartPole"
    assert import_for("json.tool:CartPole") == "CartPole"
    for task, module in (("no_such:CartPole", None), ("CartPole", "no_such")):
        with pytest.raises(UsageError) as refused:
            import_for(task, module)
        assert str(refused.value) == (
            f"The task {task!r}: the module 'no_such' cannot be imported: No module named 'no_such'"
        )
