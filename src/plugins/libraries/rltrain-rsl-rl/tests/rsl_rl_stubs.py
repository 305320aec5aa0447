"""A small task and a stub session for the tests of the rsl_rl adapter."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from packaging.version import Version

from rltrain.metrics.environment import CountedEnv
from rltrain.records import CheckpointSaved, Scalars
from rltrain.run.group import SingleProcess
from rltrain.storage.run_folder import RunFolder
from rltrain.testing import make_config
from rltrain.types import TaskInfo, TrainResult, World
from rltrain_rsl_rl.declare.options import default_agent

VERSION = Version(version("rsl-rl-lib"))

POOLS = Version("5.5") <= VERSION
"""Whether rsl_rl updates its normalizers after learning, and pools them over ranks. Before 5.5 each
rank's learned from its own data alone, in every step."""

pools = pytest.mark.skipif(not POOLS, reason="rsl_rl pools its normalizers since 5.5")


class PointEnv(VectorEnv):
    """A point on a line that must be moved to 0: the reward is minus its distance.

    An episode terminates outside [-4, 4], and is truncated after `limit` steps. Observations and
    rewards are buffers that each step writes over, as simulators on a GPU do.
    """

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int = 8, action: Box | None = None, limit: int = 10) -> None:
        self.num_envs, self.limit = num_envs, limit
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = action or Box(-1, 1, (1,), np.float32)
        self.position = torch.zeros(num_envs)
        self.steps = torch.zeros(num_envs, dtype=torch.long)
        self.observations = torch.zeros(num_envs, 2)
        self.actions: list[torch.Tensor] = []

    def reset(self, *, seed=None, options=None):
        self.generator = torch.Generator().manual_seed(seed or 0)
        self.position.copy_(self._fresh())
        self.steps.zero_()
        return self._observe(), {}

    def step(self, actions):
        self.actions.append(actions)
        self.position += 0.5 * actions.reshape(self.num_envs, -1)[:, 0]
        self.steps += 1
        rewards = -self.position.abs()
        terminations = self.position.abs() > 4
        truncations = self.steps >= self.limit
        done = terminations | truncations
        self.position[done] = self._fresh()[done]
        self.steps[done] = 0
        log = {"distance": 1.5} | ({"later": float(self.steps[0])} if self.steps[0] > 2 else {})
        return self._observe(), rewards, terminations, truncations, {"log": log}

    def _fresh(self):
        return torch.rand(self.num_envs, generator=self.generator) * 4 - 2

    def _observe(self):
        self.observations[:, 0] = self.position
        self.observations[:, 1] = self.position.sign()
        return self.observations


class LocalSession:
    """The methods of `rltrain.session.Session` that the adapter calls; records its calls."""

    def __init__(
        self,
        folder: Path,
        agent: dict[str, Any] | None = None,
        env: VectorEnv | None = None,
        *,
        world: World | None = None,
        group: Any = None,
        seed: int = 0,
        checkpoint: Path | None = None,
        rank_state: Any = None,
        stop_at: int | None = None,
        **config: Any,
    ) -> None:
        self.world = world or World()
        self.group = group or SingleProcess("cpu")
        self.config = make_config(library="rsl_rl", agent=agent or small_agent(), **config)
        folder.mkdir(parents=True, exist_ok=True)
        self.run_folder = RunFolder(folder)
        self.env = CountedEnv(env or PointEnv(), seed)
        self.checkpoint = checkpoint
        self.rank_state = rank_state
        self.given_anew: tuple[str, ...] = ()
        self.resuming_exactly = rank_state is not None
        self.rank_states: dict[str, Any] = {}
        self.iteration = 0
        self.should_stop = self.should_save = False
        self.stop_at = stop_at
        self.records: list[Any] = []
        self.calls: list[str] = []
        self.models: dict[str, torch.nn.Module] = {}
        self.parameters: list[torch.nn.Parameter] = []

    def seed(self, stream: str) -> None:
        self.calls.append(f"seed {stream}")

    def wrap_model(self, model: torch.nn.Module, role: str) -> torch.nn.Module:
        self.calls.append(f"wrap {role}")
        self.models[role] = model
        for tensor in model.state_dict().values():
            tensor.copy_(self.group.broadcast(tensor))
        return model

    def gradient_sync(
        self, parameters: list[torch.nn.Parameter], *, extras: int = 0, may_overflow: bool = False
    ) -> Any:
        self.calls.append("gradient_sync")
        self.parameters = parameters[: -extras or None]
        return lambda gradients: [
            None if item is None else self.group.all_reduce(item, "mean") for item in gradients
        ]

    def watch(self, role: str, fingerprints: Any) -> None:
        self.calls.append(f"watch {role}")

    def record(self, record: Any) -> Any:
        self.records.append(record)
        if isinstance(record, Scalars) and record.iteration == self.stop_at:
            self.should_stop = True
        return record

    def iterations_left(self, total: int, done: int) -> int:
        return total - done

    def save_checkpoint(self, name: str, save: Any, iteration: int, rank_state: Any = None) -> None:
        self.rank_states[name] = rank_state
        if self.world.is_root:
            path = self.run_folder.write_atomically(f"checkpoints/{name}", save)
            self.records.append(CheckpointSaved(str(path), iteration))

    def result(self) -> TrainResult:
        return TrainResult(len(list(self.iterations())), 0, None, None, str(self.run_folder.path))

    def iterations(self) -> Iterator[int]:
        return (item.iteration for item in self.records if isinstance(item, Scalars))

    def saved(self) -> list[tuple[str, int]]:
        found = [item for item in self.records if isinstance(item, CheckpointSaved)]
        return [(Path(item.path).name, item.iteration) for item in found]


def small_agent(**algorithm: Any) -> dict[str, Any]:
    """Return the defaults, scaled down."""
    agent = copy.deepcopy(default_agent(TaskInfo("Point-v0", "continuous"), "ppo"))
    agent.update(num_steps_per_env=8, max_iterations=3, save_interval=2)
    agent["actor"]["hidden_dims"] = agent["critic"]["hidden_dims"] = [8]
    agent["algorithm"].update(num_learning_epochs=2, num_mini_batches=2, **algorithm)
    return agent


CURIOUS: dict[str, Any] = {
    f"algorithm.rnd_cfg.{key}": value
    for key, value in {
        "num_outputs": 4,
        "predictor_hidden_dims": [8],
        "target_hidden_dims": [8],
        "weight": 5.0,
        "state_normalization": True,
        "reward_normalization": True,
    }.items()
}
"""Overrides by which random network distillation is in play."""


def recurrent(kind: str, *models: str) -> dict[str, Any]:
    """Return overrides that make models recurrent; actor and critic by default."""
    chosen = {"class_name": "RNNModel", "rnn_type": kind, "rnn_hidden_dim": 8}
    return {
        f"{model}.{key}": value
        for model in models or ("actor", "critic")
        for key, value in chosen.items()
    }


def mirrored(env: Any, obs: Any, actions: Any) -> tuple[Any, Any]:
    """Symmetry function of a task without a preferred side: appends the mirrored rows."""
    return (
        None if obs is None else torch.cat([obs, obs.apply(torch.neg)]),
        None if actions is None else torch.cat([actions, -actions]),
    )
