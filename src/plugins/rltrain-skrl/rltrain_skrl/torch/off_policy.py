"""The agents that learn in every step, from a replay buffer."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from skrl.agents.torch.ddpg import DDPG
from skrl.agents.torch.ddqn import DDQN
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.sac import SAC
from skrl.agents.torch.td3 import TD3
from skrl.models.torch import Model

from rltrain.errors import UsageError
from rltrain_skrl.torch.agent import SessionAgent
from rltrain_skrl.torch.off_policy_memory import ReplayMemory
from rltrain_skrl.torch.off_policy_parts import (
    EntropyCoefficient,
    UpdateCounter,
    get_noise,
    noises,
    random_actions,
    set_noise,
)
from rltrain_torch.gradients import synchronise

__all__ = ["SessionDDPG", "SessionDDQN", "SessionDQN", "SessionSAC", "SessionTD3"]


class _OffPolicy(SessionAgent):
    """Goes before an agent of skrl that has a replay buffer.

    Each rank has a buffer of its own, with what its environments went through, and draws a batch of
    `batch_size` from it: a gradient is the mean over the batches of all ranks. `random_timesteps`
    and `learning_starts` are steps of every environment, the same on all ranks.
    """

    memory_class = ReplayMemory
    actor = "policy"
    """Role of the model that acts."""

    memory: ReplayMemory
    models: dict[str, Model]
    _learns_from = 0

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(**components)
        # skrl draws them from a copy of the action space: without a seed, and in every step alike.
        self.models[self.actor].random_act = self._random_act

    def _random_act(
        self, inputs: dict[str, Any], *, role: str = ""
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        observations = inputs["observations"]
        return random_actions(self.action_space, len(observations), observations.device), {}

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn, if the buffer holds enough for it; see skrl."""
        if timestep >= self._learns_from:
            super().update(timestep=timestep, timesteps=timesteps)

    def rank_state(self) -> dict[str, Any]:
        """Return the noises' states, and the replay buffer's if that is asked for."""
        memory = self.memory.get_state() if self.memory.save_replay_buffer else None
        return {"noise": get_noise(self), "memory": memory}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        """Go on from what `rank_state` returned on this rank.

        Raises:
            UsageError: the replay buffer is of another size now.
        """
        set_noise(self, state["noise"])
        if state["memory"] is None:
            return
        try:
            self.memory.set_state(state["memory"])
        except ValueError as error:
            raise UsageError(
                f"--checkpoint: its replay buffer does not fit: {error}. Give agent.memory.memory_"
                "size as it was."
            ) from error

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does.

        A replay buffer that was not saved begins empty: it is filled for `learning_starts` steps
        again, with the policy's actions, before learning goes on.

        Raises:
            UsageError: it does not fit these options and this task.
        """
        super().resume(path)
        if len(self.memory):
            return
        self._learns_from = self.timesteps_done + self.cfg.learning_starts
        if self._session.world.is_root:
            print(
                f"The replay buffer begins empty: learning goes on after {self.cfg.learning_starts}"
                " steps (agent.memory.save_replay_buffer=true saves the buffer in checkpoints).",
                flush=True,
            )


class SessionSAC(_OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    log_entropy_coefficient: torch.Tensor
    entropy_optimizer: torch.optim.Optimizer

    def _unsaved(self) -> dict[str, Any]:
        parts = super()._unsaved()
        if self.cfg.learn_entropy:
            parts["entropy_coefficient"] = self._own_coefficient()
        return parts

    def _own_coefficient(self) -> EntropyCoefficient:
        """Put a wrapped module's parameter in the place of skrl's tensor; return the module."""
        own: EntropyCoefficient = self._session.wrap_model(
            EntropyCoefficient(self.log_entropy_coefficient), "entropy_coefficient"
        )
        self.log_entropy_coefficient = own.log
        self.entropy_optimizer.param_groups[0]["params"] = [own.log]
        return own

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, of the policy and of the entropy coefficient."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)
        if self.cfg.learn_entropy:
            log = self.log_entropy_coefficient
            sync = self._session.gradient_sync([log])
            # skrl calls nothing between this gradient and the step.
            average = functools.partial(synchronise, sync, [log])
            log.register_post_accumulate_grad_hook(lambda _: average())  # type: ignore[no-untyped-call]

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        # Only with an interval above zero does SAC track its figures.
        self.write_interval = 1
        super().update(timestep=timestep, timesteps=timesteps)
        self.write_interval = 0

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does; see `_OffPolicy.resume`."""
        super().resume(path)
        if self.cfg.learn_entropy and self.entropy_optimizer.state:
            self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())


class _Counting(_OffPolicy):
    """An agent of skrl that makes some of its updates once in several gradient steps."""

    def _unsaved(self) -> dict[str, Any]:
        return {**super()._unsaved(), "updates": UpdateCounter(self)}


class _Noisy(_OffPolicy):
    """An agent of skrl whose policy is a function, to which noise is added."""

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`.

        Raises:
            UsageError: the task's actions have no bounds for skrl to keep the noise within.
        """
        super().__init__(**components)
        if noises(self) and not self.action_space.is_bounded():  # type: ignore[attr-defined]
            name = type(self).__name__.removeprefix("Session")
            raise UsageError(
                f"agent.agent.class={name}: it keeps actions with noise within the bounds of the "
                "action space, but the task's has none. Use --algorithm sac or ppo."
            )


class SessionTD3(_Noisy, _Counting, TD3):
    """TD3 of the session."""

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic_1, self.critic_2)
        self.average_together(self.policy_optimizer, self.policy)


class SessionDDPG(_Noisy, DDPG):
    """DDPG of the session."""

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critic, and those of the policy."""
        self.average_together(self.critic_optimizer, self.critic)
        self.average_together(self.policy_optimizer, self.policy)


class _QNetwork(_Counting):
    """DQN or DDQN of the session."""

    actor = "q_network"
    q_network: Model
    optimizer: torch.optim.Optimizer

    def synchronise_gradients(self) -> None:
        """Average the gradients of the Q-network."""
        self.average_together(self.optimizer, self.q_network)


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
