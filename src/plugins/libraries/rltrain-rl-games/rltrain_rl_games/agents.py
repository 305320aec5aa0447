"""rl_games' PPO agents on several ranks.

Every agent runs with `multi_gpu` off, as if it were alone: rl_games creates no process group, does
not require CUDA, and makes no decision on rank 0 only. The adapter makes the ranks learn as one:
it averages gradients before they are clipped, normalizes by the moments of all ranks' data, pools
the episode meters, and passes the mean KL divergence to the learning-rate schedule, so that all
ranks make the same decisions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.a2c_common import A2CBase
from rl_games.common.schedulers import AdaptiveScheduler

from rltrain.session import Session
from rltrain_rl_games.central_value import CentralValue
from rltrain_rl_games.network import add_groups_normalizer, normalizes_groups
from rltrain_rl_games.normalizer import (
    PendingBatches,
    observation_batches,
    pool_pending,
    replace_normalizers,
)
from rltrain_rl_games.run import RunAgent
from rltrain_rl_games.scheduler import PooledKlScheduler
from rltrain_rl_games.upstream import (
    FrameCountScheduler,
    PpoFixes,
    set_missing_defaults,
)
from rltrain_torch.gradients import synchronize
from rltrain_torch.late_mean import LateMean
from rltrain_torch.moments import standardize
from rltrain_torch.optimizers import watch_optimizer


class _PpoAgent(RunAgent, PpoFixes, A2CBase):
    """Comes before rl_games' agent in the bases of a class."""

    CHECKPOINT_KEYS = frozenset({"model", "optimizer"})
    METERS = MappingProxyType({"game_rewards": 2, "game_shaped_rewards": 2, "game_lengths": 1})
    RANK_STATE = ("current_rewards", "current_shaped_rewards", "current_lengths", "dones")

    scheduler: Any
    _divergence: LateMean | None = None
    """The KL divergence for the learning rate, unless rl_games' own schedule takes it."""

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        self.session = session
        groups = normalizes_groups(params)
        if groups:
            params = {**params, "config": {**params["config"], "normalize_input": False}}
        super().__init__(base_name, params)
        if groups:
            self.normalize_input = True
            add_groups_normalizer(self.model, self.obs_shape)
        self.connect()
        self._normalizes_advantages = self.normalize_advantage
        # rl_games' own normalizers keep a number that is not finite.
        self._pools = session.group.world_size > 1 or session.config.on_nonfinite == "skip"
        if self._pools:
            self._replace_normalizers()
        self._central = None
        if self.has_central_value:
            self._central = CentralValue(self.central_value_net, self.writer)

    def train(self) -> None:
        """Broadcast the models from rank 0, then train."""
        session = self.session
        session.wrap_model(self.model, "model")
        watch_optimizer(session, self.optimizer)
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._share_schedule()
        extras = self._extras()
        scaler = getattr(self, "scaler", None)  # rl_games 2 computes in bfloat16, without one.
        self._sync = session.gradient_sync(
            [*self._parameters, *extras],
            extras=len(extras),
            may_overflow=scaler is not None and scaler.is_enabled(),
        )
        if self._central is not None:
            self._central.connect(session)
        self.run(super().train)

    def update_epoch(self) -> int:
        """Begin an epoch."""
        self.begin_epoch()
        epoch: int = super().update_epoch()
        return epoch

    def train_epoch(self) -> Any:
        """Train one epoch, and count the frames of all ranks."""
        result = super().train_epoch()
        if self._divergence is not None:
            self._divergence.settle()
        self.end_training_phase(rollout=result[1], update=result[2])
        self.curr_frames *= self.session.group.world_size
        return result

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        """Pool the moments of everything that this update normalizes; normalize the advantages.

        rl_games does not shuffle, so all mini-batches are known here.
        """
        if not self._pools:
            super().prepare_dataset(batch_dict)
            return
        returns, values = batch_dict["returns"], batch_dict["values"]
        others = [(returns - values).sum(1)] if self._normalizes_advantages else []
        moments = pool_pending(self.session.group, self._pending_batches(batch_dict), others)
        super().prepare_dataset(batch_dict)
        if moments:
            advantages = self.dataset.values_dict["advantages"]
            # In place: the central value's dataset holds the same tensor.
            advantages.copy_(standardize(advantages, moments[0]))

    def trancate_gradients_and_step(self) -> None:
        """Average the gradients over ranks; then let rl_games clip them and step."""
        averaged = synchronize(self._sync, self._parameters, self._extras())
        if self._divergence is not None:
            self._divergence.take(averaged)
        super().trancate_gradients_and_step()

    def common_state(self) -> dict[str, Any]:
        """Return the state that is equal on all ranks and missing in rl_games' checkpoint."""
        state = {**super().common_state(), "entropy_coef": self.entropy_coef}
        if self._central is not None:
            state["central_value"] = self._central.common_state()
        return state

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Restore what `common_state` returned."""
        super().set_common_state(state)
        self.entropy_coef = state["entropy_coef"]
        if self._central is not None and "central_value" in state:
            self._central.set_common_state(state["central_value"])

    def rank_state(self) -> dict[str, Any]:
        """Return the state of this rank alone that an exact resume needs."""
        state = super().rank_state()
        state["rnn_states"] = list(self.rnn_states) if self.is_rnn else []
        state["central_value"] = self._central.rank_state() if self._central is not None else []
        return state

    def set_rank_state(self, state: dict[str, Any]) -> None:
        """Restore what `rank_state` returned."""
        super().set_rank_state(state)
        for current, saved in zip(self.rnn_states or [], state["rnn_states"], strict=True):
            current.copy_(saved)
        if self._central is not None:
            self._central.set_rank_state(state["central_value"])

    def _replace_normalizers(self) -> None:
        """Replace rl_games' normalizers by pooled ones, and its normalization of advantages."""
        replace_normalizers(self.model)
        critic = self.model
        if self.has_central_value:
            critic = self.central_value_net.model
            replace_normalizers(critic)
        if self.normalize_value:
            self.value_mean_std = critic.value_mean_std
        self.normalize_advantage = False

    def _share_schedule(self) -> None:
        """Adapt the learning rate equally on all ranks."""
        schedule = FrameCountScheduler(self.scheduler, self)
        group = self.session.group
        # The other schedules ignore the KL divergence.
        if isinstance(self.scheduler, AdaptiveScheduler) and self._pools:
            schedule = PooledKlScheduler(schedule, self, group)
            self._divergence = schedule.divergence
        self.scheduler = schedule

    def _extras(self) -> list[torch.Tensor]:
        """Return what is averaged together with the gradients."""
        return [] if self._divergence is None else [self._divergence.number]

    def _pending_batches(self, batch_dict: dict[str, Any]) -> list[PendingBatches]:
        """Return the batches that each normalizer will get in this update."""
        pending = []
        if self.normalize_value:
            batches = [batch_dict["values"], batch_dict["returns"]]
            pending.append(PendingBatches(self.value_mean_std, batches))
        if self.normalize_input:
            pending += observation_batches(
                self.model.running_mean_std,
                batch_dict["obses"],
                rows=self.dataset.minibatch_size,
                repeats=self.mini_epochs_num,
            )
        if self._central is not None:
            pending += self._central.pending_batches(batch_dict["states"])
        return pending


class ContinuousAgent(_PpoAgent, A2CAgent):
    """PPO for continuous actions on several ranks."""

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        config = set_missing_defaults(params["config"])
        super().__init__(session, base_name, {**params, "config": config})


class DiscreteAgent(_PpoAgent, DiscreteA2CAgent):
    """PPO for discrete and multi-discrete actions on several ranks."""
