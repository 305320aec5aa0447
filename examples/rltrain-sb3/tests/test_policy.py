"""Loaded policies act as SB3's rollouts and as its own `predict`, bit for bit."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from stable_baselines3 import PPO

from rltrain.errors import UsageError
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, World
from rltrain_sb3.adapter import Sb3Library
from rltrain_sb3.env import SessionVecEnv
from rltrain_sb3.options import keywords

SIZE = 3
VECTOR = spaces.Box(-np.inf, np.inf, (4,))
NET = {"net_arch": [8]}
SDE = {"use_sde": True, "sde_sample_freq": 2}


class Blank(VectorEnv):
    """Has spaces, and is never stepped."""

    def __init__(self, observation, action, num_envs=SIZE):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = observation, action

    def reset(self, *, seed=None, options=None):
        raise AssertionError("it must not be reset")


CASES = {
    "continuous": (VECTOR, spaces.Box(-0.3, 0.5, (2,)), {}),
    "float64": (VECTOR, spaces.Box(-0.3, 0.5, (1, 2), np.float64), {"policy_kwargs": NET}),
    "groups": (spaces.Dict(policy=VECTOR, critic=VECTOR), spaces.Box(-1, 1, (1,)), {}),
    "discrete": (VECTOR, spaces.Discrete(3), {}),
    "multi-discrete": (spaces.Discrete(5), spaces.MultiDiscrete([3, 2]), {}),
    "state-dependent noise": (VECTOR, spaces.Box(-1, 2, (2,)), SDE),
    "squashed": (VECTOR, spaces.Box(-1, 2, (2,)), SDE | {"policy_kwargs": {"squash_output": True}}),
}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Make SB3's own agent, with parameters that are not as they were made, and save it."""

    @functools.cache
    def of(name):
        observation, action, more = CASES[name]
        agent = {"policy": "MlpPolicy", "n_steps": 4, "batch_size": 12, **more}
        env = Blank(observation, action)
        torch.manual_seed(0)
        sb3 = PPO(env=SessionVecEnv(env, "cpu"), device="cpu", **keywords(agent, "ppo"))
        with torch.no_grad():
            for parameter in sb3.policy.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        path = tmp_path_factory.mktemp("made") / "ppo.zip"
        sb3.save(path)
        return SimpleNamespace(sb3=sb3, agent=agent, env=env, path=path, space=observation)

    return of


@pytest.fixture(params=CASES)
def made(request, make):
    return make(request.param)


def load(path, agent, env):
    config = make_config(library="sb3", agent=agent)
    session = SimpleNamespace(config=config, env=env, world=World(), checkpoint=path)
    return Sb3Library().rltrain_load_policy(session)


def observed(made, step):
    """Return an observation as the suite gives it, and as SB3 sees it."""
    if isinstance(made.space, spaces.Discrete):
        seen = (torch.arange(SIZE) + step) % 5
    else:
        seen = torch.randn(SIZE, 4, generator=torch.Generator().manual_seed(step))
    grouped = {"policy": seen, "critic": seen - 1}
    return (grouped if isinstance(made.space, spaces.Dict) else seen), seen.numpy()


class Rollout(VectorEnv):
    """Gives the observations of `observed`, and keeps the actions."""

    def __init__(self, made):
        self.made, self.num_envs, self.taken = made, SIZE, []
        self.single_observation_space = made.env.single_observation_space
        self.single_action_space = made.env.single_action_space

    def reset(self, *, seed=None, options=None):
        return observed(self.made, 0)[0], {}

    def step(self, actions):
        self.taken.append(actions)
        done = torch.zeros(SIZE, dtype=torch.bool)
        return observed(self.made, len(self.taken))[0], torch.zeros(SIZE), done, done, {}


def test_it_draws_as_rollouts_draw(made):
    env, policy = Rollout(made), load(made.path, made.agent, made.env)
    agent = PPO.load(made.path, env=SessionVecEnv(env, "cpu"), device="cpu")
    agent.train = lambda: None
    torch.manual_seed(1)
    agent.learn(2 * 4 * SIZE)
    torch.manual_seed(1)
    for step, wanted in enumerate(env.taken):
        actions = policy.act(observed(made, step)[0], deterministic=False)
        assert torch.equal(actions, wanted)
        assert actions.dtype == wanted.dtype
    assert len(env.taken) == 8


def test_it_acts_as_predict_and_as_what_is_exported(made):
    policy = load(made.path, made.agent, made.env)
    exported = policy.module()
    for step in range(5):
        given, seen = observed(made, step)
        actions = policy.act(given)
        wanted, _ = made.sb3.predict(seen, deterministic=True)
        assert np.array_equal(actions.numpy(), wanted)
        with torch.no_grad():
            (output,) = exported.function(torch.from_numpy(seen))
        torch.testing.assert_close(output, actions, rtol=0, atol=1e-6)
        assert exported.output == ArrayInfo(tuple(output.shape[1:]), str(output.dtype)[6:])
    policy.reset(torch.ones(SIZE, dtype=torch.bool))


@pytest.mark.parametrize("name", ["continuous", "discrete", "squashed"])
def test_it_can_be_exported_with_any_batch(make, name):
    made = make(name)
    exported = load(made.path, made.agent, made.env).module()
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        exported.function, (torch.ones(3, 4),), dynamic_shapes=({0: batch},)
    )
    more = torch.randn(7, 4)
    torch.testing.assert_close(program.module()(more), exported.function(more))


def test_what_does_not_fit_is_named(make):
    made = make("continuous")
    agent = made.agent | {"policy_kwargs": {"net_arch": [9]}}
    with pytest.raises(UsageError, match=f"--checkpoint {made.path}: does not fit .*mlp_extractor"):
        load(made.path, agent, made.env)
    with pytest.raises(UsageError, match=r"agent\.policy=CnnPolicy: only MlpPolicy"):
        load(made.path, made.agent | {"policy": "CnnPolicy"}, made.env)
    with pytest.raises(UsageError, match="does not fit this run"):
        load(made.path, made.agent, Blank(VECTOR, spaces.Discrete(3)))
