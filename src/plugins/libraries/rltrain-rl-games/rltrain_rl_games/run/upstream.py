"""Workarounds for bugs of rl_games, all of them for 1.6.5, its newest release.

The reasons refer to files of that release. Remove a workaround when rl_games has fixed its bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from rl_games.common.schedulers import RLScheduler
from rl_games.interfaces.base_algorithm import BaseAlgorithm

from rltrain.types import ProcessGroup
from rltrain_torch.deferred_mean import DeferredMean

TANH_MODEL = "continuous_a2c_tanh"
"""The model whose actions are the hyperbolic tangent of its samples. `algos_torch/players.py`
forgets it when it plays without sampling: it takes the mean before the tangent."""


def set_missing_defaults(config: dict[str, Any]) -> None:
    """Give the options `params.config` a `bounds_loss_coef`.

    `common/a2c_common.py` takes None as its default, and `algos_torch/a2c_continuous.py` then fails
    to multiply the loss with it.
    """
    config["bounds_loss_coef"] = config.get("bounds_loss_coef") or 0.0


def without_compiled_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint without the prefix that torch.compile adds to names.

    rl_games' own loader removes it only at the start of a name, and not in the central value
    network.
    """
    models = {
        key: {name.replace("_orig_mod.", ""): tensor for name, tensor in state[key].items()}
        for key in ("model", "assymetric_vf_nets")
        if key in state
    }
    return {**state, **models}


class GroupsMeanStd(torch.nn.Module):
    """Normalizes the vectors among several observation groups; images pass unchanged.

    It replaces RunningMeanStdObs of `algos_torch/running_mean_std.py`, which rl_games passes to
    torch.jit.script, which cannot compile it. That class would also normalize each pixel. `shapes`
    are those of one environment's groups.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.running_mean_std = torch.nn.ModuleDict(
            {name: RunningMeanStd(shape) for name, shape in shapes.items() if len(shape) == 1}
        )

    def forward(self, input: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the groups, each of shape (B, ...). In training mode, update first."""
        vectors = self.running_mean_std
        return {name: vectors[name](x) if name in vectors else x for name, x in input.items()}


class SharedSchedule(RLScheduler):
    """A learning-rate schedule that gets the frames of all ranks and their mean KL divergence.

    `common/a2c_common.py` always passes 0 frames, so that a schedule over frames would never
    change. With `pools_kl`, ranks average the divergence together with the next step's gradients,
    and the schedule decides then.
    """

    divergence: DeferredMean | None = None

    def __init__(self, agent: Any, group: ProcessGroup, pools_kl: bool) -> None:
        super().__init__()
        self._agent, self._schedule = agent, agent.scheduler
        if pools_kl:
            self.divergence = DeferredMean(group, self._decide)

    def update(
        self, current_lr: float, entropy_coef: float, epoch: int, frames: int, kl_dist: float
    ) -> tuple[float, float]:
        """Return learning rate and entropy coefficient; the old ones until the mean is known."""
        if self.divergence is not None:
            self.divergence.add(kl_dist)
            return current_lr, entropy_coef
        updated: tuple[float, float] = self._schedule.update(
            current_lr, entropy_coef, epoch, self._agent.frame, kl_dist
        )
        return updated

    def _decide(self, mean: float) -> None:
        agent = self._agent
        agent.last_lr, agent.entropy_coef = self._schedule.update(
            agent.last_lr, agent.entropy_coef, agent.epoch_num, agent.frame, mean
        )
        agent.update_lr(agent.last_lr)


class AgentFixes(BaseAlgorithm):
    """Workarounds for all agents; put it before rl_games' agent in the bases of a class."""

    _best_reward: Any = None

    def get_full_state_weights(self) -> dict[str, Any]:
        """Return rl_games' checkpoint, which must not hold the best reward as a tensor."""
        state: dict[str, Any] = super().get_full_state_weights()
        state["last_mean_rewards"] = float(self.last_mean_rewards)
        return state

    def set_full_state_weights(self, weights: dict[str, Any], set_epoch: bool = True) -> None:
        """Load a checkpoint's state and remember its best reward."""
        super().set_full_state_weights(weights, set_epoch=set_epoch)
        self._best_reward = self.last_mean_rewards

    def restore_best_reward(self) -> None:
        """Set the best reward of the checkpoint again, which `train` resets when it starts."""
        if self._best_reward is not None:
            self.last_mean_rewards = self._best_reward


class PpoFixes(AgentFixes):
    """Workarounds for PPO."""

    def set_full_state_weights(self, weights: dict[str, Any], set_epoch: bool = True) -> None:
        """Load a checkpoint's state, and its learning rate, which rl_games does not restore."""
        super().set_full_state_weights(weights, set_epoch=set_epoch)
        self.last_lr = self.optimizer.param_groups[0]["lr"]


class SacFixes(AgentFixes):
    """Workarounds for SAC, whose class is in `algos_torch/sac_agent.py`."""

    _actor_info: Any = None

    def __init__(self, base_name: str, params: dict[str, Any]) -> None:
        super().__init__(base_name, params)
        # rl_games ignores an environment from the options.
        self.vec_env = params["config"]["vec_env"]

    def is_finished(self) -> bool:
        """Return whether the last epoch is done; rl_games asks only after a finished episode."""
        return _is_reached(self.max_epochs, self.epoch_num) or _is_reached(
            self.max_frames, self.frame
        )

    def extract_actor_stats(self, *arguments: Any) -> None:
        """Keep an update's metrics; between two updates of the actor, those of the last one.

        rl_games takes zeros then, and fails if all updates of an epoch are such.
        """
        *lists, info = arguments
        if self.update_counter % self.policy_frequency == 0:
            self._actor_info = info
        elif self._actor_info is None:
            loss = torch.zeros_like(info[0]) if self.learnable_temperature else None
            self._actor_info = (*info[:3], loss)
        super().extract_actor_stats(*lists, self._actor_info)


def _is_reached(limit: int, value: int) -> bool:
    return limit != -1 and value >= limit
