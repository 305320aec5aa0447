"""Every kind of network that rl_games' policies may have here, and policies of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rl_games_envs import (
    ASYMMETRIC,
    BOTH_RECURRENT,
    LSTM,
    MULTI_DISCRETE,
    RECURRENT,
    FloatImages,
    Groups,
    Images,
    TwoChoices,
    cnn,
)

from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import TaskInfo, World
from rltrain_gymnasium.batched import make_batched
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.policy.actor import build_actor
from rltrain_rl_games.run.env import adapted_env
from rltrain_rl_games.run.library import RlGamesLibrary
from rltrain_rl_games.run.networks import register_network
from rltrain_torch.policy import groups_of

CONTINUOUS, DISCRETE = "rltrain/CartPoleContinuous-v1", "rltrain/CartPole-v1"
CAMERA, PENDULUM = "rltrain/CartPoleContinuousCameraAndMotion-v1", "rltrain/Pendulum-v1"
STEPS = 24
"""In a rollout: more than in an episode, which has at most 20."""
(_SPEC,) = rltrain_provides()


@dataclass(frozen=True)
class Case:
    """A network's options, and the environments that it is for."""

    agent: dict[str, Any] = field(default_factory=dict)
    task: str = CONTINUOUS
    env: Callable[[int], Any] | None = None
    algorithm: str = "ppo"
    action: str = "continuous"

    def make_env(self, num_envs):
        if self.env is not None:
            return self.env(num_envs)
        return make_batched(num_envs, self.task, "torch", max_episode_length=20)


def rnn(base, **options):
    return {**base, "+params.network.rnn": {**base["+params.network.rnn"], **options}}


def images(kind):
    changed = copy.deepcopy(cnn(True))
    changed["+params.network.cnn"]["type"] = kind
    return changed


RESNET = {
    "params.network.name": "resnet_actor_critic",
    "+params.network.cnn": {"conv_depths": [2], "permute_input": True},
}
CLIPPED = {
    "params.config.clip_actions": False,
    "+params.env.clip_actions": 0.1,
    "+params.env.clip_observations": 0.2,
}
DEEP = {"+params.network.mlp.d2rl": True, "+params.network.normalization": "layer_norm"}
BOTH_LSTM = {**LSTM, "params.network.separate": True}
CONCATENATED = {"+params.env.obs_groups": {"obs": ["critic", "policy"]}}

CASES = {
    "continuous": Case(),
    "clipped": Case(CLIPPED),
    "sigma of the network": Case({"params.network.space.continuous.fixed_sigma": False}),
    "tanh": Case({"params.model.name": "continuous_a2c_tanh"}),
    "d2rl, layer norm": Case({**DEEP, "params.network.mlp.units": [8, 8]}),
    "discrete": Case({}, DISCRETE, action="discrete"),
    "multi-discrete": Case({}, MULTI_DISCRETE, TwoChoices, action="multi_discrete"),
    "gru before the layers": Case(
        rnn(RECURRENT, before_mlp=True, concat_output=True, layer_norm=True, layers=2)
    ),
    "gru, concatenated input": Case(rnn(RECURRENT, concat_input=True)),
    "lstm, discrete": Case(LSTM, DISCRETE, action="discrete"),
    "lstm of actor and critic": Case(BOTH_LSTM),
    "critic of its own": Case({**ASYMMETRIC, **CONCATENATED}, env=Groups),
    "recurrent critic of its own": Case(BOTH_RECURRENT, env=Groups),
    "images of bytes": Case(images("conv2d"), env=Images),
    "images, for a network that takes channels first": Case(cnn(False), env=FloatImages),
    "images, coordinates": Case(images("coord_conv2d"), env=Images),
    "images, soft argmax": Case(images("conv2d_spatial_softargmax"), env=Images),
    "resnet": Case(RESNET, env=Images),
    "resnet, lstm": Case({**RESNET, **LSTM}, env=Images),
    "images beside vectors": Case({}, CAMERA),
    "images beside vectors, lstm of both": Case(BOTH_LSTM, CAMERA),
    "sac": Case({}, PENDULUM, algorithm="sac"),
}


def each_case(*fast):
    """Run a test for all cases; those that are not named only with the long tests."""
    others = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in fast]
    return pytest.mark.parametrize("name", [*fast, *others])


def options_of(case):
    """Return rl_games' options of a case, by the defaults."""
    space = case.make_env(1).single_observation_space
    task = TaskInfo(case.task, case.action, num_envs=64, observations=groups_of(space))
    agent = copy.deepcopy(dict(_SPEC.default_agent(task, case.algorithm)))
    for key, value in {"params.network.mlp.units": [8], **case.agent}.items():
        set_dotted(agent, key.removeprefix("+"), value)
    return agent


def untrained(case, path):
    """Save a checkpoint of a case with random weights and moments; return its options."""
    register_network()
    agent, generator = options_of(case), torch.Generator().manual_seed(1)
    env = adapted_env(case.make_env(1), agent["params"])
    model = build_actor(agent["params"], env.conversion).model
    for tensor in model.state_dict().values():
        if tensor.is_floating_point():
            tensor += 0.1 + 0.3 * torch.rand(tensor.shape, generator=generator)
    if case.algorithm == "sac":
        parts = ("actor", "critic", "critic_target")
        state = {name: getattr(model.sac_network, name).state_dict() for name in parts}
        state["running_mean_std"] = model.running_mean_std.state_dict()
    else:
        state = {"model": model.state_dict(), "optimizer": {}}
    torch.save({**state, "epoch": 1, "frame": 1}, path)
    return agent


def load(checkpoint, agent, env):
    """Load a policy by the hook, with what that needs of a session."""
    config = make_config(agent=agent)
    session = SimpleNamespace(checkpoint=Path(checkpoint), config=config, env=env, world=World())
    return RlGamesLibrary().rltrain_load_policy(session)


def inputs_of(module, observations):
    """Return the arguments of a module's function for the suite's observations."""
    groups = isinstance(observations, dict)
    return [observations[name] if groups else observations for name in module.inputs]


def first_states(module, num_envs):
    return [torch.zeros(num_envs, *info.shape) for info in module.states.values()]


def after(states, done):
    """Return a module's states after the ends of some episodes."""
    return [state.masked_fill(done.view(-1, 1, 1), 0.0) for state in states]
