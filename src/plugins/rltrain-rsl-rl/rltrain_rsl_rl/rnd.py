"""Random network distillation on several ranks: intrinsic rewards as one rank would have them.

rsl_rl divides each step's intrinsic rewards by the deviation that its normaliser has after that
step, and pools the normaliser over ranks with three collectives in every step. Rewards are first
read when a rollout is over: here they are kept until then, the moments of all its steps are pooled
in one collective, and the normaliser goes through the steps one by one as it would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization
from tensordict import TensorDict

from rltrain.types import ProcessGroup
from rltrain_rsl_rl.normalizers import PooledNormalization
from rltrain_torch.moments import pool_moments

__all__ = ["IntrinsicRewards", "RolloutNormalization", "predictor_loss"]


class RolloutNormalization(EmpiricalDiscountedVariationNormalization):
    """rsl_rl's normaliser of intrinsic rewards, which works on a whole rollout.

    Its state has rsl_rl's names.
    """

    def __init__(self, other: EmpiricalDiscountedVariationNormalization) -> None:
        """Take over another's statistics and settings."""
        mean = other.emp_norm._mean
        super().__init__(list(mean.shape[1:]), gamma=other.disc_avg.gamma)
        self.emp_norm = PooledNormalization.like(other.emp_norm)
        self.train(other.training)
        self._kept: list[torch.Tensor] = []

    def forward(self, rew: torch.Tensor) -> torch.Tensor:
        """Keep one step's rewards, shape (num_envs,), and return zeros in their place."""
        self._kept.append(rew.clone())
        return torch.zeros_like(rew)

    def settle(self, group: ProcessGroup) -> torch.Tensor:
        """Return the kept rewards, normalised, shape (steps, num_envs). Collective."""
        kept, self._kept = self._kept, []
        # The deviation is that of discounted sums, which go on from rollout to rollout.
        sums = [self.disc_avg.update(rewards) for rewards in kept] if self.training else []
        about = self.emp_norm._mean[0]
        learns = self.emp_norm.learns()
        moments = pool_moments(group, [(each, about) for each in sums]) if learns else []
        normalised = []
        for step, rewards in enumerate(kept):
            if self.emp_norm.learns():
                self.emp_norm.merge(moments[step])
            std = self.emp_norm._std
            normalised.append(torch.where(std > 0, rewards / std, rewards))
        return torch.stack(normalised)


class IntrinsicRewards:
    """What the rewards of one rank's rollouts have from random network distillation."""

    def __init__(self, rnd: RandomNetworkDistillation, group: ProcessGroup) -> None:
        """Watch `rnd`, whose reward normaliser is replaced if it has one."""
        self._rnd = rnd
        self._group = group
        self._normalizer: RolloutNormalization | None = None
        if rnd.reward_normalization:
            self._normalizer = rnd.reward_normalizer = RolloutNormalization(rnd.reward_normalizer)
        self._given: list[torch.Tensor] = []
        self._weights: list[float] = []
        self._returns: torch.Tensor | float = 0.0
        self._finished: torch.Tensor | None = None

    def step(self, given: torch.Tensor) -> None:
        """Count one step.

        Args:
            given: what was added to the step's rewards, shape (num_envs,); zeros where there is a
                normaliser.
        """
        self._given.append(given)
        self._weights.append(self._rnd.weight)

    def settle(self, rewards: torch.Tensor, dones: torch.Tensor) -> None:
        """Add what is missing to a rollout's rewards, and count episodes. Collective.

        Args:
            rewards: of the rollout, shape (steps, num_envs, 1); changed in place.
            dones: where episodes ended, of the same shape.
        """
        intrinsic = torch.stack(self._given)
        if self._normalizer is not None:
            weights = intrinsic.new_tensor(self._weights).unsqueeze(1)
            intrinsic = self._normalizer.settle(self._group) * weights
            rewards += intrinsic.unsqueeze(-1)
        self._given, self._weights = [], []
        self._finished = torch.zeros(2, device=rewards.device)
        for step, done in zip(intrinsic, dones.squeeze(-1) > 0, strict=True):
            self._returns = self._returns + step
            self._finished = self._finished + torch.stack(
                [(self._returns * done).sum(), done.sum()]
            )
            self._returns = self._returns * ~done

    def figures(self) -> dict[str, float | tuple[float, float]]:
        """Return the last rollout's scalars, by rsl_rl's names."""
        total, count = self._finished.tolist() if self._finished is not None else (0.0, 0.0)
        return {"Rnd/mean_intrinsic_reward": (total, count), "Rnd/weight": float(self._rnd.weight)}

    def get_state(self) -> dict[str, Any]:
        """Return what the next rollout depends on and rsl_rl does not save."""
        average = self._normalizer.disc_avg.avg if self._normalizer is not None else None
        return {"returns": self._returns, "discounted": average}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._returns = state["returns"]
        if self._normalizer is not None:
            self._normalizer.disc_avg.avg = state["discounted"]


@torch.no_grad()
def predictor_loss(rnd: RandomNetworkDistillation, observations: TensorDict) -> torch.Tensor:
    """Return the loss of the predictor, for which not every version of rsl_rl has a method."""
    state = rnd.state_normalizer(rnd.get_rnd_state(observations))
    return torch.nn.functional.mse_loss(rnd.predictor(state), rnd.target(state))
