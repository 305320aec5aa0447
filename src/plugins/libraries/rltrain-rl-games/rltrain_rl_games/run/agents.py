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
from rltrain_rl_games.run.base import RunAgent, connect_optimizer
from rltrain_rl_games.run.networks import add_groups_normalizer, normalizes_groups
from rltrain_rl_games.run.normalizers import (
    PendingBatches,
    observation_batches,
    pool_pending,
    replace_normalizers,
)
from rltrain_rl_games.run.upstream import PpoFixes, SharedSchedule
from rltrain_torch.gradients import synchronize
from rltrain_torch.moments import standardize
from rltrain_torch.optimizers import watch_optimizer

_COUNTERS = ("lr", "epoch_num", "frame")
"""Those of rl_games' asymmetric critic, the "central value", which has its own optimizer."""


class _PpoAgent(RunAgent, PpoFixes, A2CBase):
    """Comes before rl_games' agent in the bases of a class."""

    CHECKPOINT_KEYS = frozenset({"model", "optimizer"})
    METERS = MappingProxyType({"game_rewards": 2, "game_shaped_rewards": 2, "game_lengths": 1})
    COMMON_STATE = ("entropy_coef",)
    RANK_STATE = ("current_rewards", "current_shaped_rewards", "current_lengths", "dones")

    scheduler: Any
    central_value_net: Any = None

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
        if self.central_value_net is not None:
            self.central_value_net.writter = self.writer  # Spelled so in rl_games.

    def train(self) -> None:
        """Broadcast the models from rank 0, then train."""
        session = self.session
        session.wrap_model(self.model, "model")
        watch_optimizer(session, self.optimizer)
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        # The other schedules ignore the KL divergence.
        pools_kl = self._pools and isinstance(self.scheduler, AdaptiveScheduler)
        self.scheduler = SharedSchedule(self, session.group, pools_kl)
        self._divergence = self.scheduler.divergence
        extras = self._extras()
        scaler = getattr(self, "scaler", None)  # rl_games 2 computes in bfloat16, without one.
        self._sync = session.gradient_sync(
            [*self._parameters, *extras],
            extras=len(extras),
            may_overflow=scaler is not None and scaler.is_enabled(),
        )
        net = self.central_value_net
        if net is not None:
            session.wrap_model(net.model, "central value")
            clips, net.truncate_grads = net.truncate_grads, False
            norm = net.grad_norm if clips else None
            connect_optimizer(session, net.optimizer, "central value optimizer", norm)
        self.run(super().train)

    def update_epoch(self) -> int:
        self.begin_epoch()
        epoch: int = super().update_epoch()
        return epoch

    def train_epoch(self) -> Any:
        """Train one epoch, and count the frames of all ranks."""
        result = super().train_epoch()
        if self._divergence is not None:
            self._divergence.flush()
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
            self._divergence.resolve(averaged)
        super().trancate_gradients_and_step()

    def common_state(self) -> dict[str, Any]:
        state, net = super().common_state(), self.central_value_net
        if net is not None:
            state["central_value"] = {name: getattr(net, name) for name in _COUNTERS}
        return state

    def set_common_state(self, state: dict[str, Any]) -> None:
        super().set_common_state(state)
        for name, value in state.get("central_value", {}).items():
            if self.central_value_net is not None and name in _COUNTERS:
                setattr(self.central_value_net, name, value)

    def rank_state(self) -> dict[str, Any]:
        of_critic = getattr(self.central_value_net, "rnn_states", None)
        return {
            **super().rank_state(),
            "rnn_states": list(self.rnn_states or []),
            "central_value": list(of_critic or []),
        }

    def set_rank_state(self, state: dict[str, Any]) -> None:
        super().set_rank_state(state)
        of_critic = getattr(self.central_value_net, "rnn_states", None)
        for states, name in ((self.rnn_states, "rnn_states"), (of_critic, "central_value")):
            for current, saved in zip(states or [], state[name], strict=True):
                current.copy_(saved)

    def _replace_normalizers(self) -> None:
        """Replace rl_games' normalizers by pooled ones, and its normalization of advantages."""
        replace_normalizers(self.model)
        critic = self.model
        if self.central_value_net is not None:
            critic = self.central_value_net.model
            replace_normalizers(critic)
        if self.normalize_value:
            self.value_mean_std = critic.value_mean_std
        self.normalize_advantage = False

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
        net = self.central_value_net
        if net is not None and net.normalize_input:
            states = torch.split(batch_dict["states"], net.dataset.minibatch_size)
            pending.append(PendingBatches(net.model.running_mean_std, states, net.mini_epoch))
        return pending


class ContinuousAgent(_PpoAgent, A2CAgent):
    """PPO for continuous actions on several ranks."""


class DiscreteAgent(_PpoAgent, DiscreteA2CAgent):
    """PPO for discrete and multi-discrete actions on several ranks."""
