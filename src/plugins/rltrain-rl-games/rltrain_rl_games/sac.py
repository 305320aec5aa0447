"""rl_games' SAC on several ranks.

rl_games trains one replica a rank. Here gradients of critic, actor and temperature are averaged,
observations are normalised by all ranks' moments, and frames are counted over all ranks. Every rank
keeps what its own environments did: N ranks with a batch of B learn as one with a batch of N x B.
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
from rltrain_rl_games.checkpoints import on_host
from rltrain_rl_games.gradients import average_before_step
from rltrain_rl_games.normaliser import Expected, expect, pool_normalisers
from rltrain_rl_games.run import RunAgent
from rltrain_torch.optimizers import watch_optimizer

__all__ = ["ReplayBuffer", "SacAgent"]

_STORED = ("obses", "next_obses", "actions", "rewards", "dones")


class SacAgent(RunAgent, SACAgent):
    """SAC for continuous actions on several ranks."""

    CHECKPOINT_KEYS = frozenset({"actor", "critic", "critic_target"})
    METERS = MappingProxyType({"game_rewards": 1, "game_lengths": 1})
    RANK_STATE = ("current_rewards", "current_lengths")

    model: Any
    critic_grad_clip: Any
    log_alpha: Any
    log_alpha_optimizer: Any

    def __init__(self, session: Session, base_name: str, params: dict[str, Any]) -> None:
        self.session = session
        config = params["config"]
        super().__init__(base_name, params)
        self.vec_env = config["vec_env"]  # rl_games sets it only where it makes it.
        self.take_over()
        self._clip, self.critic_grad_clip = self.critic_grad_clip, 0.0
        self._actor_info: Any = None
        self._keeps_buffer = bool(params.get("rltrain", {}).get("save_replay_buffer", False))
        self._count_all_frames()
        self._temperature = _Temperature(self.log_alpha)
        self.log_alpha, stock = self._temperature.log_alpha, self.log_alpha_optimizer
        self.log_alpha_optimizer = torch.optim.Adam([self.log_alpha], **stock.defaults)
        pool = None
        if session.group.world_size > 1:
            pool_normalisers(self.model)
            pool = self._pool if self.normalize_input else None
        # Made anew: what rl_games has made has not been filled yet.
        self.replay_buffer = ReplayBuffer(
            self.obs_shape,
            config["env_info"]["action_space"].shape,
            self.replay_buffer_size,
            self.device,
        )
        self.replay_buffer.on_sample = pool

    def train(self) -> None:
        """Make models and temperature common, then train."""
        session = self.session
        session.wrap_model(self.model, "model")
        session.wrap_model(self._temperature, "temperature")
        optimizers = {
            "critic optimizer": (self.critic_optimizer, self._clip if self._clip > 0 else None),
            "actor optimizer": (self.actor_optimizer, None),
            "temperature optimizer": (self.log_alpha_optimizer, None),
        }
        for role, (optimizer, clip) in optimizers.items():
            watch_optimizer(session, optimizer, role)
            average_before_step(session, optimizer, clip)
        self.run(super().train)

    def train_epoch(self) -> Any:
        """Train one epoch, unless the last one is over.

        rl_games looks for the end only once an episode has finished.
        """
        self.epoch_num -= 1  # rl_games counts an epoch before it begins.
        self.begin_epoch()
        if _over(self.max_epochs, self.epoch_num) or _over(self.max_frames, self.frame):
            raise StopTraining
        self.epoch_num += 1
        result = super().train_epoch()
        self.end_training_phase(rollout=result[1], update=result[2])
        return result

    def extract_actor_stats(self, *arguments: Any) -> None:
        """Keep an update's figures; between two updates of the actor, the last ones.

        rl_games gives zeros then, and fails where it happens to average them with nothing.
        """
        *lists, info = arguments
        if self.update_counter % self.policy_frequency == 0:
            self._actor_info = info
        elif self._actor_info is None:
            loss = torch.zeros_like(info[0]) if self.learnable_temperature else None
            self._actor_info = (*info[:3], loss)
        super().extract_actor_stats(*lists, self._actor_info)

    def common_state(self) -> dict[str, Any]:
        """Return what is equal on all ranks and not in rl_games' own checkpoint."""
        return {
            **super().common_state(),
            "log_alpha": self.log_alpha.detach().cpu(),
            "update_counter": self.update_counter,
        }

    def set_common_state(self, state: dict[str, Any]) -> None:
        """Take what `common_state` returned."""
        super().set_common_state(state)
        self.log_alpha.data.copy_(state["log_alpha"])
        self.update_counter = state["update_counter"]

    def rank_state(self) -> dict[str, Any]:
        """Return what this rank alone must go on from."""
        buffer = self.replay_buffer.get_state() if self._keeps_buffer else None
        return {**super().rank_state(), "replay_buffer": buffer}

    def go_on(self) -> None:
        """Go on from a checkpoint, and say so if the replay buffer is not in it."""
        super().go_on()
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

    def _count_all_frames(self) -> None:
        world_size = self.session.group.world_size
        self.num_frames_per_epoch *= world_size
        frames = self.config.get("num_warmup_frames")
        if frames is not None:
            self.num_warmup_steps = math.ceil(frames / self.num_frames_per_epoch)

    def _pool(self, *batches: torch.Tensor) -> None:
        """Announce what an update normalises; its moments cross the ranks together."""
        normaliser = self.model.running_mean_std
        expect(self.session.group, [Expected(normaliser, batches)])


class ReplayBuffer(VectorizedReplayBuffer):
    """rl_games' replay buffer, which tells what it has drawn, and whose state can be saved.

    Attributes:
        on_sample: called with observations and next observations that were drawn.
    """

    on_sample: Callable[..., None] | None = None

    def __len__(self) -> int:
        """Return the number of transitions."""
        return int(self.capacity if self.full else self.idx)

    def sample(self, batch_size: int) -> Any:
        """Draw transitions; see rl_games."""
        drawn = super().sample(batch_size)
        if self.on_sample is not None:
            self.on_sample(drawn[0], drawn[3])
        return drawn

    def get_state(self) -> dict[str, Any]:
        """Return the transitions, in numpy."""
        stored = {name: on_host(getattr(self, name)[: len(self)]) for name in _STORED}
        return {**stored, "idx": self.idx, "full": self.full}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what `get_state` returned, if the capacity is still the same."""
        rows = len(state["rewards"])
        if rows > self.capacity or (state["full"] and rows < self.capacity):
            return
        for name in _STORED:
            getattr(self, name)[:rows].copy_(torch.from_numpy(state[name]))
        self.idx, self.full = state["idx"], state["full"]


class _Temperature(torch.nn.Module):
    """The logarithm of the entropy coefficient, which rl_games keeps outside its model."""

    def __init__(self, log_alpha: torch.Tensor) -> None:
        super().__init__()
        self.log_alpha = torch.nn.Parameter(log_alpha.detach())


def _over(last: int, done: int) -> bool:
    return last != -1 and done >= last
