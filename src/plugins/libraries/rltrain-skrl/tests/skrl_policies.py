"""What is trained for the tests of policies, and the training agents' own actions."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from skrl_fakes import Corridor, FakeSession, Pictured

from rltrain.options import set_dotted
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_skrl.declare.options import ON_POLICY, default_agent
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.library import SkrlLibrary
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner

SIZE, STEPS = 5, 7
"""Environments of the loaded policy, not as many as in training; steps, through the end of every
environment's episode."""
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

    def agent(self) -> dict[str, Any]:
        """Return small options."""
        task = TaskInfo("none", self.action, num_envs=64, observations=self.seen)  # type: ignore[arg-type]
        options: Any = default_agent(task, self.algorithm)
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
    "ppo image": Case(env=Pictured, seen={"policy": IMAGE}),
    "a2c beside": Case("a2c", env=Beside, seen=BESIDE, groups=("eye", "policy")),
    "ppo scaled beside": Case(
        env=Beside,
        seen=BESIDE,
        options={"agent.observation_preprocessor": "RunningStandardScaler"},
        groups=("eye", "policy"),
    ),
}  # fmt: skip


@functools.cache
def trained(name: str) -> Any:
    """Return a session and its runner after two iterations, and the checkpoint."""
    case = CASES[name]
    session = FakeSession(case.make_env(8), case.agent(), max_iterations=2)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.train()
    saved, _ = session.saved[-1]
    return session, runner.agent, session.run_folder.path / "checkpoints" / saved


def load(case: Case, checkpoint: Path, agent: Any = None, size: int = SIZE, **options: Any) -> Any:
    """Return a policy and its session."""
    options |= {"checkpoint": str(checkpoint), "num_envs": size}
    session = FakeSession(case.make_env(size), agent or case.agent(), **options)
    return SkrlLibrary().rltrain_load_policy(session), session  # type: ignore[arg-type]


def reference(name: str, deterministic: bool) -> list[torch.Tensor]:
    """Return the actions that a task gets from the training agent, and from skrl's wrapper."""
    case, agent = CASES[name], trained(name)[1]
    env = case.make_env()
    env.reset(seed=3)
    wrapper = SkrlEnv(env, "cpu", "episode")
    wrapper.reset()  # It samples other starts than the seed's: `acted` does so, too.
    with (
        bootstrap.configured(trained(name)[0].world),
        torch.no_grad(),
        exploring(agent, not deterministic),
    ):
        torch.manual_seed(5)
        observations = wrapper._observations
        for _ in range(STEPS):
            actions, outputs = agent.act(observations, wrapper.state(), timestep=99, timesteps=99)
            if deterministic:
                actions = most_likely(case, actions, outputs)
            observations, *_ = wrapper.step(actions)
    return env.actions  # type: ignore[no-any-return]


class exploring:
    """Whether RPO moves the mean by chance; no noise of TD3 and DDPG, no chance of DQN and DDQN."""

    def __init__(self, agent, samples):
        cfg = agent.cfg
        alpha = {"alpha": cfg.alpha if samples else 0.0} if hasattr(cfg, "alpha") else {}
        self.changes = [(agent.cfg, name, value) for name, value in alpha.items()]
        if hasattr(agent, "_exploration_noise"):
            self.changes.append((agent, "_exploration_noise", None))
        elif hasattr(agent.cfg, "exploration_scheduler"):
            self.changes.append((agent.cfg, "exploration_scheduler", None))

    def __enter__(self):
        self.before = [(owner, name, getattr(owner, name)) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)

    def __exit__(self, *_):
        for owner, name, value in self.before:
            setattr(owner, name, value)


def most_likely(case, actions, outputs):
    """Return what skrl's evaluation takes; of choices, those with the highest probability."""
    if "net_output" not in outputs:
        return outputs.get("mean_actions", actions)
    sizes = [2] if case.action == "discrete" else [2, 3]
    return torch.stack([x.argmax(-1) for x in outputs["net_output"].split(sizes, -1)], dim=-1)


def acted(policy: Any, env: Any, deterministic: bool) -> list[torch.Tensor]:
    """Return the actions that a task gets from a policy."""
    env.reset(seed=3)
    observations, _ = env.reset()
    torch.manual_seed(5)
    for _ in range(STEPS):
        observations, *_ = env.step(policy.act(observations, deterministic))
        policy.reset(torch.ones(env.num_envs, dtype=torch.bool))
    return env.actions  # type: ignore[no-any-return]
