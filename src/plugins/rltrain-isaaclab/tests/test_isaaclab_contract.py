"""What the plugin and its stand-in assume about Isaac Lab, checked in the installed sources.

Skipped if Isaac Lab is not installed. Nothing is imported, because Isaac Lab 2 would need its app.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from rltrain_isaaclab import compat

PATH = tuple(sys.path)
"""Without the stand-in."""

pytestmark = pytest.mark.skipif(
    PathFinder.find_spec("isaaclab_tasks", PATH) is None, reason="Isaac Lab is not installed"
)


@pytest.fixture
def source():
    """Return the text of files of a real package of Isaac Lab."""

    def read(package, *files):
        spec = PathFinder.find_spec(package, PATH)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        return "\n".join((folder / file).read_text() for file in files if (folder / file).is_file())

    return read


def test_the_app_starts_in_one_of_two_ways(source):
    text = source("isaaclab", "app/app_launcher.py", "app/sim_launcher.py")
    text += source("isaaclab_tasks", "utils/sim_launcher.py")
    assert "def launch_simulation(" in text or "class AppLauncher" in text
    assert "launcher_args: argparse.Namespace | dict | None" in text
    for name in ("device", "distributed"):
        assert f'"{name}"' in text


def test_configurations_are_loaded_by_task_and_key(source):
    text = source("isaaclab_tasks", "utils/parse_cfg.py", "utils/hydra.py")
    assert "def load_cfg_from_registry(task_name: str, entry_point_key: str)" in text
    if "def resolve_task_config(" in text:
        assert "sys.argv[1:]" in text  # Presets are read there.


@pytest.mark.parametrize("file", ["envs/manager_based_rl_env.py", "envs/direct_rl_env.py"])
def test_environments_have_what_is_read(source, file):
    text = source("isaaclab", file, "envs/manager_based_env.py", "envs/common.py")
    for name in ("single_observation_space", "single_action_space", "episode_length_buf"):
        assert f"self.{name}" in text
    for name in ("max_episode_length", "step_dt", "num_envs", "close"):
        assert f"def {name}(self" in text
    assert "self.reset_terminated, self.reset_time_outs, self.extras" in text


def test_the_error_for_disabled_cameras_has_known_words(source):
    text = source("isaaclab", "sensors/camera/camera.py")
    if "def launch_simulation(" in source("isaaclab", "app/sim_launcher.py"):
        pytest.skip("this generation finds cameras itself")
    assert compat.NEEDS_CAMERAS in text
