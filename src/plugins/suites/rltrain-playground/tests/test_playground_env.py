"""The suite's environments: groups, programs that are compiled once, models' devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from helpers import python

from rltrain.errors import UsageError
from rltrain_devkit import SuiteConformance
from rltrain_playground.plugin import describe

pytestmark = pytest.mark.slow

POINT = "playground_point:Point"


def make(task=POINT, num_envs=8, **env):
    describe(task, {})  # Imports the task's module, as every run does first.
    kit = SuiteConformance()
    kit.suite, kit.task, kit.num_envs, kit.framework = "playground", task, num_envs, "jax"
    return kit.make(env)


def draw(env, count, seed=0):
    keys = jax.random.split(jax.random.PRNGKey(seed), count)
    shape = env.action_space.shape
    return [jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) for key in keys]


def same(left, right):
    return jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y), left, right))


def test_groups_have_the_names_that_libraries_know():
    env = make()
    assert {name: space.shape for name, space in env.single_observation_space.items()} == {
        "policy": (1,),
        "critic": (2,),
        "height": (1,),
    }
    assert (env.max_episode_length, env.step_dt) == (9, 0.1)
    with pytest.raises(ValueError, match="or not to 7 environments"):
        env.reset(seed=0), make(num_envs=7).set_state(env.get_state())


def test_a_step_is_one_program(caplog):
    env = make(num_envs=5)
    actions = draw(env, 20)
    env.reset(seed=0), env.step(actions[0])
    with jax.log_compiles():
        with jax.transfer_guard("disallow"):
            for action in actions:
                env.step(action)
        make(num_envs=5).reset(seed=1)
        env.set_state(env.get_state())
        env.episode_length_buf = [8] * 5
        env.step(actions[0])
        env.reset(), env.step(actions[1])
    assert not [r.message for r in caplog.records if "XLA compilation" in r.message]


def test_an_action_is_repeated():
    env, repeated = make(episode_length=8), make(episode_length=8, action_repeat=2)
    assert (repeated.max_episode_length, repeated.step_dt) == (4, 0.2)
    env.reset(seed=0), repeated.reset(seed=0)
    still = np.full((8, 1), 0.1)
    first, second = env.step(still), env.step(still)
    both = repeated.step(still)
    assert same(both[0], second[0])
    np.testing.assert_allclose(both[1], first[1] + second[1], rtol=1e-6)


def test_a_diverged_simulation_terminates_with_finite_numbers():
    env = make(speed=float("nan"))
    env.reset(seed=0)
    observations, rewards, terminations, _, info = env.step(np.zeros((8, 1)))
    assert terminations.all()
    assert not rewards.any()
    assert not info["final_obs"]["critic"].any()
    assert jax.tree.all(jax.tree.map(lambda x: jnp.isfinite(x).all(), observations))


def test_wrong_use():
    with pytest.raises(UsageError, match=r"env\.sped: .* no such option.*speed"):
        make(sped=1)
    with pytest.raises(UsageError, match=r"env\.limits\.and: .* no such option.*limits\.end"):
        make(limits={"and": 1})
    with pytest.raises(UsageError, match=r"env\.speed='fast' \(task playground_point:Point\)"):
        make(speed="fast")
    with pytest.raises(UsageError, match=r"env\.episode_length=0: must be 1 or more"):
        make(episode_length=0)
    with pytest.raises(ResetNeeded):
        make().step(np.zeros((8, 1)))
    assert make(limits={"end": 0.5}).max_episode_length == 9


CODE = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from rltrain_playground.config import with_options
from rltrain_playground.model import load
from rltrain_playground.programs import Programs

first, other = jax.devices()
key = jax.device_put(jax.random.PRNGKey(0), other)
for task in "CartpoleBalance", "WalkerWalk":
    config = with_options(task, {}, "cpu")
    there = {d for x in jax.tree.leaves(load(task, config, first).mjx_model) for d in x.devices()}
    env = load(task, config, other)
    here = {d for x in jax.tree.leaves(env.mjx_model) for d in x.devices()}
    program = jax.jit(Programs(env, 2, 9, 1).begin).lower(key)
    print(task, there == {first}, here == {other}, env.unwrapped is env)
"""


@pytest.mark.slow  # Compiles two models.
def test_a_model_is_placed_on_the_requested_device():
    assert python(CODE, timeout=280).stdout.splitlines()[-2:] == [
        "CartpoleBalance True True True",
        "WalkerWalk True True True",
    ]
