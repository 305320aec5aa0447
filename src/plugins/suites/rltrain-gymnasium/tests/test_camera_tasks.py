"""The embedded tasks with camera images: what the images show, and how they are returned."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("jax")  # An optional framework.

import jax
import jax.numpy as jnp

import rltrain_gymnasium.registration  # noqa: F401
from rltrain.types import ArrayInfo
from rltrain_gymnasium.batched import make_batched
from rltrain_gymnasium.plugin import describe
from rltrain_gymnasium.tasks import (
    EMBEDDED,
    CartPoleCamera,
    CartPoleContinuousCamera,
    CartPoleContinuousCameraAndMotion,
)
from rltrain_gymnasium.tasks.camera import HEIGHT, WIDTH

NAMES = sorted(name for name, task in EMBEDDED.items() if task().image_shapes)
FRAMEWORKS = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": jnp.asarray}


def see(state, task=None):
    """Return the policy's images of states as integers, (num_envs, height, width, 2)."""
    task = task or CartPoleContinuousCamera()
    coordinates = tuple(np.asarray(axis, np.float32) for axis in task.pixel_coordinates)
    return task.render(np, np.array(state, np.float32), coordinates)["policy"].astype(int)


def play(framework, name, steps=40):
    env = make_batched(16, name, framework, max_episode_length=9)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    results = []
    for _ in range(steps):
        if env.task.action == "discrete":
            actions = rng.integers(2, size=16)
        else:
            actions = rng.uniform(-1, 1, (16, 1)).astype(np.float32)
        results.append(env.step(FRAMEWORKS[framework](actions)))
    return env, results


# What the images show


def test_the_pole_is_where_its_angle_says():
    image = see([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.2, 0.0]])[..., 0]
    top = image[:, 1]  # 0.9 m above the cart.
    brightest = (top * np.arange(WIDTH)).sum(1) / top.sum(1)
    meters = (brightest - WIDTH / 2 + 0.5) * 0.1
    assert meters == pytest.approx([0.0, 1.0 + 0.9 * np.tan(0.2)], abs=0.02)


def test_motion_of_much_less_than_a_pixel_is_visible():
    still, moved, tilted = see([[0, 0, 0, 0], [0.01, 0, 0, 0], [0, 0, 0.01, 0]])[..., 0]
    assert abs(moved - still).max() > 10
    assert abs(tilted - still).max() > 10


def test_the_frames_show_the_velocities():
    still, moving, falling = see([[0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0.5]])
    assert (still[..., 0] == still[..., 1]).all()
    assert (moving[..., 0] == still[..., 0]).all()
    assert (falling[..., 0] == still[..., 0]).all()
    before = see([[-0.03, 0, 0, 0], [0, 0, -0.03, 0]])[..., 0]
    assert abs(moving[..., 1] - before[0]).max() <= 1
    assert abs(falling[..., 1] - before[1]).max() <= 1


def test_an_image_shows_the_whole_track_for_any_length():
    wide = see([[4.8, 0.0, 0.0, 0.0]], CartPoleContinuousCamera(position_limit=4.8))[0, ..., 0]
    assert wide[:, -2:].max() > 100


# How they are returned


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_observations_are_in_their_space(name, framework):
    env, results = play(framework, name)
    for observations, *_, info in results:
        for given in (observations, info["final_obs"]):
            arrays = {key: np.asarray(x) for key, x in given.items()}
            assert env.observation_space.contains(arrays)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_render_the_same_images(framework):
    rng = np.random.default_rng(0)
    state = rng.normal(0, [1.0, 1.0, 0.1, 1.0], (64, 4)).astype(np.float32)
    drawn = []
    for each in ("numpy", framework):
        env = make_batched(64, CartPoleContinuousCamera.name, each)
        env.reset(seed=0)
        env.set_state({**env.get_state(), "state": state})
        action = FRAMEWORKS[each](np.zeros((64, 1), np.float32))
        drawn.append(np.asarray(env.step(action)[4]["final_obs"]["policy"]).astype(int))
    assert abs(drawn[0] - drawn[1]).max() <= 1  # The frameworks may round differently.


def test_the_physics_equals_that_of_the_task_without_a_camera():
    _, seen = play("torch", CartPoleContinuousCamera.name)
    _, felt = play("torch", "rltrain/CartPoleContinuous-v1")
    for left, right in zip(seen, felt, strict=True):
        assert torch.equal(left[0]["critic"], right[0])
        assert torch.equal(left[2], right[2])
        assert torch.equal(left[4]["final_obs"]["critic"], right[4]["final_obs"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_state_is_restored_bit_for_bit(framework):
    env, _ = play(framework, CartPoleCamera.name)
    state = env.get_state()
    action = FRAMEWORKS[framework](np.ones(16, np.int32))
    first, *_ = env.step(action)
    env.set_state(state)
    again, *_ = env.step(action)
    assert all(np.array_equal(first[key], again[key]) for key in first)


def test_a_jax_step_is_one_program(caplog):
    env, _ = play("jax", CartPoleContinuousCamera.name, steps=2)
    action = jnp.zeros((16, 1))
    with jax.transfer_guard("disallow"), jax.log_compiles():
        for _ in range(3):
            env.step(action)
    assert "Finished XLA compilation" not in caplog.text


def test_the_camera_beside_measured_velocities():
    env, results = play("torch", CartPoleContinuousCameraAndMotion.name)
    state = env.get_state()["state"]
    observations = results[-1][0]
    assert torch.equal(observations["policy"], state[:, 1::2])
    assert observations["camera"].shape == (16, HEIGHT, WIDTH, 1)
    assert observations["camera"].dtype == torch.uint8


def test_task_infos():
    info = describe(CartPoleContinuousCamera.name, {})
    assert info.has_images
    assert info.observations == {
        "critic": ArrayInfo((4,)),
        "policy": ArrayInfo((HEIGHT, WIDTH, 2), "uint8"),
    }
    assert info.options["frame_interval"] == 0.06
    motion = describe(CartPoleContinuousCameraAndMotion.name, {})
    assert motion.observations["policy"] == ArrayInfo((2,))
    assert gymnasium.make_vec(CartPoleCamera.name, num_envs=2).num_envs == 2
