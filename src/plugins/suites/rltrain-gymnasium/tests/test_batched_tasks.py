"""The embedded tasks: physics, episodes, state, seeds, in numpy, torch and jax."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

pytest.importorskip("jax")  # An optional framework.

import jax
import jax.numpy as jnp

import rltrain_gymnasium.registration  # noqa: F401
from rltrain_gymnasium.batched import make_batched
from rltrain_gymnasium.tasks import EMBEDDED, CartPole, CartPoleContinuous, Pendulum

NAMES = sorted(name for name, task in EMBEDDED.items() if not task().image_shapes)
"""The tasks without images; for those with images see test_camera_tasks.py."""
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
    ("option", "message"),
    [
        ({"pole_mass": -1.0}, "pole_mass=-1.0: must be a positive"),
        ({"pole_mass": math.nan}, "pole_mass=nan"),
        ({"gravity": math.inf}, "gravity=inf: must be a finite"),
        ({"max_episode_length": 0}, "max_episode_length=0"),
        ({"max_episode_length": 2.5}, "whole number"),
    ],
)
def test_parameters_out_of_range(option, message):
    with pytest.raises(ValueError, match=message):
        CartPole(**option)


def test_parameters_of_the_wrong_type():
    with pytest.raises(TypeError, match="force='much': must be a number"):
        CartPole(force="much")
    assert CartPole(gravity=-1).gravity == -1


# The environment


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_shapes_dtypes_spaces(name, framework):
    env = make_batched(5, name, framework)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env.action_space.seed(0)
    observations, info = env.reset(seed=1)
    assert info == {}
    for _ in range(20):
        assert str(observations.dtype).endswith("float32")
        assert env.observation_space.contains(as_numpy(observations))
        results = env.step(env.action_space.sample())
        observations, rewards, terminations, truncations, info = results
        assert rewards.shape == terminations.shape == truncations.shape == (5,)
        assert str(rewards.dtype).endswith("float32")
        assert {str(flag.dtype) for flag in (terminations, truncations)} <= {"bool", "torch.bool"}
        assert info["final_obs"].shape == observations.shape
        assert type(info["_final_obs"]) is type(observations)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_agree(name, framework):
    """They compute the same from equal states and actions, also across resets."""
    ours, other = make_batched(64, name, "numpy"), make_batched(64, name, framework)
    ours.reset(seed=0), other.reset(seed=0)
    rng, finished = np.random.default_rng(1), 0
    for _ in range(60):
        # The state is copied over, because the frameworks draw different initial states.
        state = ours.get_state()
        other.set_state({**other.get_state(), **{key: state[key] for key in list(state)[:2]}})
        actions = random_actions(ours, rng)
        left, right = ours.step(actions), other.step(array(framework, actions))
        np.testing.assert_allclose(
            left[4]["final_obs"], as_numpy(right[4]["final_obs"]), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(left[1], as_numpy(right[1]), rtol=1e-5, atol=1e-5)
        same(left[2], right[2])
        same(left[3], right[3])
        finished += int((left[2] | left[3]).sum())
    assert finished or name == Pendulum.name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_same_step_autoreset(framework):
    env = make_batched(32, CartPole.name, framework)
    env.reset(seed=0)
    rng, finished = np.random.default_rng(0), 0
    for _ in range(80):
        lengths = as_numpy(env.episode_length_buf)
        observations, rewards, terminations, truncations, info = map(
            lambda x: x if isinstance(x, dict) else as_numpy(x),
            env.step(random_actions(env, rng)),
        )
        final, mask = as_numpy(info["final_obs"]), as_numpy(info["_final_obs"])
        same(mask, terminations | truncations)
        same(final[~mask], observations[~mask])
        outside = (abs(final[:, 0]) > 2.4) | (abs(final[:, 2]) > math.radians(12))
        same(outside, terminations)
        assert (abs(observations[mask]) <= 0.05).all()
        same(env.episode_length_buf, np.where(mask, 0, lengths + 1))
        assert (rewards == 1.0).all()
        finished += mask.sum()
    assert finished > 32


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_time_limit_is_truncation(framework):
    env = make_batched(3, Pendulum.name, framework, max_episode_length=4)
    assert env.max_episode_length == 4
    env.reset(seed=0)
    env.episode_length_buf = [0, 2, 3]
    truncated = [as_numpy(env.step(np.zeros((3, 1)))[3]).tolist() for _ in range(4)]
    assert truncated == [
        [False, False, True],
        [False, True, False],
        [False, False, False],
        [True, False, False],
    ]


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


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_state_is_restored_bit_for_bit(name, framework):
    env = make_batched(16, name, framework, max_episode_length=9)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = [random_actions(env, rng) for _ in range(40)]
    for action in actions[:15]:
        env.step(action)
    state = env.get_state()
    first = [env.step(action) for action in actions[15:]]  # Must not change the saved copy.
    other = make_batched(16, name, framework, max_episode_length=9)
    for restored in (env, other):
        restored.set_state(state)
        for expected, action in zip(first, actions[15:], strict=True):
            result = restored.step(action)
            for left, right in zip(result[:4], expected[:4], strict=True):
                same(left, right)
            same(result[4]["final_obs"], expected[4]["final_obs"])


def test_state_of_another_size_is_refused():
    env = make_batched(2, CartPole.name)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"\(2, 4\); it must be \(3, 4\)"):
        make_batched(3, CartPole.name).set_state(env.get_state())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_seeds(framework):
    def run(seed):
        env = make_batched(8, CartPole.name, framework)
        observations = [as_numpy(env.reset(seed=seed)[0])]
        for _ in range(40):
            observations.append(as_numpy(env.step([1] * 8)[0]))
        return np.stack(observations)

    same(run(7), run(7))
    assert not np.array_equal(run(7)[0], run(8)[0])
    assert not np.array_equal(run(None)[0], run(None)[0])
    env = make_batched(8, CartPole.name, framework)
    first, second = env.reset(seed=7)[0], env.reset()[0]
    assert not np.array_equal(as_numpy(first), as_numpy(second))


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


@pytest.mark.parametrize("name", NAMES)
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
    assert isinstance(observations, np.ndarray)
    env.close()
    env = gymnasium.make_vec(
        f"rltrain_gymnasium.registration:{name}", num_envs=2, framework="torch"
    )
    assert torch.is_tensor(env.reset(seed=0)[0])


def test_wrong_use():
    with pytest.raises(ResetNeeded):
        make_batched(2, CartPole.name).step([0, 1])
    with pytest.raises(ValueError, match="framework='tinygrad': must be one of numpy, torch, jax"):
        make_batched(2, CartPole.name, "tinygrad")
    with pytest.raises(ValueError, match="numpy arrays are always on the cpu"):
        make_batched(2, CartPole.name, "numpy", "cuda:0")
    env = make_batched(2, CartPole.name)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="reshape"):
        env.step([0, 1, 1])
