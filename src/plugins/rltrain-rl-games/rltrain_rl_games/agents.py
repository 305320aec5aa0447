"""rl_games' PPO agents on several ranks.

Each rank's agent believes that it is alone (`multi_gpu` is off), so that rl_games never makes a
process group, never asks for CUDA, and takes no decision on rank 0 only. What must be common is
common by other means: gradients are averaged before they are clipped, everything that an update
normalises is normalised by the moments of all ranks' data, episode meters are pooled, and
schedulers see the mean KL, so that every rank decides alike.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.a2c_common import A2CBase

from rltrain.session import Session
from rltrain_rl_games.central_value import CentralValue
from rltrain_rl_games.checkpoints import on_host
from rltrain_rl_games.normaliser import (
    Expected,
    GroupsMeanStd,
    expect,
    expected_observations,
    pool_normalisers,
)
from rltrain_rl_games.refusals import SEVERAL_GROUPS
from rltrain_rl_games.run import RunAgent
from rltrain_rl_games.scheduler import CommonScheduler
from rltrain_torch.gradients import synchronise
from rltrain_torch.moments import Moments
from rltrain_torch.optimizers import watch_optimizer

__all__ = ["ContinuousAgent", "DiscreteAgent"]


class _PpoAgent(RunAgent, A2CBase):
    """Mixed in before an agent of rl_games, which it precedes in the order of methods."""

    CHECKPOINT_KEYS = frozenset({"model", "optimizer"})
    METERS = MappingProxyType({"game_rewards": 2, "game_shaped_rewards": 2, "game_lengths": 1})
    RANK_STATE = ("current_rewards", "current_shaped_rewards", "current_lengths", "dones")

    scheduler: Any

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        self.session = session
        config = params["config"]
        of_groups = config["normalize_input"] and params["network"]["name"] == SEVERAL_GROUPS
        if of_groups:
            params = {**params, "config": {**config, "normalize_input": False}}
        super().__init__(base_name, params)
        if of_groups:
            self._normalise_groups()
        self.take_over()
        self._normalises_advantages = self.normalize_advantage
        if session.group.world_size > 1:
            self._pool_normalisers()
        self._central = None
        if self.has_central_value:
            self._central = CentralValue(self.central_value_net, self.writer)

    def train(self) -> None:
        """Make the models common, then train."""
        session = self.session
        session.wrap_model(self.model, "model")
        watch_optimizer(session, self.optimizer)
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]
        self._sync = session.gradient_sync(self._parameters)
        if self._central is not None:
            self._central.join(session)
        self.scheduler = CommonScheduler(self.scheduler, self)
        self.run(super().train)

    def update_epoch(self) -> int:
        """Begin an epoch."""
        self.begin_epoch()
        epoch: int = super().update_epoch()
        return epoch

    def train_epoch(self) -> Any:
        """Train one epoch, and count all ranks' frames."""
        result = super().train_epoch()
        self.end_training_phase(rollout=result[1], update=result[2])
        self.curr_frames *= self.session.group.world_size
        return result

    def prepare_dataset(self, batch_dict: dict[str, Any]) -> None:
        """Pool the moments of all that this update normalises; normalise the advantages.

        rl_games does not shuffle, so that all mini-batches are known here.
        """
        if self.session.group.world_size == 1:
            super().prepare_dataset(batch_dict)
            return
        returns, values = batch_dict["returns"], batch_dict["values"]
        others = [(returns - values).sum(1)] if self._normalises_advantages else []
        moments = expect(self.session.group, self._expected(batch_dict), others)
        super().prepare_dataset(batch_dict)
        if moments:
            self._normalise_advantages(*moments)

    def trancate_gradients_and_step(self) -> None:
        """Average the gradients over ranks, then clip and step as alone."""
        synchronise(self._sync, self._parameters)
        super().trancate_gradients_and_step()

    def set_full_state_weights(self, weights: dict[str, Any], set_epoch: bool = True) -> None:
        """Take a checkpoint's state; the learning rate comes back too, which rl_games forgets."""
        super().set_full_state_weights(weights, set_epoch=set_epoch)
        self.last_lr = self.optimizer.param_groups[0]["lr"]

    def common_state(self) -> dict[str, Any]:
        """Return what is equal on all ranks and not in rl_games' own checkpoint."""
        state = {**super().common_state(), "entropy_coef": self.entropy_coef}
        if self._central is not None:
            state["central_value"] = self._central.common_state()
        return state

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Take what `common_state` returned."""
        super().set_common_state(state)
        self.entropy_coef = state["entropy_coef"]
        if self._central is not None and "central_value" in state:
            self._central.set_common_state(state["central_value"])

    def rank_state(self) -> dict[str, Any]:
        """Return what this rank alone must go on from."""
        state = super().rank_state()
        state["rnn_states"] = [on_host(x) for x in self.rnn_states] if self.is_rnn else []
        state["central_value"] = self._central.rank_state() if self._central is not None else []
        return state

    def set_rank_state(self, state: dict[str, Any]) -> None:
        """Take what `rank_state` returned."""
        super().set_rank_state(state)
        for mine, saved in zip(self.rnn_states or [], state["rnn_states"], strict=True):
            mine.copy_(torch.from_numpy(saved))
        if self._central is not None:
            self._central.set_rank_state(state["central_value"])

    def _normalise_groups(self) -> None:
        """Give the model the normaliser of groups that rl_games cannot make."""
        self.normalize_input = self.model.normalize_input = True
        self.model.running_mean_std = GroupsMeanStd(self.obs_shape).to(self.ppo_device)

    def _pool_normalisers(self) -> None:
        """Put pooled normalisers in rl_games' places, and take over the advantages' too."""
        pool_normalisers(self.model)
        critic = self.model
        if self.has_central_value:
            critic = self.central_value_net.model
            pool_normalisers(critic)
        if self.normalize_value:
            self.value_mean_std = critic.value_mean_std
        self.normalize_advantage = False

    def _expected(self, batch_dict: dict[str, Any]) -> list[Expected]:
        """Return what each normaliser will be given in the update that begins."""
        expected = []
        if self.normalize_value:
            batches = [batch_dict["values"], batch_dict["returns"]]
            expected.append(Expected(self.value_mean_std, batches))
        if self.normalize_input:
            expected += expected_observations(
                self.model.running_mean_std,
                batch_dict["obses"],
                rows=self.dataset.minibatch_size,
                rounds=self.mini_epochs_num,
            )
        if self._central is not None:
            expected += self._central.expected(batch_dict["states"])
        return expected

    def _normalise_advantages(self, moments: Moments) -> None:
        """Normalise as rl_games does, by Bessel's estimate over all ranks' data."""
        deviation = (moments.variance * moments.count / (moments.count - 1)).sqrt().float()
        advantages = self.dataset.values_dict["advantages"]
        # In place: the central value's dataset holds the same tensor.
        advantages.sub_(moments.mean.float()).div_(deviation + 1e-8)


class ContinuousAgent(_PpoAgent, A2CAgent):
    """PPO for continuous actions on several ranks."""

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        config = params["config"]
        # rl_games' own default is None, with which it fails.
        coefficient = config.get("bounds_loss_coef") or 0.0
        config = {**config, "bounds_loss_coef": coefficient}
        super().__init__(session, base_name, {**params, "config": config})


class DiscreteAgent(_PpoAgent, DiscreteA2CAgent):
    """PPO for discrete and multi-discrete actions on several ranks."""
