"""How the suite describes tasks without importing mjlab, compared with mjlab itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import python
from mjlab.tasks.registry import list_tasks

from rltrain.errors import UsageError
from rltrain_mjlab import registry
from rltrain_mjlab.config import episode_steps
from rltrain_mjlab.plugin import describe, tasks
from rltrain_mjlab.tasks import BUNDLED, GROUPS, bundled_info

LIGHT = """
import sys
import rltrain_mjlab.plugin as plugin
balance = plugin.describe("Mjlab-Cartpole-Balance", {})
assert balance.max_episode_length == 1000
assert plugin.knows("Mjlab-Cartpole-Balance") and not plugin.knows("CartPole-v1")
assert "Mjlab-Cartpole-Balance" in plugin.tasks()
assert plugin.tuned(balance, "rl_games", "ppo")["params"]["config"]["horizon_length"] == 32
print([m for m in ("torch", "numpy", "gymnasium", "mujoco", "warp", "mjlab") if m in sys.modules])
"""

THIRD_PARTY = """
from mjlab.tasks.cartpole.cartpole_env_cfg import cartpole_balance_env_cfg, cartpole_ppo_runner_cfg
from mjlab.tasks.registry import register_mjlab_task

config = cartpole_balance_env_cfg()
config.episode_length_s = 1.0
register_mjlab_task("Robots-Flat", config, cartpole_balance_env_cfg(play=True),
    cartpole_ppo_runner_cfg())
"""

ASKS = """
from rltrain_mjlab.plugin import describe, tasks, tuned
info = describe("Robots-Flat", {})
print(info.max_episode_length, info.observations, "Robots-Flat" in tasks(), describe("Robots", {}))
print(tuned(info, "rsl_rl", "ppo")["obs_groups"], tuned(info, "rsl_rl", "distillation"))
from warp._src import context
print("Warp has not started:", context.runtime is None)
"""


def test_describing_imports_nothing_heavy():
    assert python(LIGHT).stdout.strip() == "[]"


def test_names_match_mjlab():
    assert set(BUNDLED) == set(list_tasks()) == set(tasks())
    for name in BUNDLED:
        info, config = bundled_info(name), registry.env_config(name)
        assert info.max_episode_length == episode_steps(config)
        assert set(info.observations) == {GROUPS.get(group, group) for group in config.observations}
        assert not config.is_finite_horizon
    assert describe("Mjlab-Lift-Cube-Yam-Rgb", {}).observations["camera"].shape == (32, 32, 3)
    assert describe("mjlab-cartpole-balance", {}) is None


def test_options_that_change_the_task_are_described():
    own = describe("Mjlab-Cartpole-Balance", {})
    assert describe("Mjlab-Cartpole-Balance", {"rewards": {"smooth_reward": None}}) == own
    short = describe("Mjlab-Cartpole-Balance", {"episode_length_s": 0.5, "decimation": 10})
    assert short == replace(own, max_episode_length=5)
    for wrong, says in [
        ({"rewards": {"no_such": {"weight": 2}}}, r"env\.rewards\.no_such: .* no such option"),
        ({"viewer": {"distance": "far"}}, r"env\.viewer\.distance='far' .*: must be a number"),
    ]:
        with pytest.raises(UsageError, match=says):
            describe("Mjlab-Cartpole-Balance", wrong)
    motion = {"commands": {"motion": {"motion_file": "gone.npz"}}}
    with pytest.raises(UsageError, match=r"motion_file='gone.npz': .* does not exist"):
        describe("Mjlab-Tracking-Flat-Unitree-G1", motion)
    fewer = describe("Mjlab-Cartpole-Balance", {"observations": {"critic": None}})
    assert fewer.observations is None


@pytest.mark.slow  # Separate processes import mjlab.
def test_without_egl_the_error_says_how_to_train_without_pictures(tmp_path, monkeypatch):
    (tmp_path / "OpenGL").mkdir()
    (tmp_path / "OpenGL" / "__init__.py").write_text("None.eglQueryString")  # As PyOpenGL does.
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from rltrain.errors import UsageError
try:
    from rltrain_mjlab import registry
    print(registry.has("Mjlab-Cartpole-Balance"))
except UsageError as error:
    print(error)
"""
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert "MUJOCO_GL=egl asks: AttributeError: " in python(code, timeout=280).stdout
    assert python(code, timeout=280, MUJOCO_GL="disabled").stdout.strip() == "True"


@pytest.mark.slow  # A separate process imports mjlab.
def test_tasks_of_other_packages(tmp_path):
    """They are known once mjlab is imported, which starts neither Warp nor CUDA."""
    (tmp_path / "robots.py").write_text(THIRD_PARTY)
    dist_info = tmp_path / "robots-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: robots\nVersion: 1.0\n")
    (dist_info / "entry_points.txt").write_text("[mjlab.tasks]\nrobots = robots\n")
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{ASKS}"
    assert python(code, timeout=280).stdout.splitlines()[-3:] == [
        "20 None True None",
        "{'actor': ['actor'], 'critic': ['critic']} None",
        "Warp has not started: True",
    ]
