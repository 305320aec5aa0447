"""What the run needs of every agent of rl_games: figures, checkpoints, and an end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from rl_games.common.algo_observer import AlgoObserver
from rl_games.interfaces.base_algorithm import BaseAlgorithm

from rltrain.errors import StopTraining, UsageError
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_rl_games.checkpoints import load_checkpoint, on_host, save_checkpoint
from rltrain_rl_games.meters import PooledMeter, pool_meters

__all__ = ["LogObserver", "RunAgent", "ScalarSink"]

_RECORDED_BY_THE_CORE = (
    "rewards",
    "shaped_rewards",
    "episode_lengths",
    "info/epochs",
    "performance/",
)
_OURS = "rltrain"
"""The key of a checkpoint under which that stands which rl_games forgets."""


class RunAgent(BaseAlgorithm):
    """Mixed in before an agent of rl_games, which it precedes in the order of methods.

    An agent calls `take_over` when it is made, and `begin_epoch` before each epoch. rl_games saves
    in the middle of its loop: what it saves waits until the epoch's figures are recorded.
    """

    CHECKPOINT_KEYS: ClassVar[frozenset[str]]
    """What its checkpoints have and those of rl_games' other algorithms lack."""
    METERS: ClassVar[Mapping[str, int]]
    """Its episode meters: axes of one episode's figure."""
    RANK_STATE: ClassVar[tuple[str, ...]]
    """Its tensors with a row for each environment that outlive an epoch."""

    session: Session
    epoch_num: int
    max_epochs: int
    config: dict[str, Any]
    algo_observer: Any
    writer: Any
    last_mean_rewards: Any

    def take_over(self) -> None:
        """Put the run's own in the place of what rl_games has made."""
        self._begun = False
        self._best: Any = None
        self._to_save: list[str] = []
        self.writer.close()
        self.writer = self.algo_observer.sink = ScalarSink()
        if self.session.group.world_size > 1:
            for name, axes in self.METERS.items():
                meter = getattr(self, name)
                # As rl_games' own are after their first episode.
                shape = (1,) * (axes - 1) + tuple(meter.mean.shape)
                setattr(self, name, PooledMeter(meter, shape))

    def run(self, train: Any) -> None:
        """Let rl_games train until its epochs are done or the session stops it."""
        self.session.seed("learner")
        try:
            train()
        except StopTraining:
            self.save(f"last_{self.config['name']}_ep_{self.epoch_num}")
            self._save_all()
        else:
            self._end_epoch()

    def begin_epoch(self) -> None:
        """End the epoch before; its figures are complete only now.

        Raises:
            StopTraining: it was the last one.
        """
        if self._begun:
            self._end_epoch()
            if self.session.should_stop:
                raise StopTraining
        else:
            self._begun = True
            self.go_on()

    def end_training_phase(self, rollout: float, update: float) -> None:
        """Keep an epoch's times, in s; pool what rl_games decides by."""
        self.writer.add_scalar("time/rollout", rollout)
        self.writer.add_scalar("time/update", update)
        if self.session.group.world_size > 1:
            pool_meters(self.session.group, [getattr(self, name) for name in self.METERS])

    def save(self, fn: str) -> None:
        """Save a checkpoint in rl_games' own format, on rank 0, when the epoch is recorded."""
        self._to_save.append(f"{Path(fn).name}.pth")

    def restore(self, fn: str, set_epoch: bool = True) -> None:
        """Load a checkpoint, to this rank's own device.

        Raises:
            UsageError: it is of another algorithm, or of the end of what is asked for.
        """
        state = load_checkpoint(fn, self.session.world.device)
        lacking = sorted(self.CHECKPOINT_KEYS - state.keys())
        if lacking:
            raise UsageError(
                f"--checkpoint {fn}: it is of another algorithm of rl_games: it lacks "
                f"{', '.join(lacking)}. Train with the algorithm that wrote it (--algorithm, or "
                "params.algo.name in the agent options)."
            )
        self.set_full_state_weights(state, set_epoch)
        if self.max_epochs != -1:
            self.session.iterations_left(self.max_epochs, self.epoch_num)

    def get_full_state_weights(self) -> dict[str, Any]:
        """Return rl_games' checkpoint, with what it forgets beside it."""
        state: dict[str, Any] = super().get_full_state_weights()
        state["last_mean_rewards"] = float(self.last_mean_rewards)
        state[_OURS] = self.common_state()
        return state

    def set_full_state_weights(self, weights: dict[str, Any], set_epoch: bool = True) -> None:
        """Take a checkpoint's state, also one that rl_games has written without this adapter."""
        super().set_full_state_weights(weights, set_epoch=set_epoch)
        self._best = self.last_mean_rewards  # rl_games forgets it again when it begins to train.
        if _OURS in weights:
            self.set_common_state(weights[_OURS])

    def common_state(self) -> dict[str, Any]:
        """Return what is equal on all ranks and not in rl_games' own checkpoint."""
        meters = {name: getattr(self, name) for name in self.METERS}
        return {
            "meters": {
                name: (meter.mean.cpu(), int(meter.current_size)) for name, meter in meters.items()
            }
        }

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Take what `common_state` returned."""
        for name, (mean, size) in state["meters"].items():
            meter = getattr(self, name)
            meter.mean, meter.current_size = mean.to(meter.mean), size

    def rank_state(self) -> dict[str, Any]:
        """Return what this rank alone must go on from, in numpy."""
        return {name: on_host(getattr(self, name)) for name in self.RANK_STATE}

    def set_rank_state(self, state: dict[str, Any]) -> None:
        """Take what `rank_state` returned."""
        for name in self.RANK_STATE:
            getattr(self, name).copy_(torch.from_numpy(state[name]))

    def go_on(self) -> None:
        """Go on from a checkpoint, once rl_games has cleared its tensors."""
        if self._best is not None:
            self.last_mean_rewards = self._best
        # Of the running episodes: with environments that begin anew, these do too.
        if self.session.resuming_exactly:
            self.set_rank_state(self.session.rank_state)

    def _end_epoch(self) -> None:
        last = None if self.max_epochs == -1 else self.max_epochs
        self.session.record(
            Scalars(iteration=self.epoch_num, iterations=last, values=self.writer.take())
        )
        every = self.config.get("save_frequency", 0)
        # rl_games itself saves only once an episode has ended, which may take many epochs.
        if every > 0 and self.epoch_num % every == 0 and not self._to_save:
            self.save(f"{self.config['name']}_ep_{self.epoch_num}")
        self._save_all()

    def _save_all(self) -> None:
        names, self._to_save = self._to_save, []
        for name in names:
            self.session.save_checkpoint(
                name,
                lambda path: save_checkpoint(self.get_full_state_weights(), path),
                self.epoch_num,
                self.rank_state(),
            )


class ScalarSink:
    """Stands where rl_games keeps its tensorboardX writer, and keeps the scalars of an epoch."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def add_scalar(self, tag: str, value: Any, step: Any = None) -> None:
        """Keep a scalar, unless the core records it for every library."""
        if not tag.startswith(_RECORDED_BY_THE_CORE):
            # An array of one, at times.
            self._values[tag] = float(value.item() if hasattr(value, "item") else value)

    def add_mean(self, tag: str, total: float, count: int) -> None:
        """Keep the mean of several figures, which ranks may have different numbers of."""
        self._values[tag] = (total, count)

    def take(self) -> dict[str, Any]:
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
            means = torch.stack([torch.as_tensor(value).float().mean() for value in values])
            self.sink.add_mean(name, sum(means.tolist()), len(values))
        self._logged.clear()

    def after_clear_stats(self) -> None:
        """Called by rl_games; there is nothing to clear."""
