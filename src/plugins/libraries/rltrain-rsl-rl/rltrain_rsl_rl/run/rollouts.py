"""Rollouts on several ranks: their storage, advantages and intrinsic rewards as of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization
from rsl_rl.storage import RolloutStorage

from rltrain.types import ProcessGroup
from rltrain_rsl_rl.run.normalizers import PooledNormalization
from rltrain_torch.moments import pool_moments, standardize


class SharedStorage(RolloutStorage):
    """A rollout storage that remembers its current mini-batch and knows the process group."""

    group: ProcessGroup
    standardizes: bool
    """Whether the advantages of each mini-batch are standardized over all ranks."""
    batch: RolloutStorage.Batch

    @classmethod
    def from_stock(cls, stock: RolloutStorage, group: ProcessGroup) -> SharedStorage:
        """Return a storage that uses the buffers of rsl_rl's own, which may be very large."""
        shared = cls.__new__(cls)
        shared.__dict__.update(vars(stock))
        shared.group, shared.standardizes = group, False
        return shared

    def mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield shuffled mini-batches."""
        return self._track(super().mini_batch_generator(num_mini_batches, num_epochs))

    def recurrent_mini_batch_generator(
        self, num_mini_batches: int, num_epochs: int = 8
    ) -> Iterator[RolloutStorage.Batch]:
        """Yield mini-batches of whole trajectories."""
        return self._track(super().recurrent_mini_batch_generator(num_mini_batches, num_epochs))

    def _track(self, batches: Iterable[RolloutStorage.Batch]) -> Iterator[RolloutStorage.Batch]:
        for batch in batches:
            if self.standardizes:
                batch.advantages = standardize_over_ranks(self.group, batch.advantages)
            self.batch = batch
            yield batch


@torch.no_grad()
def standardize_over_ranks(group: ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """Return `x` standardized by mean and standard deviation over all ranks. Collective."""
    [moments] = pool_moments(group, [(x.reshape(-1), None)])
    return standardize(x, moments)


class RolloutNormalization(EmpiricalDiscountedVariationNormalization):
    """rsl_rl's normalizer of intrinsic rewards, which normalizes a whole rollout at once.

    rsl_rl divides each step's rewards by the standard deviation that its normalizer has after that
    step, and pools the statistics with three collectives in every step. The rewards are not read
    before the rollout is over. So they are collected, the moments of all steps are pooled in one
    collective, and then the normalizer is updated step by step. Its state has rsl_rl's names.
    """

    def __init__(self, stock: EmpiricalDiscountedVariationNormalization) -> None:
        """Copy statistics and settings of rsl_rl's own normalizer."""
        mean = stock.emp_norm._mean
        super().__init__(list(mean.shape[1:]), gamma=stock.disc_avg.gamma)
        self.emp_norm = PooledNormalization.from_stock(stock.emp_norm)
        self.train(stock.training)
        self._pending: list[torch.Tensor] = []

    def forward(self, rew: torch.Tensor) -> torch.Tensor:
        """Collect one step's rewards, shape (num_envs,), and return zeros instead of them."""
        self._pending.append(rew.clone())
        return torch.zeros_like(rew)

    def normalize_rollout(self, group: ProcessGroup) -> torch.Tensor:
        """Return the collected rewards, normalized, shape (steps, num_envs). Collective."""
        pending, self._pending = self._pending, []
        # The standard deviation is that of discounted sums, which continue across rollouts.
        sums = [self.disc_avg.update(rewards) for rewards in pending] if self.training else []
        mean = self.emp_norm._mean[0]
        is_learning = self.emp_norm.is_learning()
        moments = pool_moments(group, [(each, mean) for each in sums]) if is_learning else []
        normalized = []
        for step, rewards in enumerate(pending):
            if self.emp_norm.is_learning():
                self.emp_norm.merge(moments[step])
            std = self.emp_norm._std
            normalized.append(torch.where(std > 0, rewards / std, rewards))
        return torch.stack(normalized)


class IntrinsicRewards:
    """The intrinsic rewards of one rank's rollouts."""

    def __init__(self, rnd: RandomNetworkDistillation, group: ProcessGroup) -> None:
        """Use `rnd`, and replace its reward normalizer if it has one."""
        self._rnd = rnd
        self._group = group
        self._normalizer: RolloutNormalization | None = None
        if rnd.reward_normalization:
            self._normalizer = rnd.reward_normalizer = RolloutNormalization(rnd.reward_normalizer)
        self._added: list[torch.Tensor] = []
        self._weights: list[float] = []
        self._returns: torch.Tensor | float = 0.0
        self._finished: torch.Tensor | None = None

    def step(self, added: torch.Tensor) -> None:
        """Remember what rsl_rl added to a step's rewards: zeros if there is a normalizer."""
        self._added.append(added)
        self._weights.append(self._rnd.weight)

    def finish_rollout(self, rewards: torch.Tensor, dones: torch.Tensor) -> None:
        """Add the normalized intrinsic rewards in place, and count finished episodes. Collective.

        The shape of rewards, and of whether an episode ended, is (steps, num_envs, 1).
        """
        intrinsic = torch.stack(self._added)
        if self._normalizer is not None:
            weights = intrinsic.new_tensor(self._weights).unsqueeze(1)
            intrinsic = self._normalizer.normalize_rollout(self._group) * weights
            rewards += intrinsic.unsqueeze(-1)
        self._added, self._weights = [], []
        self._finished = torch.zeros(2, device=rewards.device)
        for step, done in zip(intrinsic, dones.squeeze(-1) > 0, strict=True):
            self._returns = self._returns + step
            self._finished = self._finished + torch.stack(
                [(self._returns * done).sum(), done.sum()]
            )
            self._returns = self._returns * ~done

    def metrics(self) -> dict[str, float | tuple[float, float]]:
        """Return the last rollout's metrics, by rsl_rl's names."""
        total, count = self._finished.tolist() if self._finished is not None else (0.0, 0.0)
        return {"Rnd/mean_intrinsic_reward": (total, count), "Rnd/weight": float(self._rnd.weight)}

    def get_state(self) -> dict[str, Any]:
        """Return the state that the next rollout needs and rsl_rl does not save."""
        average = self._normalizer.disc_avg.avg if self._normalizer is not None else None
        return {"returns": self._returns, "discounted": average}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self._returns = state["returns"]
        if self._normalizer is not None:
            self._normalizer.disc_avg.avg = state["discounted"]
