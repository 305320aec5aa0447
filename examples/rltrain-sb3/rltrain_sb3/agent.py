"""Stable-Baselines3's PPO as one of several ranks. All that touches its inside stands here."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.save_util import load_from_zip_file
from torch.nn.utils import clip_grad_norm_

from rltrain.errors import StopTraining
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_sb3.env import SessionVecEnv
from rltrain_torch.gradients import synchronise

__all__ = ["CHECKPOINT_INTERVAL", "SessionPPO"]

CHECKPOINT_INTERVAL = 50
"""Iterations between two checkpoints; one more is saved when training ends."""


class SessionPPO(PPO):
    """PPO whose gradients are averaged over ranks, and whose figures go to the session.

    Attributes:
        iterations: iterations done, those before a loaded checkpoint included. It is saved with
            SB3's other attributes.
    """

    env: SessionVecEnv

    def __init__(self, session: Session, **options: Any) -> None:
        """Make the agent; the policy becomes common to all ranks. Collective.

        Without `seed`, SB3 leaves the generators alone: the session has seeded them for the models,
        and is told when it is the learner's turn.

        Args:
            session: this rank's side of the run.
            **options: keyword arguments of `PPO`.
        """
        env = SessionVecEnv(session.env, session.world.device)
        super().__init__(env=env, device=session.world.device, **options)
        self.set_logger(Logger(folder=None, output_formats=[]))  # SB3's own would write files.
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
        """Train until `last` iterations are done, or the session says stop; save a checkpoint."""
        self._last, iterations = last, self.session.iterations_left(last, self.iterations)
        with contextlib.suppress(StopTraining):
            # Not reset, so that a loaded checkpoint's count goes on; it begins at 0 anyway.
            self.learn(iterations * self.n_steps * self.n_envs, reset_num_timesteps=False)
        self._save_checkpoint()

    def train(self) -> None:
        """Update the policy as SB3 does, with gradients that are averaged before they are clipped.

        SB3 clips each rank's own gradients right after `backward`, where nothing can come between:
        without a bound that changes nothing. What it would have done is done as the last thing
        before the optimiser's step.
        """
        bound, self.max_grad_norm = self.max_grad_norm, math.inf

        def average_then_clip(*_: Any) -> None:
            synchronise(self._sync, self._parameters)
            clip_grad_norm_(self._parameters, bound)

        hook = self.policy.optimizer.register_step_pre_hook(average_then_clip)
        try:
            super().train()
        finally:
            hook.remove()
            self.max_grad_norm = bound
        self._end_iteration()

    def _end_iteration(self) -> None:
        self.iterations += 1
        # SB3 empties its logger before an update, which has just filled it.
        values = {name: float(value) for name, value in self.logger.name_to_value.items()}
        values.update(self.env.take_log())
        self.session.record(Scalars(self.iterations, values, iterations=self._last))
        if self.session.should_stop:
            raise StopTraining
        if self.iterations % CHECKPOINT_INTERVAL == 0 and self.iterations < self._last:
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        self.session.save_checkpoint(f"ppo_{self.iterations}.zip", self.save, self.iterations)

    def _load(self, path: Path) -> None:
        """Take over policy, optimiser and counters; the options stay those of this run."""
        data, parameters, _ = load_from_zip_file(path, device=self.device)
        self.set_parameters(parameters, device=self.device)
        # A checkpoint that SB3 alone has written counts no iterations.
        for name in ("num_timesteps", "_n_updates", "iterations"):
            setattr(self, name, (data or {}).get(name, 0))

    def _excluded_save_params(self) -> list[str]:
        """Name the attributes that SB3 must not pickle."""
        return [*super()._excluded_save_params(), "session", "_sync", "_parameters", "_last"]
