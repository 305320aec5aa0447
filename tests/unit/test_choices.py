"""What a plan chooses: whom it asks for a task, which options of it, and where no default is."""

from __future__ import annotations

import dataclasses
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from helpers import refusal
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster
from rltrain.plan.choices import choose_agent, find_modules_here, find_task, get_library, having
from rltrain.plan.resolve import make_plan
from rltrain.plugins import registry
from rltrain.plugins.registry import discover
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo


class Suite:
    """Counts how often it is asked for real."""

    def __init__(self, name, has=(), knows=None):
        self.asked = []
        self.has = has
        known = None if knows is None else lambda task: task in knows
        facts = {"frameworks": ("torch",), "describe": self.describe, "tasks": lambda: list(has)}
        self.spec = SuiteSpec(name=name, factory="x:y", probably_has=known, **facts)

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
    check_said(refusal(find_task, "CartPole-v2", {}, None, Registry(light)))


def test_an_unknown_name_may_be_that_of_a_package_which_is_not_imported():
    light = Suite("light", has=["Pong-v4"])

    def games(module):
        return [] if module else ["games:More/Pong-v5", "games:Pong-v5"]

    light.spec = dataclasses.replace(light.spec, undiscovered_tasks=games)
    with says(UsageError):
        find_task("Pong-v5", {}, None, Registry(light))
    with says(UsageError):  # They have been asked.
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
    light.spec = dataclasses.replace(
        light.spec, undiscovered_tasks=lambda module: names.get(module, [])
    )
    with says(UsageError):
        find_task(task, {}, None, Registry(light))
    names["bots_of_ours"] *= 6
    assert "bots_of_ours has" not in refusal(find_task, task, {}, None, Registry(light))


def test_a_module_may_have_a_task_in_its_sources_alone_and_an_unknown_name_be_another():
    light = Suite("light", has=["Both-v1"])
    light.spec = dataclasses.replace(
        light.spec, undiscovered_tasks=lambda module: [f"{module}:Bot-v0"]
    )
    with says(UsageError):
        find_task("bots_of_ours:Bot-v1", {}, None, Registry(light))
    told = r"'bots_of_ours:Bot-v0'\. The sources of bots_of_ours have"
    with says(UsageError):
        find_task("bots_of_ours:Bot-v0", {}, None, Registry(light))
    # A task of a suite that is not ready is no misspelled other.
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


TASK = TaskInfo(
    "Bot",
    "continuous",
    agents={
        "rsl_rl": ("rsl_rl", "ppo"),
        "rsl_rl_distillation": ("rsl_rl", "distillation"),
        "skrl": ("skrl", "ppo"),
    },
)


def chosen(task=TASK, **options):
    return choose_agent(RunOptions(**options), task)


@pytest.mark.parametrize("key", ["rsl_rl_distillation", "rsl_rl_distillation_cfg_entry_point"])
def test_the_key_says_library_and_algorithm(key):
    requested, task = chosen(agent_config=key)
    assert (requested.library, requested.algorithm) == ("rsl_rl", "distillation")
    assert task == dataclasses.replace(TASK, agent="rsl_rl_distillation")
    assert chosen(agent_config=key, library="rsl_rl", algorithm="Distillation")[1] == task
    assert chosen(library="skrl") == (RunOptions(library="skrl"), TASK)


@pytest.mark.parametrize(
    "options",
    [
        {"agent_config": "rsl_rl_destillation"},
        {"agent_config": "skrl", "library": "rsl_rl"},
        {"agent_config": "skrl", "algorithm": "sac"},
    ],
)
def test_what_does_not_fit_is_refused(options):
    check_said(refusal(chosen, **options))
    without = dataclasses.replace(TASK, agents={})
    check_said(refusal(chosen, without, agent_config="skrl"))


@pytest.mark.usefixtures("stub")
def test_options_of_an_algorithm_that_the_library_is_not_offered_with_are_refused():
    task = dataclasses.replace(TASK, agents={"stub_amp": ("stub", "amp")})
    requested, _ = chosen(task, agent_config="stub_amp", framework="numpy")
    with says(UsageError):
        get_library("stub", requested, discover())


NO_DEFAULT = """
from rltrain import hookimpl
from rltrain.specs import *

@hookimpl
def rltrain_provides():
    parts = "stub_parts:"
    return [
        BackendSpec(
            name="alone", factory=parts + "StubBackend", framework="numpy",
            device="cpu", launcher="l",
        ),
        LauncherSpec(name="l", factory=parts + "StubLauncher", frameworks=("numpy",)),
        GradientSyncSpec(name="s1", factory=parts + "StubSync", frameworks=("numpy",)),
        GradientSyncSpec(name="s2", factory=parts + "StubSync", frameworks=("numpy",)),
        LibrarySpec(
            name="n", factory=parts + "StubLibrary", frameworks=("numpy",), algorithms=("PPO",),
            default_agent=lambda task, algorithm: {"a": 1}, schema=OptionSchema(required=("a",)),
        ),
        SuiteSpec(
            name="numpies", factory=parts + "StubSuite", frameworks=("numpy",),
            tasks=lambda: ["Numpy-v0"],
            describe=lambda task, env: make() if task == "Numpy-v0" else None,
        ),
    ]

def make():
    from rltrain.types import TaskInfo
    return TaskInfo("Numpy-v0", "continuous")
"""


def test_a_framework_without_a_declared_gradient_sync_has_no_default(site, tmp_path):
    site.install("rltrain-alone", NO_DEFAULT, point="alone")
    options = {"library": "n", "framework": "numpy", "task": "Numpy-v0", "log_root": str(tmp_path)}
    with says(UsageError):
        make_plan(options, {})
    assert make_plan({**options, "grad_sync": "s2"}, {}).config.grad_sync == "s2"


CLUSTER = """
import dataclasses

from rltrain import hookimpl
from rltrain.builtin.clusters import CLUSTERS
from rltrain.specs import ClusterSpec

open_mpi = {spec.name: spec.find for spec in CLUSTERS}["open-mpi"]

def find(environ):
    return dataclasses.replace(open_mpi(environ), master_addr=environ["AAA"] or None)

@hookimpl
def rltrain_provides():
    return [ClusterSpec(name="aaa", order=10, find=find, variables=("AAA",))]
"""


def test_two_clusters_that_agree_on_the_rank_must_agree_on_where_ranks_meet(site):
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    started = {f"OMPI_COMM_WORLD_{name}": x for name, x in zip(names, "1212", strict=True)}
    site.install("rltrain-aaa", CLUSTER, point="aaa")
    requested = RunOptions(distributed=True)
    spec, place = find_cluster(requested, discover(), {**started, "AAA": ""})
    assert (spec.name, place.master_addr) == ("open-mpi", "127.0.0.1")
    with says(UsageError):
        find_cluster(requested, discover(), {**started, "AAA": "10.0.0.1"})
