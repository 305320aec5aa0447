"""PPO and A2C of Stable-Baselines3 on one of several ranks. Like `policy.py`, it uses internals."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file
from torch.nn.utils import clip_grad_norm_

from rltrain.errors import StopTraining
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_sb3.buffer import PooledBuffer
from rltrain_sb3.checkpoints import counters_in
from rltrain_sb3.env import SessionVecEnv
from rltrain_torch.gradients import synchronize

__all__ = ["AGENTS", "CHECKPOINT_INTERVAL"]

CHECKPOINT_INTERVAL = 50
"""Iterations between two checkpoints; another is saved when training ends."""


class SessionAgent(OnPolicyAlgorithm):
    """An algorithm with gradients averaged over ranks, and metrics recorded by the session.

    Attributes:
        iterations: iterations done, including those before a loaded checkpoint. SB3 saves it with
            its other attributes.
    """

    env: SessionVecEnv
    rollout_buffer: PooledBuffer
    normalize_advantage: bool

    def __init__(self, session: Session, **options: Any) -> None:
        """Make the agent, with the same policy on all ranks. Collective.

        SB3 is not given a `seed`, so it does not seed the generators: the session has seeded them
        for the models, and at the end of this constructor seeds them for the learner.

        Args:
            session: this rank's side of the run.
            **options: keyword arguments of the algorithm.
        """
        env = SessionVecEnv(session.env, session.world.device)
        options |= {
            "rollout_buffer_class": PooledBuffer,
            "rollout_buffer_kwargs": {"group": session.group},
        }
        super().__init__(env=env, device=session.world.device, **options)
        self.set_logger(Logger(folder=None, output_formats=[]))  # SB3's default writes files.
        self.session = session
        self.iterations = 0
        if session.checkpoint is not None:
            self._load(session.checkpoint)
        self.policy = session.wrap_model(self.policy, "policy")
        self._parameters = list(self.policy.parameters())
        self._sync = session.gradient_sync(self._parameters)
        session.watch(
            "optimizer", lambda: {"learning rate": self.policy.optimizer.param_groups[0]["lr"]}
        )
        session.seed("learner")

    def learn_iterations(self, last: int) -> None:
        """Train until `last` iterations or until the session stops."""
        self._last, iterations = last, self.session.iterations_left(last, self.iterations)
        with contextlib.suppress(StopTraining):
            # Not reset, so that the count of a loaded checkpoint continues; else it starts at 0.
            self.learn(iterations * self.n_steps * self.n_envs, reset_num_timesteps=False)

    def train(self) -> None:
        """Update the policy as SB3 does, but average gradients over ranks before clipping them.

        SB3 (2.9) clips each rank's own gradients right after `backward`, with no hook in between.
        So its bound is infinite here, and a hook right before the optimizer's step averages and
        clips. Its normalization of advantages is off for the same reason: the buffer's takes its
        place.
        """
        bound, self.max_grad_norm = self.max_grad_norm, math.inf
        normalizes, self.normalize_advantage = self.normalize_advantage, False
        self.rollout_buffer.normalizes = normalizes

        def average_then_clip(*_: Any) -> None:
            synchronize(self._sync, self._parameters)
            clip_grad_norm_(self._parameters, bound)

        hook = self.policy.optimizer.register_step_pre_hook(average_then_clip)
        try:
            super().train()
        finally:
            hook.remove()
            self.max_grad_norm = bound
            self.normalize_advantage = normalizes
        self._end_iteration()

    def _end_iteration(self) -> None:
        self.iterations += 1
        # Only this iteration's metrics: SB3 clears its logger before each update.
        values = {name: float(value) for name, value in self.logger.name_to_value.items()}
        values.update(self.env.take_log())
        over = self.session.end_iteration(
            Scalars(self.iterations, values, iterations=self._last),
            f"{self.session.config.algorithm}_{self.iterations}.zip",
            self.save,
            due=self.iterations % CHECKPOINT_INTERVAL == 0,
        )
        if over:
            raise StopTraining

    def _load(self, path: Path) -> None:
        """Load the policy, optimizer and counters; the options stay those of this run."""
        # Without `load_data`: that would run code that the file may name.
        _, parameters, _ = load_from_zip_file(path, load_data=False, device=self.device)
        self.set_parameters(parameters, device=self.device)
        data = counters_in(path)
        # A checkpoint written by SB3 without rltrain has no count of iterations.
        for name in ("num_timesteps", "_n_updates", "iterations"):
            setattr(self, name, data.get(name, 0))

    def _excluded_save_params(self) -> list[str]:
        """Return the names of attributes that SB3 must not pickle."""
        ours = ["session", "_sync", "_parameters", "_last"]
        return [
            *super()._excluded_save_params(),
            *ours,
            "rollout_buffer_class",
            "rollout_buffer_kwargs",
        ]


class SessionPPO(SessionAgent, PPO):
    """PPO on a session."""


class SessionA2C(SessionAgent, A2C):
    """A2C on a session: one step for each rollout."""


AGENTS: dict[str, type[SessionAgent]] = {"ppo": SessionPPO, "a2c": SessionA2C}
"""By the name of the algorithm."""
