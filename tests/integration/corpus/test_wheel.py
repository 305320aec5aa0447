"""The wheel of Isaac Lab 2.3 starts its app, and has what the plugin and its stand-in assume."""

from __future__ import annotations

import pytest
from helpers import python

pytestmark = [pytest.mark.slow, pytest.mark.network]

START = """
import sys
from unittest import mock
for name in ("isaacsim", "carb", "omni", "omni.timeline", "omni.kit", "omni.kit.app"):
    sys.modules[name] = mock.MagicMock(__file__="isaacsim/__init__.py")
sys.path.insert(0, sys.argv.pop(1))
from rltrain_isaaclab import compat
compat.start_to_look()
print(sys.modules["isaacsim"].SimulationApp.call_args.kwargs["experience"])
"""


def test_the_app_of_the_wheel_starts(wheel, tmp_path):
    """Its `__init__` makes the module `isaaclab.app` in its own way. Isaac Sim is a mock."""
    result = python(START, str(wheel.parents[1]), EXP_PATH=str(tmp_path))
    assert result.stdout.splitlines()[-1].endswith("isaaclab.python.headless.kit")


@pytest.fixture
def source(wheel):
    """Return a function that reads files of one of the wheel's packages."""
    return lambda package, *files: "\n".join(
        (wheel / package / package / file).read_text() for file in files
    )


def test_configurations_are_loaded_by_task_and_key(source):
    text = source("isaaclab_tasks", "utils/parse_cfg.py")
    assert "def load_cfg_from_registry(task_name: str, entry_point_key: str)" in text


@pytest.mark.parametrize("file", ["envs/manager_based_rl_env.py", "envs/direct_rl_env.py"])
def test_environments_have_what_is_read(source, file):
    text = source("isaaclab", file, "envs/manager_based_env.py", "envs/common.py")
    for name in ("single_observation_space", "single_action_space", "episode_length_buf"):
        assert f"self.{name}" in text
    for name in ("max_episode_length", "step_dt", "num_envs", "close"):
        assert f"def {name}(self" in text
    assert "self.reset_terminated, self.reset_time_outs, self.extras" in text


def test_the_error_for_disabled_cameras_has_known_words(source):
    from rltrain_isaaclab import compat

    assert compat.NEEDS_CAMERAS in source("isaaclab", "sensors/camera/camera.py")
