"""rsl_rl's PPO and distillation on the ranks of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import PPO, Distillation
from tensordict import TensorDict

from rltrain.types import GradientSync, ProcessGroup
from rltrain_rsl_rl.run.normalizers import NormalizerPool
from rltrain_rsl_rl.run.rollouts import IntrinsicRewards, SharedStorage, standardize_over_ranks
from rltrain_rsl_rl.run.upstream import (
    RAW,
    CompileFallback,
    predictor_loss,
    restore_learning_rate,
    rnd_optimizer,
)
from rltrain_torch.gradients import sync_before_step, synchronize
from rltrain_torch.optimizers import watch_optimizer

if TYPE_CHECKING:
    from rltrain.session import Session

_MIN_LEARNING_RATE, _MAX_LEARNING_RATE = 1e-5, 1e-2
"""Bounds of rsl_rl's adaptive learning rate."""


class _SessionAlgorithm:
    """Comes before rsl_rl's algorithm in the bases of a class."""

    MODELS: tuple[str, ...]
    TRAINED: tuple[str, ...]
    """Those of the models that the optimizer steps."""

    normalizers: NormalizerPool
    gradient_sync: GradientSync
    parameters: list[torch.nn.Parameter]

    def wrap_models(self, session: Session) -> None:
        """Pool the models' normalizers, and broadcast the models from rank 0. Collective."""
        self.normalizers = NormalizerPool(session.group)
        for name in self.MODELS:
            model = getattr(self, RAW + name)
            self.normalizers.replace_in(model)
            setattr(self, RAW + name, session.wrap_model(model, name))
        models = [x for name in self.TRAINED for x in getattr(self, RAW + name).parameters()]
        # Each parameter once: actor and critic may share encoders.
        self.parameters = [item for item in dict.fromkeys(models) if item.requires_grad]

    def broadcast_parameters(self) -> None:
        """Do nothing: `session.wrap_model` has already broadcast the models."""

    def get_state(self) -> dict[str, Any]:
        """Return the state of this rank that an exact resume needs and rsl_rl does not save."""
        return {name: getattr(self, name).get_hidden_state() for name in self.MODELS}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        for name in self.MODELS:
            getattr(self, name).reset(hidden_state=state[name])


class SessionPPO(_SessionAlgorithm, PPO, CompileFallback):
    """rsl_rl's PPO with gradients, statistics and schedules of all ranks."""

    MODELS = TRAINED = ("actor", "critic")

    group: ProcessGroup
    storage: SharedStorage
    rnd: Any
    schedule: str
    learning_rate: float
    normalize_advantage_per_mini_batch: bool
    rnd_sync: GradientSync
    rnd_parameters: list[torch.nn.Parameter]
    padded_losses: list[torch.Tensor]
    """The predictor's losses in an update, one per mini-batch with padded trajectories."""
    intrinsic: IntrinsicRewards | None = None
    adapts: bool = False
    """Whether this class adapts the learning rate instead of rsl_rl."""

    def connect(self, session: Session, compile_mode: str | None) -> None:
        """Broadcast the models from rank 0 and create the gradient syncs. Collective."""
        self.group = session.group
        self.wrap_models(session)
        self.compile(compile_mode)
        self._share_schedules(skips=session.config.on_nonfinite == "skip")
        number = torch.zeros((), device=session.world.device)
        divergence = [number] if self.adapts else []
        self.gradient_sync = session.gradient_sync(
            [*self.parameters, *divergence], extras=len(divergence)
        )
        if not self.is_multi_gpu:  # Then rsl_rl does not call `reduce_parameters`.
            self.optimizer.register_step_pre_hook(lambda *_: self._average_policy())
        watch_optimizer(session, self.optimizer)
        if self.rnd:
            self._connect_rnd(session, number)

    def _connect_rnd(self, session: Session, number: torch.Tensor) -> None:
        self.intrinsic = IntrinsicRewards(self.rnd, session.group)
        self.normalizers.replace_in(self.rnd)
        self.rnd = session.wrap_model(self.rnd, "rnd")
        self.rnd_parameters = list(self.rnd.predictor.parameters())
        padded = [number] if self.actor.is_recurrent or self.critic.is_recurrent else []
        self.rnd_sync = session.gradient_sync([*self.rnd_parameters, *padded], extras=len(padded))
        if not self.is_multi_gpu:
            sync_before_step(rnd_optimizer(self), self.rnd_sync, self.rnd_parameters, padded)
        watch_optimizer(session, rnd_optimizer(self), "rnd optimizer")

    def _share_schedules(self, skips: bool) -> None:
        """Replace what rsl_rl computes from one rank's mini-batches, or inefficiently.

        If updates may be left out (`skips`), those adapt no learning rate.
        """
        self.storage = SharedStorage.from_stock(self.storage, self.group)
        if self.is_multi_gpu or skips:
            # rsl_rl averages the KL divergence, lets rank 0 decide, and broadcasts the learning
            # rate. Only the step uses it: the divergence is averaged together with the gradients,
            # and all ranks make the same decision.
            self.adapts = self.schedule == "adaptive" and self.desired_kl is not None
            self.schedule = "fixed"
        if self.is_multi_gpu:
            self.storage.standardizes = self.normalize_advantage_per_mini_batch
            self.normalize_advantage_per_mini_batch = False

    def process_env_step(
        self,
        obs: TensorDict,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict[str, torch.Tensor],
    ) -> None:
        """Store one environment step."""
        super().process_env_step(obs, rewards, dones, extras)
        if self.intrinsic is not None:
            self.intrinsic.step(self.intrinsic_rewards)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns and advantages, standardized over all ranks. Collective.

        rsl_rl standardizes over one rank's environments; one rank with the environments of all
        ranks would not get the same advantages.
        """
        if self.intrinsic is not None:
            self.intrinsic.finish_rollout(self.storage.rewards, self.storage.dones)
        super().compute_returns(obs)
        if self.is_multi_gpu:
            advantages = self.storage.returns - self.storage.values
            if not self.storage.standardizes:
                advantages = standardize_over_ranks(self.group, advantages)
            self.storage.advantages = advantages

    def update(self) -> dict[str, float]:
        """Learn from the rollout and return the mean losses. Collective."""
        self.padded_losses = []
        losses: dict[str, float] = super().update()
        if self.padded_losses:
            losses["rnd"] = float(torch.stack(self.padded_losses).mean())
        self.normalizers.pool()
        return losses

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks. rsl_rl calls it after each backward pass."""
        self._average_policy()
        if self.rnd:
            self._average_predictor()

    def _average_policy(self) -> None:
        divergence = [self._divergence()] if self.adapts else []
        averaged = synchronize(self.gradient_sync, self.parameters, divergence)
        if averaged:
            self._adapt_learning_rate(float(averaged[0]))

    @torch.no_grad()
    def _divergence(self) -> torch.Tensor:
        """Return the mean KL divergence of this rank's mini-batch."""
        old = self.storage.batch.old_distribution_params
        # Symmetry appends mirrored rows, which rsl_rl ignores here.
        new = tuple(each[: len(old[0])] for each in self.actor.output_distribution_params)
        divergence: torch.Tensor = self.actor.get_kl_divergence(old, new).mean()
        return divergence

    def _adapt_learning_rate(self, kl: float) -> None:
        """Apply rsl_rl's rule to the mean KL divergence over all ranks' mini-batches."""
        if kl > 2.0 * self.desired_kl:
            self.learning_rate = max(_MIN_LEARNING_RATE, self.learning_rate / 1.5)
        elif 0.0 < kl < self.desired_kl / 2.0:
            self.learning_rate = min(_MAX_LEARNING_RATE, self.learning_rate * 1.5)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.learning_rate

    @torch.no_grad()
    def _average_predictor(self) -> None:
        """Average the predictor's gradients and loss, weighted by each rank's number of rows.

        rsl_rl trains the predictor of a recurrent policy on padded trajectories, including the
        padding. Their number differs between ranks: it is the number of environments plus that of
        the episodes that ended.
        """
        masks = self.storage.batch.masks
        if masks is None:
            synchronize(self.rnd_sync, self.rnd_parameters)
            return
        # In parts of the rollout, so that gradients keep about their size.
        rollout = self.storage.num_envs * self.storage.num_transitions_per_env
        rows = masks.new_full((), masks.numel() / rollout, dtype=torch.float32)
        self._scale_predictor(rows)
        averaged = synchronize(self.rnd_sync, self.rnd_parameters, [rows])
        if averaged is None:
            return
        self._scale_predictor(1.0 / averaged[0])
        loss = predictor_loss(self.rnd, self.storage.batch.observations)
        self.padded_losses.append(rows / averaged[0] * loss)

    def _scale_predictor(self, factor: torch.Tensor) -> None:
        for parameter in self.rnd_parameters:
            if parameter.grad is not None:
                parameter.grad *= factor

    def load(
        self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool
    ) -> bool:
        """Load models and optimizers, as rsl_rl does."""
        loads_iteration = bool(super().load(loaded_dict, load_cfg, strict))
        restore_learning_rate(self)
        return loads_iteration

    def get_state(self) -> dict[str, Any]:
        """Return the models' hidden states, and the state of intrinsic rewards."""
        intrinsic = self.intrinsic.get_state() if self.intrinsic is not None else None
        return {**super().get_state(), "intrinsic": intrinsic}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        super().set_state(state)
        if self.intrinsic is not None and state["intrinsic"] is not None:
            self.intrinsic.set_state(state["intrinsic"])


class SessionDistillation(_SessionAlgorithm, Distillation, CompileFallback):
    """rsl_rl's distillation of a teacher into a student, with gradients of all ranks.

    Every mini-batch is one step of a rank's environments, so the mean over ranks is the mean over
    all rows.
    """

    MODELS = ("student", "teacher")
    TRAINED = ("student",)

    def connect(self, session: Session, compile_mode: str | None) -> None:
        """Broadcast the models from rank 0 and create the gradient sync. Collective."""
        self.wrap_models(session)
        self.compile(compile_mode)
        self.gradient_sync = session.gradient_sync(self.parameters)
        if not self.is_multi_gpu:
            sync_before_step(self.optimizer, self.gradient_sync, self.parameters)
        watch_optimizer(session, self.optimizer)

    def update(self) -> dict[str, float]:
        """Learn from the rollout and return the mean losses. Collective."""
        losses: dict[str, float] = super().update()
        self.normalizers.pool()
        return losses

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks. rsl_rl calls it after each backward pass."""
        synchronize(self.gradient_sync, self.parameters)

    def get_state(self) -> dict[str, Any]:
        """Return the models' hidden states, and those at the beginning of the last rollout."""
        return {**super().get_state(), "last": self.last_hidden_states}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        super().set_state(state)
        self.last_hidden_states = state["last"]
