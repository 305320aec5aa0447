"""How the suite describes tasks without importing Playground, compared with Playground itself."""

from __future__ import annotations

import pytest
from helpers import python
from messages import says

from rltrain.errors import UsageError
from rltrain_playground import plugin
from rltrain_playground.plugin import describe, tasks
from rltrain_playground.tasks import BUNDLED, MENAGERIE


def test_describing_imports_nothing_heavy():
    code = """
    import sys
    import rltrain_playground.plugin as plugin
    assert plugin.describe("CartpoleBalance", {}).max_episode_length == 1000
    heavy = "torch", "numpy", "jax", "gymnasium", "mujoco", "mujoco_playground"
    print([m for m in heavy if m in sys.modules])
    """
    assert python(code).stdout.strip() == "[]"


@pytest.mark.slow
def test_names_match_playground():
    from mujoco_playground import dm_control_suite, locomotion, manipulation

    from rltrain_playground.config import episode_steps, find

    assert set(BUNDLED) == {name for name in dm_control_suite.ALL_ENVS if name != "Point"}
    assert set(MENAGERIE) == {*locomotion.ALL_ENVS, *manipulation.ALL_ENVS}
    for name, length in {**BUNDLED, **MENAGERIE}.items():
        assert episode_steps(find(name)) == length, name


def test_tasks():
    assert tasks()[0] == "CartpoleBalance"
    info = describe("WalkerWalk", {})
    assert (info.name, info.action, info.options) == ("WalkerWalk", "continuous", None)
    for unknown in ("CartPole-v1", "walkerwalk", "a b:X"):
        assert describe(unknown, {}) is None


def test_a_module_that_cannot_be_imported_is_named():
    with says(UsageError):
        describe("no_such_module:X", {})


def test_a_task_of_a_module():
    assert describe("playground_point:Point", {}).max_episode_length == 9
    assert describe("playground_point:Line", {}) is None


@pytest.mark.parametrize("there", [True, False])
def test_tasks_whose_robots_have_to_be_downloaded(monkeypatch, there):
    monkeypatch.setattr(plugin, "has_menagerie", lambda: there)
    if there:
        assert describe("PandaPickCube", {}).max_episode_length == 150
    else:
        with pytest.raises(UsageError, match="ensure_menagerie_exists"):
            describe("PandaPickCube", {})


def test_the_physics_implementation_suits_the_device():
    from rltrain_playground.config import find, with_options

    assert with_options("CartpoleBalance", {}, "cpu").impl == "jax"
    assert with_options("CartpoleBalance", {}, "cuda:0").impl == find("CartpoleBalance").impl
    assert with_options("CartpoleBalance", {"impl": "warp"}, "cpu").impl == "warp"


def test_images_are_refused():
    from rltrain_playground.config import with_options

    with says(UsageError):
        with_options("CartpoleBalance", {"vision": True}, "cpu")
