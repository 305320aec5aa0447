"""The agents for jax that learn in every step, from a replay buffer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from skrl.agents.jax.ddpg import DDPG
from skrl.agents.jax.ddqn import DDQN
from skrl.agents.jax.dqn import DQN
from skrl.agents.jax.sac import SAC
from skrl.agents.jax.td3 import TD3
from skrl.models.jax import Model
from skrl.resources.noises.jax import Noise

from rltrain_jax.trees import watch_tree
from rltrain_skrl.jax.agent import JaxAgent
from rltrain_skrl.jax.memory import ReplayMemory
from rltrain_skrl.jax.workarounds import EpsilonGreedy, RandomActions
from rltrain_skrl.off_policy import ActionNoise, OffPolicy
from rltrain_skrl.workarounds import SacMetrics

__all__ = ["SessionDDPG", "SessionDDQN", "SessionDQN", "SessionSAC", "SessionTD3"]


class _OffPolicy(OffPolicy, JaxAgent):
    """Mixin for an agent of skrl for jax that has a replay buffer."""

    memory_class = ReplayMemory
    noise_class = Noise
    array_class = jax.Array
    actor = "policy"
    """Role of the model that acts."""

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(**components)
        self._random_actions = RandomActions(self.action_space)
        self.models[self.actor].random_actions = self._random_actions

    def keyed_parts(self) -> dict[str, Any]:
        """Return what samples with a key, by name."""
        return {**super().keyed_parts(), "random actions": self._random_actions}

    def _to_host(self, array: jax.Array) -> np.ndarray:
        return np.asarray(array)

    def _to_device(self, array: np.ndarray, device: jax.Device) -> jax.Array:
        on_device: jax.Array = jax.device_put(array, device)
        return on_device


class SessionSAC(SacMetrics, _OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    # skrl's, used by this class.
    critic_1: Model
    critic_2: Model
    policy: Model
    log_entropy_coefficient: Any

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(**components)
        if self.cfg.learn_entropy:
            own, role = self.log_entropy_coefficient, "entropy_coefficient"
            params = self._session.wrap_model(own.state_dict.params, role)
            own.state_dict = own.state_dict.replace(params=params)
            watch_tree(self._session, role, lambda: own.state_dict.params)

    @property
    def log_entropy(self) -> float:
        """The logarithm of the coefficient, which skrl leaves out of its checkpoints."""
        return float(self.log_entropy_coefficient.value[0])

    @log_entropy.setter
    def log_entropy(self, value: float) -> None:
        own = self.log_entropy_coefficient.state_dict
        log = jax.device_put(np.full((1,), value, np.float32), self.device)
        params = jax.tree.map(lambda _: log, own.params)
        self.log_entropy_coefficient.state_dict = own.replace(params=params)
        self._entropy_coefficient = jnp.exp(log)

    def unsaved(self) -> list[str]:
        """Return the names of numbers that skrl leaves out of its checkpoints."""
        return [*super().unsaved(), *(["log_entropy"] if self.cfg.learn_entropy else [])]

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critics, and those of policy and entropy coefficient."""
        self.average_together(critic_1_optimizer=self.critic_1, critic_2_optimizer=self.critic_2)
        if self.cfg.learn_entropy:
            self.average_together(
                policy_optimizer=self.policy, entropy_optimizer=self.log_entropy_coefficient
            )
        else:
            self.average_together(policy_optimizer=self.policy)


class _Counting(_OffPolicy):
    """An agent of skrl that makes some of its updates in every n-th gradient step only."""

    def unsaved(self) -> list[str]:
        """Return the names of numbers that skrl leaves out of its checkpoints."""
        return [*super().unsaved(), "_update_counter"]


class SessionTD3(ActionNoise, _Counting, TD3):
    """TD3 of the session."""

    critic_1: Model
    critic_2: Model
    policy: Model

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critics, and those of the policy."""
        self.average_together(critic_1_optimizer=self.critic_1, critic_2_optimizer=self.critic_2)
        self.average_together(policy_optimizer=self.policy)


class SessionDDPG(ActionNoise, _OffPolicy, DDPG):
    """DDPG of the session."""

    critic: Model
    policy: Model

    def synchronize_gradients(self) -> None:
        """Average the gradients of the critic, and those of the policy."""
        self.average_together(critic_optimizer=self.critic)
        self.average_together(policy_optimizer=self.policy)


class _QNetwork(EpsilonGreedy, _Counting):
    """DQN or DDQN of the session."""

    actor = "q_network"

    def synchronize_gradients(self) -> None:
        """Average the gradients of the Q-network."""
        self.average_together(optimizer=self.q_network)


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
