"""rl_games' PPO agents on several ranks. Everything that touches their inside stands here.

Each rank's agent believes that it is alone (`multi_gpu` is off), so that rl_games never makes a
process group, never asks for CUDA, and takes no decision on rank 0 only. What must be common is
common by other means: gradients are averaged before they are clipped, normalisers and the episode
meters are pooled, and schedulers see the mean KL, so that every rank decides alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.a2c_common import A2CBase
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.schedulers import RLScheduler

from rltrain.errors import StopTraining
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_rl_games.normaliser import pool_normalisers
from rltrain_torch.gradients import synchronise

__all__ = ["ContinuousAgent", "DiscreteAgent", "LogObserver"]

_RECORDED_BY_THE_CORE = ("rewards", "shaped_rewards", "episode_lengths", "info/epochs")


class _RankAgent(A2CBase):
    """Mixed in before an agent of rl_games, which it precedes in the order of methods."""

    writer: Any
    scheduler: Any

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        self.session = session
        super().__init__(base_name, params)
        self.writer.close()
        self.writer = ScalarSink()
        if session.group.world_size > 1:
            pool_normalisers(self.model, session.group)
            if self.normalize_value:
                self.value_mean_std = self.model.value_mean_std
        for meter in (self.game_rewards, self.game_shaped_rewards):
            # As its first episode would make it: that one may come from another rank.
            meter.mean = meter.mean.view(1, -1)
        self.algo_observer.sink = self.writer
        self.first_epoch = self.epoch_num

    def restore(self, fn: str, set_epoch: bool = True) -> None:
        """Load a checkpoint; the learning rate comes back too, which rl_games forgets."""
        self.set_full_state_weights(_load(fn, self.ppo_device), set_epoch=set_epoch)
        self.last_lr = self.optimizer.param_groups[0]["lr"]
        self.first_epoch = self.epoch_num
        if self.max_epochs != -1:
            self.max_epochs += self.epoch_num

    def train(self) -> None:
        """Make the model common, then train until the epochs are done or the session stops."""
        session = self.session
        session.wrap_model(self.model, "model")
        session.watch("optimizer", lambda: {"learning rate": self.last_lr})
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._sync = session.gradient_sync(self._parameters)
        self.scheduler = CommonScheduler(self.scheduler, self)
        session.seed("learner")
        try:
            super().train()
            self._record()
        except StopTraining:
            self.save(f"last_{self.config['name']}_ep_{self.epoch_num}")

    def trancate_gradients_and_step(self) -> None:
        """Average the gradients over ranks, then clip and step as alone."""
        synchronise(self._sync, self._parameters)
        super().trancate_gradients_and_step()

    def train_epoch(self) -> Any:
        """Train one epoch; then pool what rl_games decides by, and count all ranks' frames."""
        result = super().train_epoch()
        world_size = self.session.group.world_size
        if world_size > 1:
            self._pool_meters()
        self.curr_frames *= world_size
        return result

    def update_epoch(self) -> int:
        """Begin an epoch: the figures of the one before are complete only now."""
        if self.epoch_num > self.first_epoch:
            self._record()
            if self.session.should_stop:
                raise StopTraining
        epoch: int = super().update_epoch()
        return epoch

    def save(self, fn: str) -> None:
        """Save a checkpoint in rl_games' own format, on rank 0."""
        state = self.get_full_state_weights
        self.session.save_checkpoint(
            f"{Path(fn).name}.pth", lambda path: torch.save(state(), path), self.epoch_num
        )

    def _record(self) -> None:
        last = None if self.max_epochs == -1 else self.max_epochs
        self.session.record(
            Scalars(iteration=self.epoch_num, iterations=last, values=self.writer.take())
        )

    def _pool_meters(self) -> None:
        """Give every rank the mean of all ranks' episode meters, in one collective."""
        meters = (self.game_rewards, self.game_shaped_rewards, self.game_lengths)
        sizes = [float(meter.current_size) for meter in meters]
        means = [meter.mean.cpu().double().numpy().ravel() for meter in meters]
        packed = [*sizes, *(mean * size for mean, size in zip(means, sizes, strict=True))]
        total = self.session.group.all_reduce(np.hstack(packed), "sum")
        sums = np.split(total[len(sizes) :], np.cumsum([mean.size for mean in means])[:-1])
        for meter, size, value in zip(meters, total, sums, strict=False):
            meter.current_size = min(int(size), meter.max_size)
            pooled = torch.from_numpy(value / max(size, 1.0))
            meter.mean = pooled.to(meter.mean).view_as(meter.mean)


class ContinuousAgent(_RankAgent, A2CAgent):
    """PPO for continuous actions on several ranks."""


class DiscreteAgent(_RankAgent, DiscreteA2CAgent):
    """PPO for discrete actions on several ranks."""


class CommonScheduler(RLScheduler):
    """A learning-rate schedule that sees the mean KL of all ranks, and the true frame count.

    rl_games passes 0 frames, with which a schedule over frames would never move.
    """

    def __init__(self, schedule: RLScheduler, agent: Any) -> None:
        super().__init__()
        self.schedule = schedule
        self._agent = agent

    def update(
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float
    ) -> tuple[float, float]:
        """Return learning rate and entropy coefficient, equal on all ranks."""
        group = self._agent.session.group
        if group.world_size > 1:
            kl_dist = float(group.all_reduce(np.array([kl_dist]), "mean")[0])
        result: tuple[float, float] = self.schedule.update(
            current_lr, entropy_coef, epoch, self._agent.frame, kl_dist
        )
        return result


class ScalarSink:
    """Stands where rl_games keeps its tensorboardX writer, and keeps the scalars of an epoch."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def add_scalar(self, tag: str, value: Any, step: Any = None) -> None:
        """Keep a scalar, unless the core records it for every library."""
        if tag.startswith(_RECORDED_BY_THE_CORE) or tag.endswith("fps"):
            return
        self._values[tag] = float(value)

    def take(self) -> dict[str, float]:
        """Return and forget the scalars."""
        values, self._values = self._values, {}
        return values


class LogObserver(AlgoObserver):
    """Collects what the environment logs, without a loop over environments."""

    sink: ScalarSink

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, list[Any]] = {}

    def process_infos(self, infos: dict[str, Any], done_indices: Any) -> None:
        """Keep this step's entries."""
        for name, value in infos["log"].items():
            self._logged.setdefault(name, []).append(value)

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        """Pass on the epoch's means."""
        for name, values in self._logged.items():
            mean = sum(float(torch.as_tensor(value).float().mean()) for value in values)
            self.sink.add_scalar(name, mean / len(values))
        self._logged.clear()

    def after_clear_stats(self) -> None:
        """Called by rl_games; there is nothing to clear."""


def _load(path: str, device: str) -> dict[str, Any]:
    """Load a checkpoint to a rank's own device.

    rl_games' own loader puts every rank's copy on the device that wrote it. Like it, this takes off
    the prefix that torch.compile adds to names.
    """
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=False)
    state["model"] = {
        name.removeprefix("_orig_mod."): tensor for name, tensor in state["model"].items()
    }
    return state
