"""What is trained for the tests of policies, for torch and for jax, and what its agents choose."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from skrl_fakes import Corridor, Pictured

from rltrain.options import set_dotted
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_skrl.declare.options import ON_POLICY, default_agent, in_jax

SIZE = 5
"""Environments of the loaded policy, not as many as in training."""
IMAGE = ArrayInfo((6, 8, 3), "uint8")


class Beside(Pictured):
    """The corridor as an image next to a vector, with more for the critic."""

    def __init__(self, num_envs, action="continuous"):
        super().__init__(num_envs, action)
        vector = spaces.Box(-9, 9, (1,))
        self.single_observation_space = spaces.Dict(
            policy=vector, eye=self.single_observation_space, critic=vector
        )

    def _observe(self):
        place = self.position[:, None]
        return {"policy": place, "eye": super()._observe(), "critic": -place}


class Cell(Corridor):
    """The corridor, of which a policy knows the cell that the point is in."""

    def __init__(self, num_envs, action="continuous"):
        super().__init__(num_envs, action)
        self.single_observation_space = spaces.Discrete(5)

    def _observe(self):
        return (self.position + 2.5).floor().clamp(0, 4).long()


class FromZero(Corridor):
    """The corridor with choices as skrl's own wrappers support them."""

    def __init__(self, num_envs, action="continuous"):
        super().__init__(num_envs, action)
        self.single_action_space = spaces.Discrete(2)


class Parted(Corridor):
    """The corridor, of which the one group has two parts."""

    def __init__(self, num_envs, action="continuous"):
        super().__init__(num_envs, action)
        box = spaces.Box(-9, 9, (1,))
        self.single_observation_space = spaces.Dict(policy=spaces.Dict(place=box, time=box))

    def _observe(self):
        place, time = super()._observe().split(1, dim=1)
        return {"policy": {"place": place, "time": time}}


@dataclass
class Case:
    """What is trained."""

    algorithm: str = "ppo"
    action: str = "continuous"
    env: Any = Corridor
    options: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, ArrayInfo] | None = None
    """The task's observations, if they are images."""
    groups: tuple[str, ...] = ("policy",)
    """What the policy reads."""

    def agent(self, framework: str = "torch") -> dict[str, Any]:
        """Return small options."""
        task = TaskInfo("none", self.action, num_envs=64, observations=self.seen)  # type: ignore[arg-type]
        options: Any = default_agent(task, self.algorithm)
        options = in_jax(options) if framework == "jax" else options
        for model in options["models"].values():
            for network in model["network"] if isinstance(model, dict) and not self.seen else []:
                network["layers"] = [8]
        small = {"random_timesteps": 1, "learning_starts": 2, "batch_size": 8}
        if self.algorithm in ON_POLICY:
            small = {"rollouts": 4, "mini_batches": 2}
        options["agent"] |= small | {"experiment": {"write_interval": 4}}
        for key, value in self.options.items():
            set_dotted(options, key, value)
        return options  # type: ignore[no-any-return]

    def make_env(self, size: int = SIZE) -> Any:
        """Return the task's environments."""
        return self.env(size, self.action)


NETWORK = "models.policy.network.0"
BESIDE = {"policy": ArrayInfo((1,)), "eye": IMAGE, "critic": ArrayInfo((1,))}
CASES = {
    **{name: Case(name) for name in ("ppo", "a2c", "rpo", "sac", "td3", "ddpg")},
    **{name: Case(name, "discrete") for name in ("dqn", "ddqn")},
    **{f"ppo {action}": Case(action=action) for action in ("discrete", "multi_discrete")},
    "ppo bare": Case(options={"agent.observation_preprocessor": None}),
    "ppo shared": Case(options={"models.separate": False}),
    "ppo clipped": Case(
        options={"models.policy.clip_mean_actions": True, "models.policy.clip_actions": True}
    ),
    "ppo multivariate": Case(options={"models.policy.class": "MultivariateGaussianMixin"}),
    "ppo of probabilities": Case(
        action="discrete",
        options={
            "models.policy.unnormalized_log_prob": False,
            "models.policy.output": "sigmoid(ACTIONS)",
        },
    ),
    "ppo cells": Case(
        env=Cell,
        options={
            f"models.{role}.network.0.input": "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"
            for role in ("policy", "value")
        }
        | {"agent.observation_preprocessor": None},
    ),
    "ppo states": Case(
        env=functools.partial(Corridor, grouped=True),
        options={f"{NETWORK}.input": "concatenate([OBSERVATIONS, STATES])"},
        groups=("policy", "critic"),
    ),
    "ppo asymmetric": Case(
        env=functools.partial(Corridor, grouped=True),
        options={"models.value.network.0.input": "STATES"},
    ),
    "ppo image": Case(
        env=Pictured, seen={"policy": IMAGE}, options={"models.separate": True}
    ),
    "a2c beside": Case("a2c", env=Beside, seen=BESIDE, groups=("eye", "policy")),
    "ppo scaled beside": Case(
        env=Beside,
        seen=BESIDE,
        options={"agent.observation_preprocessor": "RunningStandardScaler"},
        groups=("eye", "policy"),
    ),
}  # fmt: skip


FOR_JAX = (
    *("ppo", "a2c", "rpo", "sac", "td3", "ddpg", "dqn", "ddqn", "ppo discrete"),
    *("ppo multi_discrete", "ppo states", "ppo image"),
)


def without_exploration(agent: Any) -> Any:
    """Return an agent whose mean RPO does not move, without noise and chance of the others."""
    if hasattr(agent.cfg, "alpha"):
        agent.cfg.alpha = 0.0
    if hasattr(agent, "_exploration_noise"):
        agent._exploration_noise = None
    elif hasattr(agent.cfg, "exploration_scheduler"):
        agent.cfg.exploration_scheduler = None
    return agent


def most_likely(case: Case, actions: Any, outputs: Any) -> Any:
    """Return what skrl's evaluation takes; of choices, those with the highest probability."""
    if "net_output" not in outputs:
        return outputs.get("mean_actions", actions)
    parts = np.split(np.asarray(outputs["net_output"]), [2], -1)
    parts = parts[: 1 if case.action == "discrete" else 2]
    return np.stack([part.argmax(-1) for part in parts], axis=-1)


def in_groups(observations: Any, module: Any) -> list[Any]:
    """Return the arguments of a module's function."""
    groups = isinstance(observations, dict)
    return [observations[name] if groups else observations for name in module.inputs]
