"""What every rl_games agent needs in a run: metrics, checkpoints and an end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from rltrain.errors import StopTraining, explain_mismatch
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_adapters import as_given
from rltrain_rl_games.declare.options import RESTORED
from rltrain_rl_games.run.checkpoints import check_algorithm, save_checkpoint
from rltrain_rl_games.run.metrics import PooledMeter, ScalarSink, pool_meters
from rltrain_rl_games.run.upstream import AgentFixes, without_compiled_names
from rltrain_torch.checkpoints import load
from rltrain_torch.gradients import sync_before_step
from rltrain_torch.optimizers import watch_optimizer

_OUR_KEY = "rltrain"
"""Key of a checkpoint under which the adapter saves what rl_games does not save."""


def connect_optimizer(
    session: Session,
    optimizer: torch.optim.Optimizer,
    role: str,
    max_norm: float | None = None,
) -> None:
    """Watch an optimizer, and average its gradients over ranks before each step. Collective.

    For optimizers for which rl_games has no hook between `backward` and its clipping. That must be
    switched off, as it would come too early: the averages are clipped to `max_norm`.
    """
    watch_optimizer(session, optimizer, role)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sync_before_step(optimizer, session.gradient_sync(parameters), parameters)

    def clip(*_: Any) -> None:
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    optimizer.register_step_pre_hook(clip)


class RunAgent(AgentFixes):
    """Base of all agents; comes before rl_games' agent in the bases of a class.

    An agent calls `connect` after rl_games' constructor, and `begin_epoch` before each epoch.
    rl_games saves in the middle of its loop; a checkpoint is written once the epoch's metrics have
    been recorded.
    """

    CHECKPOINT_KEYS: ClassVar[frozenset[str]]
    """Keys of its checkpoints that those of rl_games' other algorithms do not have."""
    METERS: ClassVar[Mapping[str, int]]
    """By name of an episode meter, the number of axes of one episode's value."""
    COMMON_STATE: ClassVar[tuple[str, ...]]
    """Names of what is equal on all ranks and missing in rl_games' checkpoint."""
    RANK_STATE: ClassVar[tuple[str, ...]]
    """Names of tensors with a row per environment that outlive an epoch."""

    session: Session
    writer: Any

    def connect(self) -> None:
        """Replace rl_games' writer, and on several ranks its meters."""
        self._has_begun = False
        self._checkpoints_to_save: list[str] = []
        self.writer.close()
        self.writer = self.algo_observer.sink = ScalarSink()
        if self.session.group.world_size > 1:
            for name, axes in self.METERS.items():
                meter = getattr(self, name)
                # The shape that rl_games' own meters have after their first episode.
                shape = (1,) * (axes - 1) + tuple(meter.mean.shape)
                setattr(self, name, PooledMeter(meter, shape))

    def run(self, train: Callable[[], Any]) -> None:
        """Run rl_games' training loop until its epochs are done or the session stops it."""
        self.session.seed("learner")
        try:
            train()
        except StopTraining:
            self.save(f"last_{self.config['name']}_ep_{self.epoch_num}")
            self._write_checkpoints()
        else:
            self._end_epoch()
            self.algo_observer.limit = self._limit()

    def _limit(self) -> str:
        """Return the key of the option that has ended rl_games' loop; "" if the epochs are done."""
        if self.max_epochs != -1 and self.epoch_num >= self.max_epochs:
            return ""
        by_frames = self.max_frames != -1 and self.frame >= self.max_frames
        return f"params.config.{'max_frames' if by_frames else 'score_to_win'}"

    def begin_epoch(self) -> None:
        """Finish the epoch before, whose metrics are complete only now."""
        if self._has_begun:
            self._end_epoch()
            if self.session.should_stop:
                raise StopTraining
        else:
            self._has_begun = True
            self.resume()

    def end_training_phase(self, rollout: float, update: float) -> None:
        """Record an epoch's times, in s, and pool the meters that rl_games bases decisions on."""
        self.writer.add_scalar("time/rollout", rollout)
        self.writer.add_scalar("time/update", update)
        if self.session.group.world_size > 1:
            pool_meters(self.session.group, [getattr(self, name) for name in self.METERS])

    def save(self, fn: str) -> None:
        """Schedule a checkpoint; it is written when the epoch has been recorded."""
        self._checkpoints_to_save.append(f"{Path(fn).name}.pth")

    def restore(self, fn: str, set_epoch: bool = True) -> None:
        """Load a checkpoint to this rank's device."""
        world, config = self.session.world, self.session.config
        with explain_mismatch(Path(fn)):
            # rl_games' own loader puts the copies of all ranks on the device that wrote the file.
            state = without_compiled_names(load(fn, world.device, config.trust))
            check_algorithm(state, self.CHECKPOINT_KEYS)
            with as_given(self.session, self, RESTORED):
                self.set_full_state_weights(state, set_epoch)
        if self.max_epochs != -1:
            self.session.iterations_left(self.max_epochs, self.epoch_num)

    def get_full_state_weights(self) -> dict[str, Any]:
        """Return rl_games' checkpoint, with what rl_games leaves out."""
        return {**super().get_full_state_weights(), _OUR_KEY: self.common_state()}

    def set_full_state_weights(self, weights: dict[str, Any], set_epoch: bool = True) -> None:
        """Load a checkpoint's state; plain rl_games may have written it."""
        super().set_full_state_weights(weights, set_epoch=set_epoch)
        if _OUR_KEY in weights:
            self.set_common_state(weights[_OUR_KEY])

    def common_state(self) -> dict[str, Any]:
        """Return the state that is equal on all ranks and missing in rl_games' checkpoint."""
        meters = {name: getattr(self, name) for name in self.METERS}
        common = {name: getattr(self, name) for name in self.COMMON_STATE}
        return {
            "meters": {
                name: (meter.mean.cpu(), int(meter.current_size)) for name, meter in meters.items()
            },
            **{name: x.detach().cpu() if torch.is_tensor(x) else x for name, x in common.items()},
        }

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Restore what `common_state` returned."""
        for name, (mean, size) in state["meters"].items():
            meter = getattr(self, name)
            meter.mean, meter.current_size = mean.to(meter.mean), size
        for name in self.COMMON_STATE:
            current = getattr(self, name)
            if torch.is_tensor(current):
                current.data.copy_(state[name])
            else:
                setattr(self, name, state[name])

    def rank_state(self) -> dict[str, Any]:
        """Return the state of this rank alone that an exact resume needs."""
        return {name: getattr(self, name) for name in self.RANK_STATE}

    def set_rank_state(self, state: dict[str, Any]) -> None:
        """Restore what `rank_state` returned."""
        for name in self.RANK_STATE:
            getattr(self, name).copy_(state[name])

    def resume(self) -> None:
        """Restore what rl_games clears when training starts."""
        self.restore_best_reward()
        # The state belongs to running episodes; these continue only if the environments do.
        if self.session.resuming_exactly:
            with explain_mismatch(self.session.checkpoint):
                self.set_rank_state(self.session.rank_state)

    def _end_epoch(self) -> None:
        last = None if self.max_epochs == -1 else self.max_epochs
        self.session.record(
            Scalars(iteration=self.epoch_num, iterations=last, values=self.writer.pop())
        )
        every = self.config.get("save_frequency", 0)
        # rl_games saves only after the first finished episode, which may take many epochs.
        due = self.session.should_save or (every > 0 and self.epoch_num % every == 0)
        if due and not self._checkpoints_to_save:
            self.save(f"{self.config['name']}_ep_{self.epoch_num}")
        self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        names, self._checkpoints_to_save = self._checkpoints_to_save, []
        for name in names:
            self.session.save_checkpoint(
                name,
                lambda path: save_checkpoint(self.get_full_state_weights(), path),
                self.epoch_num,
                self.rank_state(),
            )
