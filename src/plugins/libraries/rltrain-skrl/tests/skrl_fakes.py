"""A small batched task and a fake session for the tests of this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from rltrain.metrics.environment import CountedEnv
from rltrain.records import Record, Scalars
from rltrain.run.group import SingleProcess
from rltrain.run.plugin_session import TrainingSession
from rltrain.seeding import SeedPlan
from rltrain.storage.run_folder import RunFolder
from rltrain.testing import make_config
from rltrain.types import TaskInfo, TrainResult, World
from rltrain_skrl.declare.options import default_agent

PLACE = ["skrl:config.torch", "skrl:config.jax"]
"""Where skrl keeps a rank's place in the world: each rank of a fake world has its own."""

ACTIONS = {
    "continuous": spaces.Box(-1.0, 1.0, (1,)),
    "discrete": spaces.Discrete(2, start=1),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
}


class Corridor(VectorEnv):
    """A point on a line, to be kept at 0; truncated after `limit` steps, terminated beyond 2.

    The observation is (position, steps / limit), so that a final one differs from a first one.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    render_mode = None

    def __init__(
        self, num_envs: int, action: str = "continuous", limit: int = 5, grouped: bool = False
    ) -> None:
        self.num_envs, self.limit, self.grouped = num_envs, limit, grouped
        self.single_action_space = ACTIONS[action]
        box = spaces.Box(-9.0, 9.0, (2,))
        self.single_observation_space = (
            spaces.Dict({"policy": box, "critic": spaces.Box(-9.0, 9.0, (3,))}) if grouped else box
        )
        self.resets = 0
        self.actions: list[torch.Tensor] = []
        self.random = torch.Generator()

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        if seed is not None:
            self.random.manual_seed(seed)
        self.position = self._start()
        self.steps = torch.zeros(self.num_envs)
        return self._observe(), {}

    def step(self, actions):
        self.actions.append(actions)
        move = actions.float().reshape(self.num_envs, -1)[:, 0]
        self.position = self.position + 0.3 * move
        self.steps = self.steps + 1
        terminated, truncated = self.position.abs() > 2, self.steps >= self.limit
        done = terminated | truncated
        rewards = -self.position.abs()
        info: dict[str, Any] = {"log": {"distance": self.position.abs().mean(), "Own/level": 3.0}}
        if done.any():
            info |= {"final_obs": self._observe(), "_final_obs": done}
            self.position = torch.where(done, self._start(), self.position)
            self.steps = torch.where(done, 0.0, self.steps)
        return self._observe(), rewards, terminated, truncated, info

    def close(self, **kwargs):
        pass

    def _start(self):
        return torch.rand(self.num_envs, generator=self.random) - 0.5

    def _observe(self):
        policy = torch.stack([self.position, self.steps / self.limit], dim=1)
        if not self.grouped:
            return policy
        return {"policy": policy, "critic": torch.cat([policy, policy[:, :1] ** 2], dim=1)}


class Pictured(Corridor):
    """The corridor as an image with a bright column at the point."""

    def __init__(self, num_envs, action="continuous"):
        super().__init__(num_envs, action)
        self.single_observation_space = spaces.Box(0, 255, (6, 8, 3), np.uint8)

    def _observe(self):
        place = (self.position * 2 + 4).round().clamp(0, 7).long()
        column = torch.nn.functional.one_hot(place, 8).to(torch.uint8) * 255
        return column[:, None, :, None].repeat(1, 6, 1, 3)


class FakeSession:
    """The methods of `rltrain.session.Session` that an adapter calls, recorded."""

    def __init__(
        self,
        env: VectorEnv,
        agent: dict[str, Any],
        *,
        world: World | None = None,
        stop_at: int | None = None,
        **options: Any,
    ) -> None:
        self.world = world or World()
        self.group = SingleProcess("cpu")
        self.config = make_config(library="skrl", agent=agent, headless=True, **options)
        self.seeds = SeedPlan(7, self.world.rank)
        self._folder = tempfile.TemporaryDirectory()
        self.run_folder = RunFolder(Path(self._folder.name))
        self.env = CountedEnv(env, self.seeds.environment)
        self.should_stop = self.should_save = False
        self.checkpoint = Path(self.config.checkpoint) if self.config.checkpoint else None
        self.rank_state: Any = None
        self.given_anew: tuple[str, ...] = ()
        self.resuming_exactly = False
        self.stop_at = stop_at
        self.records: list[Scalars] = []
        self.wrapped: dict[str, Any] = {}
        self.watched: dict[str, Any] = {}
        self.streams: list[str] = []
        self.syncs: list[Any] = []
        self.saved: list[tuple[str, int]] = []
        self.rank_states: list[Any] = []

    def seed(self, stream: Any) -> None:
        self.streams.append(stream)
        torch.manual_seed(self.seeds.seed(stream))

    def wrap_model(self, model: Any, role: str) -> Any:
        assert role not in self.wrapped
        self.wrapped[role] = model
        return model

    def gradient_sync(self, parameters: Any, *, extras: int = 0, may_overflow: bool = False) -> Any:
        self.syncs.append(parameters)
        return lambda gradients: gradients

    def watch(self, role: str, fingerprints: Any) -> None:
        self.watched[role] = fingerprints

    def record(self, record: Record) -> Record:
        if isinstance(record, Scalars):
            self.records.append(record)
            self.should_stop = record.iteration == self.stop_at
        return record

    def iterations_left(self, total: int, done: int) -> int:
        assert total > done
        return total - done

    def save_checkpoint(self, name: str, save: Any, iteration: int, rank_state: Any = None) -> None:
        self.rank_states.append(rank_state)
        if self.world.is_root:
            self.run_folder.write_atomically(f"checkpoints/{name}", save)
            self.saved.append((name, iteration))

    end_iteration = TrainingSession.end_iteration

    def result(self) -> TrainResult:
        return TrainResult(len(self.records), self.env.episodes.steps, None, None, "")


def small_agent(action: str = "continuous", num_envs: int = 64, **agent: Any) -> dict[str, Any]:
    """Return the default options, scaled down: rollouts of 4 steps, 2 epochs of 2 mini-batches."""
    options: Any = default_agent(TaskInfo("none", action, num_envs=num_envs), "ppo")  # type: ignore[arg-type]
    options["agent"] |= {"rollouts": 4, "learning_epochs": 2, "mini_batches": 2} | agent
    options["trainer"]["timesteps"] = 12
    return options
