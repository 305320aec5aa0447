"""The embedded tasks: physics, state, arrays of numpy, torch and jax, images of cameras."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from messages import says

pytest.importorskip("jax")  # An optional framework.

import jax
import jax.numpy as jnp

import rltrain_gymnasium.registration  # noqa: F401
from rltrain_gymnasium.batched import make_batched
from rltrain_gymnasium.tasks import (
    EMBEDDED,
    CartPole,
    CartPoleContinuous,
    CartPoleContinuousCamera,
    CartPoleContinuousCameraAndMotion,
    Pendulum,
)
from rltrain_gymnasium.tasks.camera import HEIGHT, WIDTH

NAMES = sorted(name for name, task in EMBEDDED.items() if not task().image_shapes)
"""The tasks without images."""
FRAMEWORKS = ("numpy", "torch", "jax")


def as_numpy(array):
    return array.cpu().numpy() if torch.is_tensor(array) else np.asarray(array)


def array(framework, values):
    return {"numpy": np.asarray, "torch": torch.as_tensor, "jax": jnp.asarray}[framework](values)


def random_actions(env, rng):
    task = env.task
    if task.action == "discrete":
        return rng.integers(task.num_actions, size=env.num_envs)
    shape = (env.num_envs, task.num_actions)
    return rng.uniform(-task.action_bound, task.action_bound, shape).astype(np.float32)


def same(left, right):
    assert np.array_equal(as_numpy(left), as_numpy(right))


@pytest.fixture
def float64():
    """Enable float64 in jax, which computes in float32 by default."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def compilations(caplog):
    """Return a function that counts the programs jax compiled since the last call."""

    def count():
        found = [record for record in caplog.records if "XLA compilation" in record.message]
        caplog.clear()
        return len(found)

    with jax.log_compiles():
        yield count


# Physics against Gymnasium's own, in float64, from the same state, step by step


@pytest.mark.parametrize("xp", [np, torch, jnp], ids=FRAMEWORKS)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("task", [CartPole(), CartPoleContinuous()], ids=["choice", "graded"])
def test_cartpole_equals_gymnasium(xp, task):
    reference = gymnasium.make("CartPole-v1").unwrapped
    reference.reset(seed=3)
    rng = np.random.default_rng(0)
    terminated, steps = False, 0
    while not terminated and steps < 200:
        right = int(rng.integers(2))
        action = [right] if task.action == "discrete" else [[2.0 * right - 1.0]]
        state = xp.asarray(reference.state)[None]
        state, reward, done = task.step(xp, state, xp.asarray(np.array(action)))
        _, expected_reward, terminated, _, _ = reference.step(right)
        np.testing.assert_allclose(state[0], reference.state, rtol=1e-12, atol=1e-14)
        assert float(reward[0]) == expected_reward
        assert bool(done[0]) == terminated
        steps += 1
    assert terminated


def test_cartpole_force_is_scaled_and_clipped():
    task, state = CartPoleContinuous(force=4.0), np.zeros((4, 4))
    push = task.push(np, state, np.array([[-3.0], [-0.5], [0.25], [7.0]]))
    assert push.tolist() == [-4.0, -2.0, 1.0, 4.0]


@pytest.mark.parametrize("xp", [np, torch, jnp], ids=FRAMEWORKS)
@pytest.mark.usefixtures("float64")
def test_pendulum_equals_gymnasium(xp):
    reference = gymnasium.make("Pendulum-v1").unwrapped
    reference.reset(seed=5)
    task, rng = Pendulum(), np.random.default_rng(0)
    for _ in range(200):
        action = rng.uniform(-3.0, 3.0, size=1)  # Exceeds the torque's bound too.
        state = xp.asarray(reference.state)[None]
        state, reward, done = task.step(xp, state, xp.asarray(action)[None])
        observation, expected_reward, terminated, _, _ = reference.step(action)
        np.testing.assert_allclose(state[0], reference.state, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(task.observe(xp, state)[0], observation, rtol=1e-6, atol=1e-6)
        assert float(reward[0]) == pytest.approx(float(expected_reward), rel=1e-12)
        assert bool(done[0]) is terminated is False


def test_parameters_change_the_physics():
    state, right = np.array([[0.0, 0.0, 0.1, 0.0]]), np.array([1])
    stock = CartPole().step(np, state, right)[0]
    for option in ({"pole_length": 2.0}, {"cart_mass": 2.0}, {"pole_mass": 0.5}, {"force": 5.0}):
        assert not np.allclose(CartPole(**option).step(np, state, right)[0], stock), option


@pytest.mark.parametrize(
    "option",
    [
        {"pole_mass": -1.0},
        {"pole_mass": math.nan},
        {"gravity": math.inf},
        {"max_episode_length": 0},
        {"max_episode_length": 2.5},
    ],
)
def test_parameters_out_of_range(option):
    with says(ValueError):
        CartPole(**option)


def test_parameters_of_the_wrong_type():
    with says(TypeError):
        CartPole(force="much")
    assert CartPole(gravity=-1).gravity == -1


# The environment


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_last_step_that_terminates_is_not_truncated(framework):
    env = make_batched(2, CartPole.name, framework, max_episode_length=1)
    env.reset(seed=0)
    state = env.get_state()
    fallen = np.zeros((2, 4), np.float32)
    fallen[0, 0] = 3.0
    env.set_state({**state, "state": fallen})
    _, _, terminations, truncations, _ = env.step([1, 1])
    assert as_numpy(terminations).tolist() == [True, False]
    assert as_numpy(truncations).tolist() == [False, True]


def test_state_of_another_size_is_refused():
    env = make_batched(2, CartPole.name)
    env.reset(seed=0)
    with says(ValueError):
        make_batched(3, CartPole.name).set_state(env.get_state())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_reset_without_a_seed_goes_on(framework):
    env = make_batched(8, CartPole.name, framework)
    first, second = (as_numpy(env.reset(seed=seed)[0]) for seed in (7, None))
    assert not np.array_equal(first, second)
    other = make_batched(8, CartPole.name, framework).reset()[0]
    assert not np.array_equal(second, as_numpy(other))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_global_generators_are_not_touched(framework):
    np.random.seed(0), torch.manual_seed(0)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    env = make_batched(4, Pendulum.name, framework)
    env.reset(seed=1), env.step(np.zeros((4, 1)))
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_returned_arrays_belong_to_the_caller(name, framework):
    """Writing to returned arrays must not change the physics."""
    env, twin = (make_batched(4, name, framework) for _ in range(2))
    env.reset(seed=0)[0][:] = 99.0
    twin.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = random_actions(env, rng)
        result, expected = env.step(action), twin.step(action)
        same(result[0], expected[0])
        state = env.get_state()
        returned = (*result[:4], *result[4].values(), state["state"], state["episode_length"])
        for array in returned:
            array[:] = 1


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_jax_step_is_one_program(name, compilations):
    env = make_batched(8, name, "jax", max_episode_length=3)
    rng = np.random.default_rng(0)
    actions = [array("jax", random_actions(env, rng)) for _ in range(9)]
    env.reset(seed=0), env.step(actions[0])
    assert compilations() >= 2
    with jax.transfer_guard("disallow"):
        for action in actions:
            env.step(action)
    env.set_state(env.get_state())
    env.episode_length_buf = [2] * 8
    env.reset(), env.step(actions[0])
    assert compilations() == 0


@pytest.mark.slow
def test_jax_actions_may_come_in_any_form():
    """Discrete actions of shape (num_envs, 1), other dtypes, and numpy, which is not kept."""
    results = []
    for make in (
        lambda: jnp.ones(4, jnp.int32),
        lambda: jnp.ones((4, 1), jnp.float32),
        lambda: [1] * 4,
        lambda: np.ones((4, 1), np.int64),
    ):
        env = make_batched(4, CartPole.name, "jax")
        env.reset(seed=0)
        results.append(as_numpy(env.step(make())[0]))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_jax_does_not_share_memory_with_the_caller():
    env, lengths = make_batched(64, CartPole.name, "jax"), np.zeros(64, np.int32)
    env.reset(seed=0)
    env.episode_length_buf = lengths
    lengths += 7
    assert not env.episode_length_buf.any()


def test_inference_mode_and_back():
    env = make_batched(4, CartPoleContinuous.name, "torch", max_episode_length=3)
    with torch.inference_mode():
        env.reset(seed=0)
        for _ in range(5):
            env.step(torch.zeros(4, 1))
    env.episode_length_buf = torch.randint_like(env.episode_length_buf, high=3)
    weight = torch.zeros(4, 1, requires_grad=True)
    for _ in range(5):
        observations = env.step(weight)[0]
        assert not observations.requires_grad
    with torch.inference_mode():
        env.step(torch.zeros(4, 1))
    env.set_state(env.get_state())
    env.step(torch.zeros(4, 1))


@pytest.mark.parametrize("name", NAMES)
def test_make_vec(name):
    env = gymnasium.make_vec(name, num_envs=4, max_episode_length=50)
    assert env.num_envs == 4
    assert env.unwrapped.max_episode_length == 50
    assert env.spec.id == name
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    env.close()
    env = gymnasium.make_vec(
        f"rltrain_gymnasium.registration:{name}", num_envs=2, framework="torch"
    )
    assert torch.is_tensor(env.reset(seed=0)[0])


def test_wrong_use():
    with pytest.raises(ResetNeeded):
        make_batched(2, CartPole.name).step([0, 1])
    with says(ValueError):
        make_batched(2, CartPole.name, "tinygrad")
    with says(ValueError):
        make_batched(2, CartPole.name, "numpy", "cuda:0")
    env = make_batched(2, CartPole.name)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="reshape"):
        env.step([0, 1, 1])


# Cameras: what the images show


def see(state, task=None):
    """Return the policy's images of states as integers, (num_envs, height, width, 2)."""
    task = task or CartPoleContinuousCamera()
    coordinates = tuple(np.asarray(axis, np.float32) for axis in task.pixel_coordinates)
    return task.render(np, np.array(state, np.float32), coordinates)["policy"].astype(int)


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


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_render_the_same_images(framework):
    rng = np.random.default_rng(0)
    state = rng.normal(0, [1.0, 1.0, 0.1, 1.0], (64, 4)).astype(np.float32)
    drawn = []
    for each in ("numpy", framework):
        env = make_batched(64, CartPoleContinuousCamera.name, each)
        env.reset(seed=0)
        env.set_state({**env.get_state(), "state": state})
        action = array(each, np.zeros((64, 1), np.float32))
        drawn.append(np.asarray(env.step(action)[4]["final_obs"]["policy"]).astype(int))
    assert abs(drawn[0] - drawn[1]).max() <= 1  # The frameworks may round differently.


def play(name, steps=40):
    env = make_batched(16, name, "torch", max_episode_length=9)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    return env, [env.step(array("torch", random_actions(env, rng))) for _ in range(steps)]


def test_the_physics_equals_that_of_the_task_without_a_camera():
    _, seen = play(CartPoleContinuousCamera.name)
    _, felt = play("rltrain/CartPoleContinuous-v1")
    for left, right in zip(seen, felt, strict=True):
        assert torch.equal(left[0]["critic"], right[0])
        assert torch.equal(left[2], right[2])
        assert torch.equal(left[4]["final_obs"]["critic"], right[4]["final_obs"])


def test_the_camera_beside_measured_velocities():
    env, results = play(CartPoleContinuousCameraAndMotion.name)
    state = env.get_state()["state"]
    observations = results[-1][0]
    assert torch.equal(observations["policy"], state[:, 1::2])
    assert observations["camera"].shape == (16, HEIGHT, WIDTH, 1)
    assert observations["camera"].dtype == torch.uint8
