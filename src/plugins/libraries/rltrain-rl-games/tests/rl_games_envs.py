"""The embedded cart-pole with other observations and actions, as a suite; and options for it."""

from __future__ import annotations

import copy

import gymnasium
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from rltrain import hookimpl
from rltrain.specs import SuiteSpec
from rltrain.types import TaskInfo
from rltrain_gymnasium.batched import make_batched
from rltrain_torch.policy import groups_of

MLP = {"units": [16], "activation": "elu", "initializer": {"name": "default"}}
CRITIC = {
    "minibatch_size_per_env": 16,
    "mini_epochs": 2,
    "learning_rate": 1e-3,
    "lr_schedule": "linear",
    "clip_value": True,
    "normalize_input": True,
    "truncate_grads": True,
    "network": {"name": "actor_critic", "central_value": True, "mlp": MLP},
}
ASYMMETRIC = {"+params.config.central_value_config": CRITIC}
GRU = {"name": "gru", "units": 16, "layers": 1}
RECURRENT = {"+params.network.rnn": GRU, "params.config.seq_length": 8}
LSTM = {**RECURRENT, "+params.network.rnn": {"name": "lstm", "units": 16, "layers": 1}}
RECURRENT_CRITIC = copy.deepcopy(CRITIC)
RECURRENT_CRITIC["network"]["rnn"] = GRU
BOTH_RECURRENT = {**RECURRENT, "+params.config.central_value_config": RECURRENT_CRITIC}


def cnn(permute):
    conv = {"filters": 4, "kernel_size": 3, "strides": 1, "padding": 0}
    return {
        "+params.network.cnn": {
            "type": "conv2d",
            "activation": "relu",
            "permute_input": permute,
            "initializer": {"name": "default"},
            "convs": [conv],
        }
    }


MULTI_DISCRETE = "RlGamesMultiDiscrete-v0"
"""A task whose actions are multi-discrete; its environments are those of `TwoChoices`."""


class Changed(VectorWrapper):
    """The cart-pole with other observations."""

    observations = None

    def __init__(self, num_envs):
        task = "rltrain/CartPoleContinuous-v1"
        super().__init__(make_batched(num_envs, task, "torch", max_episode_length=20))
        if self.observations is not None:
            self.single_observation_space = self.observations
            self.observation_space = batch_space(self.observations, num_envs)

    def observe(self, state):
        return state

    def reset(self, **arguments):
        state, info = self.env.reset(**arguments)
        return self.observe(state), info

    def step(self, actions):
        state, *rest, info = self.env.step(actions)
        info = {**info, "final_obs": self.observe(info["final_obs"])}
        return (self.observe(state), *rest, info)


class Groups(Changed):
    """The actor sees positions, the critic velocities too."""

    observations = Dict({"policy": Box(-9.0, 9.0, (2,)), "critic": Box(-9.0, 9.0, (4,))})

    def observe(self, state):
        return {"policy": state[:, ::2].clone(), "critic": state}


class WithoutPolicy(Changed):
    """The only group of observations is not named `policy`."""

    observations = Dict({"state": Box(-9.0, 9.0, (4,))})

    def observe(self, state):
        return {"state": state}


class Nested(Changed):
    """A group of observations is a Dict."""

    observations = Dict({"policy": Dict({"state": Box(-9.0, 9.0, (4,))})})

    def observe(self, state):
        return {"policy": {"state": state}}


class Parts(Changed):
    """A group of observations is a Tuple."""

    observations = Dict({"policy": Tuple([Box(-9.0, 9.0, (4,))])})

    def observe(self, state):
        return {"policy": (state,)}


class Number(Changed):
    """Observations are one of two numbers."""

    observations = Discrete(2)

    def observe(self, state):
        return (state[:, 2] > 0).long()


class Images(Changed):
    """Bytes."""

    observations = Box(0, 255, (6, 6, 2), dtype="uint8")

    def observe(self, state):
        pairs = state.view(-1, 1, 1, 2, 2)
        x, y = (
            torch.linspace(-1, 1, 6).view(1, -1, 1, 1),
            torch.linspace(-1, 1, 6).view(1, 1, -1, 1),
        )
        spots = (-((pairs[..., 0] - x) ** 2) - (pairs[..., 1] - y) ** 2).exp()
        return (spots * 255).to(torch.uint8)


class FloatImages(Images):
    """Numbers from 0 to 1."""

    observations = Box(0.0, 1.0, (6, 6, 2))

    def observe(self, state):
        return super().observe(state).float() / 255


class TwoChoices(Changed):
    """A direction and one of three strengths instead of a force."""

    def __init__(self, num_envs):
        super().__init__(num_envs)
        self.single_action_space = MultiDiscrete([2, 3])
        self.action_space = batch_space(self.single_action_space, num_envs)

    def step(self, actions):
        direction, strength = actions[:, 0] * 2.0 - 1.0, (actions[:, 1] + 1.0) / 3.0
        return super().step((direction * strength)[:, None])


ENVS = {f"made/{env.__name__}": env for env in (Groups, Images, FloatImages, TwoChoices)}


class Suite:
    @hookimpl
    def rltrain_make_env(self, session):
        return ENVS[session.config.task](session.config.num_envs)


def describe(task, env):
    if task not in ENVS:
        return None
    space = ENVS[task](1).single_observation_space
    action = "multi_discrete" if task == "made/TwoChoices" else "continuous"
    return TaskInfo(task, action, observations=groups_of(space))


@hookimpl
def rltrain_provides():
    names = {"factory": "rl_games_envs:Suite", "frameworks": ("torch",)}
    return [SuiteSpec(name="made", describe=describe, tasks=lambda: [*ENVS], **names)]


def making(env):
    """Return the factory of an observer that makes these environments instead of the suite."""

    class Maker:
        @hookimpl(tryfirst=True)
        def rltrain_make_env(self, session):
            return env(session.config.num_envs)

    return Maker


class _Described(gymnasium.Env):
    """Describes the task with the spaces of `TwoChoices`."""

    observation_space = Box(-9.0, 9.0, (4,))
    action_space = MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


gymnasium.register(MULTI_DISCRETE, _Described, max_episode_steps=20)
