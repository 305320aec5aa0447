"""What videos show of the environments, and that recording does not change training."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest

from rltrain.errors import UsageError
from rltrain.testing import make_config
from rltrain.types import World
from rltrain_gymnasium.suite import GymnasiumSuite
from rltrain_gymnasium.tasks import EMBEDDED, make_task
from rltrain_gymnasium.tasks.base import BLUE, RED


def make(task, **env):
    config = make_config(task=task, suite="gymnasium", num_envs=3, env=env)
    session = types.SimpleNamespace(config=config, world=World(), framework="torch", renders=True)
    return GymnasiumSuite().rltrain_make_env(session)


def middle(picture, color):
    """Return the center of all pixels of a color: row and column."""
    return np.argwhere((picture == color).all(-1)).mean(0)


@pytest.mark.parametrize("task", EMBEDDED)
def test_embedded_tasks_are_rendered(task):
    env = make(task)
    env.reset(seed=0)
    (picture,) = env.render()
    assert (picture.dtype, picture.shape) == (np.uint8, (320, 480, 3))
    assert (picture == RED).all(-1).any()


def test_the_frame_of_a_cart_pole_shows_its_state():
    task = make_task("rltrain/CartPole-v1", {})
    left, right = (task.picture([x, 0.0, angle, 0.0]) for x, angle in ((-1, 0.2), (1, -0.2)))
    np.testing.assert_array_equal(left, right[:, ::-1])
    row, column = middle(left, BLUE)
    # The cart is left of the center, and the pole leans to the right.
    assert middle(left, RED)[1] - column > 5
    assert column == pytest.approx(240 - 480 / (2.2 * 2.4), abs=1.5)
    assert middle(left, RED)[0] < row


def test_mujoco_tasks_offer_their_scene():
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio", reason="needs gymnasium[mujoco]")
    env = make("InvertedPendulum-v5")
    observations, _ = env.reset(seed=0)
    for index in (2, 0):
        model, data = env.mujoco_scene(index)
        assert model.nq == 2
        np.testing.assert_allclose(data.qpos, observations[index, :2], rtol=1e-6)
    assert make("CartPole-v1").mujoco_scene is None


def test_only_the_first_gymnasium_environment_is_rendered():
    pytest.importorskip("pygame")
    env = make("CartPole-v1")
    assert [one.render_mode for one in env._env.envs] == ["rgb_array", None, None]
    env.reset(seed=0)
    (frame,) = env.render()
    assert (frame.dtype, frame.shape) == (np.uint8, (400, 600, 3))
    env.close()


class Blind(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)


class Windowed(Blind):
    metadata = {"render_modes": ["human"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode


@pytest.mark.parametrize("kind", [Blind, Windowed])
def test_a_task_that_cannot_render_is_refused(kind):
    gymnasium.register("Undrawn-v0", kind)
    try:
        with pytest.raises(UsageError, match=r"--video, .*: the task 'Undrawn-v0' cannot render"):
            make("Undrawn-v0")
    finally:
        del gymnasium.registry["Undrawn-v0"]


DRAWN = """
import types
from test_gymnasium_videos import make
from rltrain_play.video.recorder import render_frame
env = make("InvertedPendulum-v5")
env.reset(seed=0)
render_frame(env.render)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gl", ["egl", None])
def test_mujoco_renders_or_names_what_is_missing(gl, request):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio", reason="needs gymnasium[mujoco]")
    hidden = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    environ |= {"PYTHONPATH": str(request.path.parent)} | ({"MUJOCO_GL": gl} if gl else {})
    result = subprocess.run(
        [sys.executable, "-c", DRAWN], env=environ, capture_output=True, text=True, timeout=120
    )
    if gl is None:
        assert "UsageError: --video, a viewer, or an observer that renders" in result.stderr
        assert "the environments could not be rendered" in result.stderr
    elif "could not be rendered" in result.stderr:
        pytest.skip(f"MuJoCo cannot draw here: {result.stderr[-200:]}")
    else:
        assert result.returncode == 0, result.stderr
