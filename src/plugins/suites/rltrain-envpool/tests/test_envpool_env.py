"""The suite's environments: episodes, groups, actions, threads, and ranks that train in them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import MultiDiscrete
from helpers import rltrain_command

from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv, check_env
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import World
from rltrain_jax.arrays import JaxArrays
from rltrain_torch.arrays import TorchArrays

envpool = pytest.importorskip("envpool")

from rltrain_envpool import suite  # noqa: E402
from rltrain_envpool.suite import EnvPoolSuite  # noqa: E402

CARTPOLE = "envpool/CartPole-v1"
CHEETAH = "envpool/HalfCheetah-v4"


def make(task=CARTPOLE, num_envs=4, framework="torch", world=None, **env):
    config = make_config(task=task, num_envs=num_envs, env=env, framework=framework)
    arrays = {"torch": TorchArrays(), "jax": JaxArrays()}
    session = RankSession(config, world or World(), RunPlugins(), arrays=arrays)
    made = EnvPoolSuite().rltrain_make_env(session)
    check_env(made, num_envs, "envpool")
    return made


def seeds_of(num_envs, seed):
    """The seeds of the environments, as integers of 31 bits."""
    return (np.random.SeedSequence(seed).generate_state(num_envs) % 2**31).tolist()


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_steps_match_envpool_and_episodes_restart_at_once():
    """EnvPool alone needs an extra step after every end, so the test resets its pool by hand."""
    env = make(num_envs=8)
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=8, seed=seeds_of(8, 3))
    observations, _ = env.reset(seed=3)
    expected, _ = pool.reset()
    rng, ended = np.random.default_rng(0), 0
    for _ in range(60):
        np.testing.assert_array_equal(observations, expected)
        actions = rng.integers(0, 2, 8)
        observations, rewards, terminations, truncations, info = env.step(torch.as_tensor(actions))
        expected, expected_rewards, terminated, _, _ = pool.step(actions)
        np.testing.assert_array_equal(info["final_obs"], expected)
        np.testing.assert_array_equal(rewards, expected_rewards)
        assert info["_final_obs"].tolist() == terminations.tolist() == terminated.tolist()
        assert not truncations.any()
        finished = np.flatnonzero(terminated)
        if len(finished):
            ended += len(finished)
            expected = expected.copy()
            expected[finished], reset_info = pool.reset(finished)
            assert reset_info["elapsed_step"].tolist() == [0] * len(finished)
    assert ended > 10


@pytest.mark.filterwarnings("error:.*precision lowered")
def test_an_episode_that_terminates_in_its_last_step_is_terminated():
    env = make(num_envs=1)
    env.reset(seed=0)
    steps = 1
    while not env.step(torch.ones(1))[2].any():
        steps += 1
    cut = make(num_envs=1, max_episode_steps=steps)
    cut.reset(seed=0)
    for _ in range(steps):
        _, _, terminations, truncations, _ = cut.step(torch.ones(1))
    assert (terminations.tolist(), truncations.tolist()) == ([True], [False])
    shorter = make(num_envs=1, max_episode_steps=steps - 1)
    shorter.reset(seed=0)
    for _ in range(steps - 1):
        _, _, terminations, truncations, _ = shorter.step(torch.ones(1))
    assert (terminations.tolist(), truncations.tolist()) == ([False], [True])


def test_setting_lengths_back_does_not_turn_a_time_limit_into_a_termination():
    """EnvPool keeps counting; where its own limit ends an episode, it is truncated."""
    env = make("envpool/Pendulum-v1", max_episode_steps=5)
    env.reset(seed=0)
    for _ in range(3):
        env.step(torch.zeros(4, 1))
    env.episode_length_buf = torch.zeros(4)
    ends = [env.step(torch.zeros(4, 1))[2:4] for _ in range(3)]
    assert not any(terminations.any() for terminations, _ in ends)
    assert [truncations.all().item() for _, truncations in ends] == [False, False, True]
    assert env.episode_length_buf.tolist() == [0] * 4


def test_numbers_do_not_depend_on_the_threads():
    one, other = make(), make(num_threads=2)
    assert torch.equal(one.reset(seed=1)[0], other.reset(seed=1)[0])
    for _ in range(20):
        assert torch.equal(one.step(torch.ones(4))[0], other.step(torch.ones(4))[0])
    assert not torch.equal(make().reset()[0], make().reset()[0])


def test_the_terms_of_a_reward_are_told():
    env = make(CHEETAH, max_episode_steps=2)
    env.reset(seed=0)
    _, rewards, *_, info = env.step(torch.zeros(4, 6))
    assert rewards.mean() == pytest.approx(sum(info["log"].values()), rel=1e-5)
    robot = make("envpool/Go1JoystickFlatTerrain-v1", num_envs=1)
    assert (robot.step_dt, robot.max_episode_length) == (0.02, 1000)


def test_threads_end_with_the_environment():
    before = len(os.listdir("/proc/self/task"))
    env = make(num_threads=3)
    env.reset(seed=0), env.reset(seed=1)
    assert len(os.listdir("/proc/self/task")) > before
    env.close()
    assert len(os.listdir("/proc/self/task")) == before
    with pytest.raises(ResetNeeded):
        env.step(torch.zeros(4))


def test_the_cores_are_divided_over_the_ranks_of_the_node(monkeypatch):
    monkeypatch.setattr(suite, "cores_of_rank", lambda world: 8 // world.local_world_size)
    world = World(local_world_size=4, world_size=4)
    assert make(world=world).num_threads == 2
    assert make(world=world, num_threads=5).num_threads == 5


def test_parts_of_a_group_are_concatenated():
    env = make("envpool/CartpoleBalance-v1", num_envs=2)
    pool = envpool.make_gymnasium("CartpoleBalance-v1", num_envs=2, seed=seeds_of(2, 0))
    parts, _ = pool.reset()
    expected = np.concatenate([parts["position"], parts["velocity"]], axis=1, dtype=np.float32)
    np.testing.assert_array_equal(env.reset(seed=0)[0], expected)


def test_discrete_observations_become_one_hot_vectors():
    env = make("envpool/FrozenLake-v1", num_envs=3)
    observations, _ = env.reset(seed=0)
    assert observations.tolist() == [[1.0] + [0.0] * 15] * 3
    observations = env.step(torch.ones(3))[0]
    assert observations.sum(1).tolist() == [1.0] * 3


def test_multi_discrete_actions():
    env = make("envpool/RubiksCube-partly-scrambled-v0", num_envs=2)
    assert env.single_action_space == MultiDiscrete([6, 1, 3])
    env.reset(seed=0)
    env.step(torch.tensor([[5, 0, 2], [0, 0, 0]]))


def test_successes_are_counted():
    env = CountedEnv(make("envpool/Parking-v0", max_episode_steps=2), seed=0)
    env.reset()
    for _ in range(2):
        info = env.step(torch.zeros(4, 2))[-1]
    assert info["success"].tolist() == [False] * 4
    assert env.episodes.take()[2:] == (4.0, 0.0, 4.0)


def test_wrong_use():
    with pytest.raises(UsageError, match=r"cannot be made on this machine: ParseXML.*nowhere\.xml"):
        make(CHEETAH, xml_file="nowhere.xml").reset()
    with pytest.raises(ResetNeeded):
        make().episode_length_buf  # noqa: B018


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_every_call_of_envpool_returns_arrays_of_its_own():
    """The suite passes them on without a copy."""
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=1)
    kept = [pool.reset()[0]]
    for _ in range(30):
        observations, rewards, terminations, *_ = pool.step(np.ones(3, int))
        kept += [observations, rewards]
        if terminations.any():
            kept.append(pool.reset(np.flatnonzero(terminations).astype(np.int32))[0])
    copies = [array.copy() for array in kept]
    for _ in range(30):
        pool.step(np.ones(3, int))
    for array, copied in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copied)
    assert kept[0].flags.writeable


@pytest.mark.slow
@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_two_ranks_train_a_robot(library, tmp_path):
    run = rltrain_command(
        *f"--library {library} --task envpool/Go1JoystickFlatTerrain-v1 --num-envs 2".split(),
        *["--distributed", "--nproc-per-node", "2", "--max-iterations", "2", "--log-root"],
        str(tmp_path),
        timeout=280,
        check=True,
    )
    assert "terminate called" not in run.stderr
    assert next(tmp_path.rglob("checkpoints"), None) is not None
