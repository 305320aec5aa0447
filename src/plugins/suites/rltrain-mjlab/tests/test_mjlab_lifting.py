"""Tasks that mjlab has had since 1.2: the oldest version, too, has them, and no cart-pole."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from mjlab.tasks.registry import list_tasks

from rltrain.errors import UsageError
from rltrain_devkit import SuiteConformance
from rltrain_mjlab.config import with_options
from rltrain_mjlab.env import MjlabEnv
from rltrain_mjlab.plugin import describe, tasks
from rltrain_mjlab.tasks import BUNDLED

TASK = "Mjlab-Lift-Cube-Yam"


class TestLifting(SuiteConformance):
    suite = "mjlab"
    task = TASK
    env = {"episode_length_s": 0.3}  # 15 steps.
    ends = False


def test_tasks_are_those_of_the_installed_version():
    assert set(BUNDLED) == set(list_tasks()) == set(tasks())


@pytest.fixture
def env():
    config = with_options(TASK, {"episode_length_s": 0.1})
    config.scene.num_envs, config.seed = 2, 0
    made = MjlabEnv(TASK, config)
    yield made
    made.close()


def test_metrics_are_logged_when_an_episode_ends(env):
    """Not again in each later step."""
    env.reset(seed=0)
    actions = env.action_space.sample() * 0
    infos = [env.step(actions)[4] for _ in range(7)]
    assert [step for step, info in enumerate(infos, 1) if "log" in info] == [5]


def test_an_option_of_later_versions_is_refused():
    given = {"auto_reset": False}
    if version("mjlab").startswith("1.2."):
        with pytest.raises(UsageError, match=r"env\.auto_reset: .* no such option"):
            describe(TASK, given)
    else:
        assert describe(TASK, given).max_episode_length == 1000
