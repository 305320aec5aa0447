"""How the suite describes tasks, and refuses wrong options."""

from __future__ import annotations

import pytest
from helpers import python
from messages import says

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.types import ArrayInfo
from rltrain_envpool.plugin import describe, tasks, tuned

envpool = pytest.importorskip("envpool")

from envpool.registration import registry  # noqa: E402

from rltrain_envpool.tasks import _IMAGES, _NOT_OPTIONS, configured  # noqa: E402

CHEETAH = "envpool/HalfCheetah-v4"
GO1 = "envpool/Go1JoystickFlatTerrain-v1"
LIBRARIES = ("rl_games", "rsl_rl", "skrl")


def vectors(**widths):
    return {group: ArrayInfo((width,)) for group, width in widths.items()}


def test_declining_a_task_imports_nothing_heavy():
    code = """
    import sys
    import rltrain_envpool.plugin as plugin
    assert plugin.describe("HalfCheetah-v4", {}) is None
    print([m for m in ("torch", "numpy", "jax", "gymnasium", "envpool") if m in sys.modules])
    """
    assert python(code).stdout.strip() == "[]"


def test_tasks_are_described_with_their_spaces():
    info = describe(CHEETAH, {})
    assert (info.name, info.action, info.actions) == (CHEETAH, "continuous", (6,))
    assert (info.max_episode_length, info.observations) == (1000, vectors(policy=17))
    assert info.options["ctrl_cost_weight"] == 0.1
    info = describe("envpool/CartPole-v1", {})
    assert (info.action, info.actions, info.max_episode_length) == ("discrete", (2,), 500)
    info = describe(GO1, {})
    assert (info.observations, info.actions) == (vectors(policy=48, critic=123), (12,))
    info = describe("envpool/RubiksCube-partly-scrambled-v0", {})
    assert (info.action, len(info.actions)) == ("multi_discrete", 3)
    assert describe("envpool/FrozenLake-v1", {}).observations == vectors(policy=16)
    assert describe("envpool/WalkerWalk-v1", {}).observations == vectors(policy=24)
    assert describe("envpool/FetchReach-v4", {}).observations == vectors(policy=16)


def test_unknown_names():
    for unknown in ("HalfCheetah-v4", "envpool/HalfCheetah", "envpool/", "no_such_thing"):
        assert describe(unknown, {}) is None


def test_a_name_without_the_prefix_suggests_the_prefixed_name():
    with says(UsageError):
        make_plan({"task": "HalfCheetah-v4", "suite": "envpool"}, {})


@pytest.mark.parametrize(
    "task",
    [
        "envpool/Pong-v5",
        "envpool/MiniGrid-Empty-5x5-v0",
        "envpool/Backgammon-v1",
        "envpool/SearchAndRescue-v0",
    ],
)
def test_tasks_that_cannot_be_learned_are_refused(task):
    with says(UsageError):
        describe(task, {})


def test_listed_tasks():
    names = tasks()
    assert {CHEETAH, GO1, "envpool/CartPole-v1"} <= set(names)
    assert "envpool/Pong-v5" not in names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ctrl_cost": 1}, r"env\.ctrl_cost: .* no such option. Did you mean 'ctrl_cost_weight'"),
        ({"seed": 1}, r"env\.seed: .* no such option"),
        ({"frame_skip": 2.5}, r"env\.frame_skip=2\.5 .* have the type of its default, 5"),
        ({"ctrl_cost_weight": "x"}, r"have the type of its default, 0\.1"),
        ({"post_constraint": 1}, "have the type of its default, False"),
        ({"max_episode_steps": 0}, "must be 1 or more"),
        ({"num_threads": -1}, "must be 0 or more"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UsageError, match=message):
        configured(CHEETAH, options)


def test_options_reach_envpool():
    config = configured(CHEETAH, {"max_episode_steps": 7, "ctrl_cost_weight": 1}).config
    assert (config.max_episode_steps, config.ctrl_cost_weight) == (7, 1.0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tuned_options(library):
    robot, other = (describe(f"envpool/{name}-v1", {}) for name in ("SpotGetup", "WalkerWalk"))
    assert tuned(describe(CHEETAH, {}), library, "ppo") != tuned(describe(GO1, {}), library, "ppo")
    assert (tuned(robot, library, "ppo") is None) == ("critic" not in robot.observations)
    assert tuned(other, library, "ppo") is None
    assert tuned(describe(GO1, {}), library, "no_such_algorithm") is None


def test_the_registry_distinguishes_task_families():
    assert list(registry.specs) == envpool.list_all_envs()
    assert {family for family, _, _ in registry.specs.values()} >= _IMAGES


def test_every_configuration_has_the_fields_that_users_may_not_set():
    for task in ("HalfCheetah-v4", "CartPole-v1"):
        assert set(envpool.make_spec(task).config._fields) >= _NOT_OPTIONS
