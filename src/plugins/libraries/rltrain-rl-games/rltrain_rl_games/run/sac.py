"""rl_games' SAC on several ranks.

On several GPUs, rl_games itself would train an independent replica per rank. Here, the gradients of
critic, actor and temperature are averaged, observations are normalized by the moments of all ranks'
data, and frames are counted over all ranks. Every rank keeps the transitions of its own
environments: N ranks with a batch of B learn as one rank with a batch of N x B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from rl_games.algos_torch.sac_agent import SACAgent
from rl_games.common.experience import VectorizedReplayBuffer

from rltrain.errors import StopTraining
from rltrain.launch import console_stream
from rltrain.session import Session
from rltrain_rl_games.run.base import RunAgent, connect_optimizer
from rltrain_rl_games.run.normalizers import PendingBatches, pool_pending, replace_normalizers
from rltrain_rl_games.run.upstream import SacFixes

_STORED = ("obses", "next_obses", "actions", "rewards", "dones")


class SacAgent(RunAgent, SacFixes, SACAgent):
    """SAC for continuous actions on several ranks."""

    CHECKPOINT_KEYS = frozenset({"actor", "critic", "critic_target"})
    METERS = MappingProxyType({"game_rewards": 1, "game_lengths": 1})
    COMMON_STATE = ("log_alpha", "update_counter")
    RANK_STATE = ("current_rewards", "current_lengths")

    critic_grad_clip: Any
    log_alpha: Any
    log_alpha_optimizer: Any

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        self.session = session
        super().__init__(base_name, params)
        self.connect()
        self._clip, self.critic_grad_clip = max(self.critic_grad_clip, 0.0), 0.0
        self._saves_buffer = bool(params.get("rltrain", {}).get("save_replay_buffer", False))
        self.num_frames_per_epoch *= session.group.world_size
        frames = self.config.get("num_warmup_frames")
        if frames is not None:
            self.num_warmup_steps = math.ceil(frames / self.num_frames_per_epoch)
        self._temperature = _Temperature(self.log_alpha)
        self.log_alpha, stock = self._temperature.log_alpha, self.log_alpha_optimizer
        self.log_alpha_optimizer = torch.optim.Adam([self.log_alpha], **stock.defaults)
        # A new buffer may replace rl_games', which is still empty.
        self.replay_buffer = ReplayBuffer(
            self.obs_shape,
            params["config"]["env_info"]["action_space"].shape,
            self.replay_buffer_size,
            self.device,
        )
        if session.group.world_size > 1 or session.config.on_nonfinite == "skip":
            replace_normalizers(self.model)
            if self.normalize_input:
                self.replay_buffer.on_sample = self._pool_batches

    def train(self) -> None:
        """Broadcast models and temperature from rank 0, then train."""
        session = self.session
        session.wrap_model(self.model, "model")
        session.wrap_model(self._temperature, "temperature")
        connect_optimizer(session, self.critic_optimizer, "critic optimizer", self._clip or None)
        connect_optimizer(session, self.actor_optimizer, "actor optimizer")
        if self.learnable_temperature:
            connect_optimizer(session, self.log_alpha_optimizer, "temperature optimizer")
        self.run(super().train)

    def train_epoch(self) -> Any:
        """Train one epoch."""
        self.epoch_num -= 1  # rl_games counts an epoch before it begins.
        self.begin_epoch()
        if self.is_finished():
            raise StopTraining
        self.epoch_num += 1
        result = super().train_epoch()
        self.end_training_phase(rollout=result[1], update=result[2])
        return result

    def rank_state(self) -> dict[str, Any]:
        """Return the state of this rank alone that an exact resume needs."""
        buffer = self.replay_buffer.get_state() if self._saves_buffer else None
        return {**super().rank_state(), "replay_buffer": buffer}

    def resume(self) -> None:
        """Restore what rl_games clears, and print a note if the replay buffer is lost."""
        super().resume()
        session = self.session
        saved = (session.rank_state or {}).get("replay_buffer")
        if saved is not None:
            self.replay_buffer.set_state(saved)
        if session.checkpoint and session.world.is_root and not len(self.replay_buffer):
            print(
                "The replay buffer is not in the checkpoint, or not of this run's shape: it starts "
                "empty (agent.params.rltrain.save_replay_buffer=true saves it).",
                file=console_stream(),
            )

    def _pool_batches(self, *batches: torch.Tensor) -> None:
        """Pool the moments of the observations that an update will normalize."""
        normalizer = self.model.running_mean_std
        pool_pending(self.session.group, [PendingBatches(normalizer, batches)])


class ReplayBuffer(VectorizedReplayBuffer):
    """rl_games' replay buffer with a callback for samples, and a state that can be saved."""

    on_sample: Callable[..., None] | None = None
    """Called with the sampled observations and next observations."""

    def __len__(self) -> int:
        """Return the number of transitions."""
        return int(self.capacity if self.full else self.idx)

    def sample(self, batch_size: int) -> Any:
        """Sample transitions, as rl_games does."""
        sample = super().sample(batch_size)
        if self.on_sample is not None:
            self.on_sample(sample[0], sample[3])
        return sample

    def get_state(self) -> dict[str, Any]:
        """Return the transitions and the write position."""
        stored = {name: getattr(self, name)[: len(self)] for name in _STORED}
        return {**stored, "idx": self.idx, "full": self.full}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned, unless the capacity has changed."""
        rows = len(state["rewards"])
        if rows > self.capacity or (state["full"] and rows < self.capacity):
            return
        for name in _STORED:
            getattr(self, name)[:rows].copy_(state[name])
        self.idx, self.full = state["idx"], state["full"]


class _Temperature(torch.nn.Module):
    """The logarithm of the entropy coefficient, which rl_games keeps outside of its model."""

    def __init__(self, log_alpha: torch.Tensor) -> None:
        super().__init__()
        self.log_alpha = torch.nn.Parameter(log_alpha.detach())
