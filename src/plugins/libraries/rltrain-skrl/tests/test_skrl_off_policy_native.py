"""Faults of skrl's own agents with a replay buffer, and what the adapter relies on in them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from gymnasium import spaces
from skrl_fakes import PLACE, Corridor

from rltrain.metrics.environment import CountedEnv
from rltrain.testing import FakeWorld
from rltrain.types import TaskInfo
from rltrain_skrl.declare.options import default_agent
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.torch.algorithms import (
    SessionDDPG,
    SessionDDQN,
    SessionDQN,
    SessionSAC,
    SessionTD3,
)
from rltrain_skrl.run.torch.env import SkrlEnv

bootstrap.import_skrl()

from skrl.agents.torch.base import Agent  # noqa: E402
from skrl.agents.torch.ddpg import DDPG  # noqa: E402
from skrl.agents.torch.ddqn import DDQN  # noqa: E402
from skrl.agents.torch.dqn import DQN  # noqa: E402
from skrl.agents.torch.sac import SAC  # noqa: E402
from skrl.agents.torch.td3 import TD3  # noqa: E402
from skrl.utils.runner.torch import Runner  # noqa: E402
from skrl.utils.spaces.torch import sample_space  # noqa: E402

AGENTS = {SAC: SessionSAC, TD3: SessionTD3, DDPG: SessionDDPG, DQN: SessionDQN, DDQN: SessionDDQN}


def native_sac():
    """Train two ranks with skrl's own runner and SAC; return their agents."""

    def on_rank(group):
        options = default_agent(TaskInfo("none", "continuous", num_envs=64), "sac")
        options["seed"] = 1
        options["agent"] |= {"random_timesteps": 0, "learning_starts": 2, "batch_size": 8}
        options["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
        del options["memory"]["save_replay_buffer"]
        options["trainer"] |= {"timesteps": 10, "headless": True, "disable_progressbar": True}
        options["trainer"]["close_environment_at_exit"] = False
        with bootstrap.configured(group.world):
            env = SkrlEnv(CountedEnv(Corridor(8), seed=group.rank), "cpu", "episode")
            runner = Runner(env, options)
            torch.manual_seed(group.rank)
            runner.run("train")
        return runner.agent

    return FakeWorld(2, torch=True, rank_local=PLACE).run(on_rank)


def test_native_sac_learns_a_separate_entropy_coefficient_on_each_rank():
    one, other = native_sac()
    assert torch.equal(*(next(agent.policy.parameters()) for agent in (one, other)))
    assert not torch.equal(one.log_entropy_coefficient, other.log_entropy_coefficient)
    means = [agent.checkpoint_modules["observation_preprocessor"] for agent in (one, other)]
    assert not torch.equal(*(mean.running_mean for mean in means))
    assert not any("coefficient" in name for name in one.checkpoint_modules), "lost on resume"


@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(1000)], ids=str)
def test_native_random_actions_are_the_same_in_every_step(space):
    space.seed(0)
    first, second = (
        sample_space(space, batch_size=4, backend="native", device="cpu") for _ in range(2)
    )
    assert torch.equal(first, second)


def test_native_random_actions_ignore_the_seed():
    sampled = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)
        space = spaces.Box(-1.0, 1.0, (1,))
        sampled.append(sample_space(space, batch_size=4, backend="native", device="cpu"))
    assert not torch.equal(*sampled)


@pytest.mark.parametrize(
    ("native", "order"),
    [
        (SAC, ["critic_1", "critic_2", "policy"]),
        (TD3, ["critic_1", "critic_2", "policy"]),
        (DDPG, ["critic", "policy"]),
        (DQN, ["q_network"]),
        (DDQN, ["q_network"]),
    ],
)
def test_gradients_are_reduced_model_by_model_before_clipping(native, order):
    update = inspect.getsource(native.update)
    places = [update.index(f"self.{name}.reduce_parameters()") for name in order]
    assert places == sorted(places)
    assert update.count("reduce_parameters()") == len(order)
    steps = [update.index(f"step(self.{name})") for name in _optimizers(update)]
    assert all(any(place < step for place in places) for step in steps)


def _optimizers(update):
    names = ("critic_optimizer", "policy_optimizer", "optimizer")
    return [name for name in names if f"step(self.{name})" in update]


def test_the_entropy_coefficient_is_stepped_right_after_its_gradient():
    lines = [line.strip() for line in inspect.getsource(SAC.update).splitlines()]
    start = lines.index("self.entropy_optimizer.zero_grad()")
    assert lines[start + 1 : start + 3] == [
        "self.scaler.scale(entropy_loss).backward()",
        "self.scaler.step(self.entropy_optimizer)",
    ]
    assert "self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())" in lines
    assert "if self.write_interval > 0:" in lines, "it tracks its metrics then only"
    init = inspect.getsource(SAC.__init__)
    assert init.count("[self.log_entropy_coefficient]") == 1, "its optimizer's only parameter"


@pytest.mark.parametrize("native", [TD3, DQN, DDQN])
def test_gradient_steps_are_counted_in_update_counter(native):
    assert "self._update_counter = 0" in inspect.getsource(native.init)
    assert "self._update_counter += 1" in inspect.getsource(native.update)


@pytest.mark.parametrize("native", AGENTS)
def test_what_an_agent_calls(native):
    actor = "q_network" if native in (DQN, DDQN) else "policy"
    assert f"self.{actor}.random_act(" in inspect.getsource(native.act)
    assert "self.update(" in inspect.getsource(native.post_interaction)
    assert "timestep >= self.cfg.learning_starts" in inspect.getsource(native.post_interaction)
    assert "self.memory.sample(names=" in inspect.getsource(native.update)
    assert "self.write_interval > 0" in inspect.getsource(Agent.init), "else it makes no writer"
