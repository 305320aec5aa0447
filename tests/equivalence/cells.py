"""What can be done with what was trained: libraries, algorithms and suites, each cell a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SMALL: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("rl_games", "ppo"): {
        "params.config.horizon_length": 8,
        "params.config.minibatch_size": 32,
        "params.config.mini_epochs": 1,
        "params.network.mlp.units": [16],
    },
    ("rl_games", "sac"): {
        "params.config.batch_size": 16,
        "params.config.num_warmup_steps": 1,
        "params.config.replay_buffer_size": 256,
    },
    ("rsl_rl", "ppo"): {"num_steps_per_env": 8, "algorithm.num_mini_batches": 1},
    ("rsl_rl", "distillation"): {"num_steps_per_env": 8},
    **{
        ("skrl", name): {
            "agent.rollouts": 8,
            "agent.mini_batches": 1,
            **({} if name == "a2c" else {"agent.learning_epochs": 1}),
        }
        for name in ("ppo", "rpo", "a2c")
    },
    **{
        ("skrl", name): {
            "agent.batch_size": 16,
            "agent.random_timesteps": 2,
            "agent.learning_starts": 2,
            "agent.experiment.write_interval": 8,
            "memory.memory_size": 32,
        }
        for name in ("sac", "td3", "ddpg", "dqn", "ddqn")
    },
}
"""Options with which an iteration takes milliseconds."""

TRAINED = 4
"""Environments of each training."""

_TASKS: Mapping[str, tuple[str, str, str | None, Mapping[str, Any]]] = {
    "embedded": (
        "gymnasium",
        "rltrain/CartPoleContinuous-v1",
        "rltrain/CartPole-v1",
        {"max_episode_length": 20},
    ),
    "Gymnasium": ("gymnasium", "InvertedPendulum-v5", "CartPole-v1", {"max_episode_steps": 20}),
    "EnvPool": ("envpool", "envpool/Pendulum-v1", "envpool/CartPole-v1", {}),
    "Playground": ("playground", "CartpoleBalance", None, {"episode_length": 20}),
    "mjlab": ("mjlab", "Mjlab-Cartpole-Balance", None, {"episode_length_s": 1.0}),
}
"""By family: the suite, a task with continuous actions, one with discrete ones, and options that
make episodes short."""

_FAMILIES_OF = {"torch": ("embedded", "Gymnasium", "EnvPool", "mjlab"), "jax": tuple(_TASKS)[:4]}

_BOTH = ("continuous", "discrete")
_ALGORITHMS: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("rl_games", "torch"): {"ppo": _BOTH, "sac": _BOTH[:1]},
    ("rsl_rl", "torch"): {"ppo": _BOTH[:1], "distillation": _BOTH[:1]},
    **{
        ("skrl", framework): {
            "ppo": _BOTH,
            **{name: _BOTH[:1] for name in ("rpo", "a2c", "sac", "td3", "ddpg")},
            **{name: _BOTH[1:] for name in ("dqn", "ddqn")},
        }
        for framework in ("torch", "jax")
    },
}
"""By library and framework, the kinds of actions of each algorithm."""


@dataclass(frozen=True)
class Cell:
    """One policy, and what is done with it."""

    library: str
    framework: str
    algorithm: str
    action: str
    family: str
    suite: str
    task: str
    env: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agent(self) -> dict[str, Any]:
        return dict(_SMALL[self.library, self.algorithm])

    @property
    def draws(self) -> bool:
        """Whether a video is made; else the suite refuses it."""
        return self.suite != "envpool"

    @property
    def needs_opengl(self) -> bool:
        """Whether MuJoCo draws its environments."""
        return self.family in ("Gymnasium", "Playground", "mjlab") and self.action == "continuous"

    def __str__(self) -> str:
        parts = (self.library, self.framework, self.algorithm, self.action, self.family)
        return "-".join(parts)


CELLS = [
    Cell(library, framework, algorithm, action, family, suite, task, env)
    for (library, framework), algorithms in _ALGORITHMS.items()
    for algorithm, actions in algorithms.items()
    for family in _FAMILIES_OF[framework]
    for suite, continuous, discrete, env in [_TASKS[family]]
    for action in actions
    for task in [continuous if action == "continuous" else discrete]
    if task is not None
    # mjlab's environments take most of a minute each on a CPU.
    if family != "mjlab" or algorithm == "ppo"
]
