"""rsl_rl's PPO on the ranks of a session."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import PPO
from tensordict import TensorDict

from rltrain.errors import UsageError
from rltrain.types import GradientSync, ProcessGroup
from rltrain_rsl_rl.compat import Compilable, rnd_optimizer
from rltrain_rsl_rl.normalizers import NormalizerPool
from rltrain_rsl_rl.rnd import IntrinsicRewards, predictor_loss
from rltrain_rsl_rl.storage import SharedStorage, standardised
from rltrain_torch.gradients import synchronise
from rltrain_torch.optimizers import watch_optimizer

if TYPE_CHECKING:
    from rltrain.session import Session

__all__ = ["SessionPPO"]

LEAST_RATE, GREATEST_RATE = 1e-5, 1e-2
"""Between which rsl_rl adapts the learning rate."""


class SessionPPO(PPO, Compilable):
    """rsl_rl's PPO, whose gradients, statistics and schedules are those of all ranks."""

    _raw_actor: torch.nn.Module
    _raw_critic: torch.nn.Module
    group: ProcessGroup
    storage: SharedStorage
    rnd: Any
    schedule: str
    learning_rate: float
    normalize_advantage_per_mini_batch: bool
    gradient_sync: GradientSync
    parameters: list[torch.nn.Parameter]
    rnd_sync: GradientSync
    rnd_parameters: list[torch.nn.Parameter]
    padded_losses: list[torch.Tensor]
    """The predictor's in an update, by mini-batch, where trajectories are padded."""
    intrinsic: IntrinsicRewards | None = None
    adapts: bool = False
    """Whether this class adapts the learning rate, rather than rsl_rl."""

    def connect(self, session: Session, compile_mode: str | None) -> None:
        """Give the models rank 0's state and make the gradient syncs. Collective.

        Args:
            session: this rank's side of the run.
            compile_mode: rsl_rl's `torch_compile_mode`.
        """
        self.group = session.group
        self.normalizers = NormalizerPool(session.group)
        self.normalizers.take_over(self._raw_actor)
        self.normalizers.take_over(self._raw_critic)
        self._raw_actor = session.wrap_model(self._raw_actor, "actor")
        self._raw_critic = session.wrap_model(self._raw_critic, "critic")
        self.compile(compile_mode)
        models = chain(self._raw_actor.parameters(), self._raw_critic.parameters())
        # Actor and critic may share encoders: each parameter once.
        self.parameters = [item for item in dict.fromkeys(models) if item.requires_grad]
        self.gradient_sync = session.gradient_sync(self.parameters)
        watch_optimizer(session, self.optimizer)
        if self.rnd:
            self._connect_rnd(session)
        self._share_schedules()

    def _connect_rnd(self, session: Session) -> None:
        self.intrinsic = IntrinsicRewards(self.rnd, session.group)
        self.normalizers.take_over(self.rnd)
        self.rnd = session.wrap_model(self.rnd, "rnd")
        self.rnd_parameters = list(self.rnd.predictor.parameters())
        self.rnd_sync = session.gradient_sync(self.rnd_parameters)
        watch_optimizer(session, rnd_optimizer(self), "rnd optimizer")

    def _share_schedules(self) -> None:
        """Take from rsl_rl what it would decide by one rank's mini-batches, or slowly."""
        self.storage = SharedStorage.around(self.storage, self.group)
        if not self.is_multi_gpu:
            return
        # rsl_rl would average the divergence, let rank 0 decide and broadcast its learning rate.
        # All ranks decide alike when they know the same average: one collective, not two.
        self.adapts = self.schedule == "adaptive" and self.desired_kl is not None
        self.schedule = "fixed"
        self.storage.standardises = self.normalize_advantage_per_mini_batch
        self.normalize_advantage_per_mini_batch = False

    def process_env_step(
        self,
        obs: TensorDict,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, torch.Tensor],
    ) -> None:
        """Record one environment step."""
        super().process_env_step(obs, rewards, dones, extras)
        if self.intrinsic is not None:
            self.intrinsic.step(self.intrinsic_rewards)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns, and advantages that are normalised over all ranks. Collective.

        rsl_rl normalises over one rank's environments, which is not what one rank with the
        environments of all would do.
        """
        if self.intrinsic is not None:
            self.intrinsic.settle(self.storage.rewards, self.storage.dones)
        super().compute_returns(obs)
        if self.is_multi_gpu:
            advantages = self.storage.returns - self.storage.values
            if not self.storage.standardises:
                advantages = standardised(self.group, advantages)
            self.storage.advantages = advantages

    def update(self) -> dict[str, float]:
        """Learn from the rollout, and return mean losses. Collective."""
        self.padded_losses = []
        losses: dict[str, float] = super().update()
        if self.padded_losses:
            losses["rnd"] = float(torch.stack(self.padded_losses).mean())
        self.normalizers.flush()
        return losses

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks; called after each backward pass on several ranks."""
        if self.adapts:
            self._adapt_learning_rate()
        synchronise(self.gradient_sync, self.parameters)
        if self.rnd:
            self._weigh_padding()
            synchronise(self.rnd_sync, self.rnd_parameters)

    def broadcast_parameters(self) -> None:
        """Do nothing: `session.wrap_model` has given every rank rank 0's state."""

    @torch.no_grad()
    def _adapt_learning_rate(self) -> None:
        """Follow rsl_rl's rule with the mean divergence over all ranks' mini-batches."""
        before = self.storage.batch.old_distribution_params
        # Beyond the first rows are mirrored ones, which rsl_rl leaves out.
        now = tuple(each[: len(before[0])] for each in self.actor.output_distribution_params)
        divergence = self.actor.get_kl_divergence(before, now).mean()
        kl = float(self.group.all_reduce(divergence, "mean"))
        if kl > 2.0 * self.desired_kl:
            self.learning_rate = max(LEAST_RATE, self.learning_rate / 1.5)
        elif 0.0 < kl < self.desired_kl / 2.0:
            self.learning_rate = min(GREATEST_RATE, self.learning_rate * 1.5)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.learning_rate

    def _weigh_padding(self) -> None:
        """Weigh the predictor's gradients and loss by the rows that they are means over.

        rsl_rl trains the predictor of a recurrent policy on padded trajectories, padding included:
        there are as many as episodes ended on a rank, and one for each environment.
        """
        masks = self.storage.batch.masks
        if masks is None:
            return
        rows = masks.new_full((), masks.numel(), dtype=torch.float32)
        weight = rows / self.group.all_reduce(rows.clone(), "mean")
        for parameter in self.rnd_parameters:
            if parameter.grad is not None:
                parameter.grad *= weight
        loss = predictor_loss(self.rnd, self.storage.batch.observations)
        self.padded_losses.append(weight * loss)

    def load(
        self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool
    ) -> bool:
        """Load models and optimisers, as rsl_rl does; a distillation's are told by name.

        Raises:
            UsageError: the checkpoint is a distillation's.
        """
        if "student_state_dict" in loaded_dict:
            raise UsageError(
                "holds a student and its teacher, which --algorithm distillation goes on with. "
                "Give a checkpoint of PPO."
            )
        counts = bool(super().load(loaded_dict, load_cfg, strict))
        # Before 5.4.2 rsl_rl loads the optimizer's only, and goes on adapting its first one.
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        return counts

    def figures(self) -> dict[str, float | tuple[float, float]]:
        """Return scalars of the last iteration that rsl_rl's log does not have."""
        return self.intrinsic.figures() if self.intrinsic is not None else {}

    def counters(self) -> dict[str, int]:
        """Return what is equal on all ranks and rsl_rl does not save."""
        return {"rnd_update_counter": self.rnd.update_counter} if self.rnd else {}

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """Go on counting from there."""
        if self.rnd:
            self.rnd.update_counter = counters.get("rnd_update_counter", 0)

    def get_state(self) -> dict[str, Any]:
        """Return what the next iteration on this rank depends on and rsl_rl does not save."""
        return {
            "actor": self.actor.get_hidden_state(),
            "critic": self.critic.get_hidden_state(),
            "intrinsic": self.intrinsic.get_state() if self.intrinsic is not None else None,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.actor.reset(hidden_state=state["actor"])
        self.critic.reset(hidden_state=state["critic"])
        if self.intrinsic is not None and state["intrinsic"] is not None:
            self.intrinsic.set_state(state["intrinsic"])
