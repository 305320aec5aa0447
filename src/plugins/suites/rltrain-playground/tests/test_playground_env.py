"""The suite's environments: episodes, groups, states, and that programs are compiled once."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv, check_env
from rltrain.types import World
from rltrain_playground.plugin import describe
from rltrain_playground.suite import PlaygroundSuite

pytestmark = pytest.mark.slow

POINT = "playground_point:Point"


def make(task=POINT, num_envs=8, framework="jax", **env):
    describe(task, {})  # Imports the task's module, as every run does first.
    config = types.SimpleNamespace(task=task, num_envs=num_envs, env=env)
    session = types.SimpleNamespace(
        config=config, world=World(), framework=framework, renders=False
    )
    made = PlaygroundSuite().rltrain_make_env(session)
    check_env(made, num_envs, "playground")
    return made


def draw(env, count, seed=0):
    keys = jax.random.split(jax.random.PRNGKey(seed), count)
    shape = env.action_space.shape
    return [jax.random.uniform(key, shape, minval=-1.0, maxval=1.0) for key in keys]


def same(left, right):
    return jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y), left, right))


def test_spaces_and_arrays():
    env = make()
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert {name: space.shape for name, space in env.single_observation_space.items()} == {
        "policy": (1,),
        "critic": (2,),
        "height": (1,),
    }
    assert (env.max_episode_length, env.step_dt) == (9, 0.1)
    observations, info = env.reset(seed=0)
    assert info == {}
    assert {name: part.shape for name, part in observations.items()} == {
        "policy": (8, 1),
        "critic": (8, 2),
        "height": (8, 1),
    }
    device = jax.local_devices()[0]
    assert all(part.device == device for part in jax.tree.leaves(env.step(np.zeros((8, 1)))))


@pytest.mark.slow
def test_terminations_differ_from_truncations_and_episodes_restart_at_once():
    env, ended = make(num_envs=32), np.zeros(2, int)
    env.reset(seed=0)
    for actions in draw(env, 60):
        lengths = np.array(env.episode_length_buf)
        observations, rewards, terminations, truncations, info = env.step(actions)
        final = np.array(info["final_obs"]["policy"][:, 0])
        done = np.array(info["_final_obs"])
        assert (terminations == (abs(final) > 0.8)).all()
        assert (truncations == ((lengths == 8) & ~terminations)).all()
        assert (done == (terminations | truncations)).all()
        assert (abs(observations["policy"][done]) <= 0.5).all()
        assert (np.array(observations["policy"][:, 0])[~done] == final[~done]).all()
        assert (env.episode_length_buf == np.where(done, 0, lengths + 1)).all()
        np.testing.assert_allclose(rewards, 1 - abs(final), rtol=1e-6)
        np.testing.assert_allclose(info["log"]["reward/x"], final.mean(), atol=1e-6)
        ended += int(terminations.sum()), int(truncations.sum())
    assert (ended > 20).all()


def test_new_episodes_are_drawn_at_random():
    env = make(episode_length=1)
    env.reset(seed=0)
    first = [np.array(env.step(np.zeros((8, 1)))[0]["policy"][:, 0]) for _ in range(20)]
    assert len(np.unique(np.concatenate(first))) > 150


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


def test_a_state_is_restored_bit_for_bit():
    env = make(num_envs=6)
    actions = draw(env, 60)
    env.reset(seed=0)
    for action in actions[:20]:
        env.step(action)
    state = env.get_state()
    expected = [env.step(action) for action in actions[20:]]
    other = make(num_envs=6)
    for restored in (env, other):
        restored.set_state(state)
        assert same([restored.step(action) for action in actions[20:]], expected)
    with pytest.raises(ValueError, match="or not to 7 environments"):
        make(num_envs=7).set_state(state)


def test_a_run_continues_from_its_state():
    actions = draw(make(), 40)
    env, other = CountedEnv(make(), seed=1), CountedEnv(make(), seed=2)
    env.reset()
    for action in actions[:20]:
        env.step(action)
    other.load_state(env.save_state())
    assert same(other.reset()[0], env.save_state()["observations"])
    for action in actions[20:]:
        assert same(env.step(action), other.step(action))
    assert env.episodes.take() == other.episodes.take()


def test_actions_are_clipped_and_may_be_of_any_kind():
    results = []
    for actions in (np.full((8, 1), 3.0), jnp.ones((8, 1)), [[1]] * 8):
        env = make()
        env.reset(seed=0)
        results.append(env.step(actions)[0])
    assert same(results[0], results[1])
    assert same(results[0], results[2])


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
