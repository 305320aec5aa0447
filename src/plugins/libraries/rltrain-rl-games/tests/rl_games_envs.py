"""The embedded cart-pole with other observations and actions, as a suite; and options for it."""

from __future__ import annotations

import copy

import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete
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


def cnn(permute, kind="conv2d"):
    conv = {"filters": 4, "kernel_size": 3, "strides": 1, "padding": 0}
    return {
        "+params.network.cnn": {
            "type": kind,
            "activation": "relu",
            "permute_input": permute,
            "initializer": {"name": "default"},
            "convs": [conv],
        }
    }


EPISODES = {"max_episode_length": 6}
BEFORE = {**GRU, "before_mlp": True, "concat_output": True, "layer_norm": True, "layers": 2}
RESNET = {
    "params.network.name": "resnet_actor_critic",
    "+params.network.cnn": {"conv_depths": [2], "permute_input": True},
}
SEPARATE = {**LSTM, "params.network.separate": True}
CRITIC_BATCH = {"params.config.central_value_config.minibatch_size_per_env": 2}
SIGHT = {"params.config.horizon_length": 4, "params.config.minibatch_size": 16}
CAMERA = "rltrain/CartPoleContinuousCamera-v1"
BESIDE = "rltrain/CartPoleContinuousCameraAndMotion-v1"
LINEAR = {
    "params.config.lr_schedule": "linear",
    "params.config.schedule_entropy": True,
    "params.config.entropy_coef": 0.01,
}
VARIANTS = {
    "discrete": {"task": "rltrain/CartPole-v1", "env": EPISODES},
    "linear schedules": {"agent": LINEAR},
    "multi-discrete": {"task": "made/TwoChoices"},
    "tanh": {"agent": {"params.model.name": "continuous_a2c_tanh"}},
    "sigma of the network": {"agent": {"params.network.space.continuous.fixed_sigma": False}},
    "clipped": {
        "agent": {
            "params.config.clip_actions": False,
            "+params.env.clip_actions": 0.1,
            "+params.env.clip_observations": 0.2,
        }
    },
    "d2rl, layer norm": {
        "agent": {
            "+params.network.mlp.d2rl": True,
            "+params.network.normalization": "layer_norm",
            "params.network.mlp.units": [8, 8],
        }
    },
    "gru": {"agent": RECURRENT, "env": EPISODES},
    "gru before the layers": {
        "agent": {**RECURRENT, "+params.network.rnn": BEFORE},
        "env": EPISODES,
    },
    "gru, concatenated input": {
        "agent": {**RECURRENT, "+params.network.rnn": {**GRU, "concat_input": True}},
        "env": EPISODES,
    },
    "lstm of actor and critic": {"agent": SEPARATE, "env": EPISODES},
    "critic of its own": {"task": "made/Groups", "agent": {**ASYMMETRIC, **CRITIC_BATCH}},
    "recurrent critic of its own": {
        "task": "made/Groups",
        "agent": {**BOTH_RECURRENT, **CRITIC_BATCH},
    },
    "images of bytes": {"task": "made/Images", "agent": cnn(True)},
    "images, coordinates": {"task": "made/Images", "agent": cnn(True, "coord_conv2d")},
    "images, soft argmax": {
        "task": "made/Images",
        "agent": cnn(True, "conv2d_spatial_softargmax"),
    },
    "resnet, lstm": {"task": "made/Images", "agent": {**RESNET, **LSTM}},
    "images, channels first": {"task": "made/FloatImages", "agent": cnn(False)},
    "images by default, state for the critic": {
        "task": CAMERA,
        "agent": {**SIGHT, **CRITIC_BATCH},
    },
    "images, discrete": {"task": "rltrain/CartPoleCamera-v1", "agent": SIGHT},
    "images beside vectors": {"task": BESIDE, "agent": SIGHT},
    "images beside vectors, lstm of both": {
        "task": BESIDE,
        "agent": {**SIGHT, **SEPARATE, "params.config.seq_length": 4},
    },
    "images beside vectors, critic of its own": {
        "task": BESIDE,
        "agent": {**SIGHT, **ASYMMETRIC, **CRITIC_BATCH},
    },
}
"""By name, settings of the library kit: every kind of network that policies may have here."""


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
