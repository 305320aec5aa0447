"""The agents that learn in every step, from a replay buffer."""

from __future__ import annotations

from collections.abc import Callable
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

from rltrain_jax.trees import watch_tree
from rltrain_skrl.jax.agent import JaxAgent
from rltrain_skrl.jax.off_policy_memory import ReplayMemory
from rltrain_skrl.jax.off_policy_parts import get_noise, noises, set_noise
from rltrain_skrl.jax.workarounds import RandomActions
from rltrain_skrl.off_policy import OffPolicy, check_bounds

__all__ = ["SessionDDPG", "SessionDDQN", "SessionDQN", "SessionSAC", "SessionTD3"]


class _OffPolicy(OffPolicy, JaxAgent):
    """Goes before an agent of skrl for jax that has a replay buffer."""

    memory_class = ReplayMemory
    actor = "policy"
    """Role of the model that acts."""

    memory: ReplayMemory

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(**components)
        self._random_actions = RandomActions(self.action_space)
        self.models[self.actor].random_actions = self._random_actions

    def drawing(self) -> dict[str, Any]:
        """Return what draws, by name."""
        return {**super().drawing(), "random actions": self._random_actions}

    def get_noise(self) -> dict[str, Any]:
        """Return what the noises remember, on the host."""
        return get_noise(self)

    def set_noise(self, states: dict[str, Any]) -> None:
        """Let the noises go on from what `get_noise` returned."""
        set_noise(self, states)


class SessionSAC(_OffPolicy, SAC):
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

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, and those of policy and entropy coefficient."""
        self.average_together(critic_1_optimizer=self.critic_1, critic_2_optimizer=self.critic_2)
        if self.cfg.learn_entropy:
            self.average_together(
                policy_optimizer=self.policy, entropy_optimizer=self.log_entropy_coefficient
            )
        else:
            self.average_together(policy_optimizer=self.policy)

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        # Only with an interval above zero does SAC track its figures.
        self.write_interval = 1
        super().update(timestep=timestep, timesteps=timesteps)
        self.write_interval = 0


class _Counting(_OffPolicy):
    """An agent of skrl that makes some of its updates once in several gradient steps."""

    def unsaved(self) -> list[str]:
        """Return the names of numbers that skrl leaves out of its checkpoints."""
        return [*super().unsaved(), "_update_counter"]


class _Noisy(_OffPolicy):
    """An agent of skrl whose policy is a function, to which noise is added."""

    # skrl's, used by this class and those below.
    policy: Model

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`.

        Raises:
            UsageError: the task's actions have no bounds for skrl to keep the noise within.
        """
        super().__init__(**components)
        check_bounds(self, noises(self))


class SessionTD3(_Noisy, _Counting, TD3):
    """TD3 of the session."""

    critic_1: Model
    critic_2: Model

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critics, and those of the policy."""
        self.average_together(critic_1_optimizer=self.critic_1, critic_2_optimizer=self.critic_2)
        self.average_together(policy_optimizer=self.policy)


class SessionDDPG(_Noisy, DDPG):
    """DDPG of the session."""

    critic: Model

    def synchronise_gradients(self) -> None:
        """Average the gradients of the critic, and those of the policy."""
        self.average_together(critic_optimizer=self.critic)
        self.average_together(policy_optimizer=self.policy)


class _QNetwork(_Counting):
    """DQN or DDQN of the session."""

    actor = "q_network"
    # skrl's, used by this class.
    q_network: Model
    _observation_preprocessor: Callable[..., Any]
    _state_preprocessor: Callable[..., Any]

    def synchronise_gradients(self) -> None:
        """Average the gradients of the Q-network."""
        self.average_together(optimizer=self.q_network)

    def act(self, observations: Any, states: Any, *, timestep: int, timesteps: int) -> Any:
        """Choose actions, by chance with the probability that the exploration schedule says.

        As skrl does, but all environments go through the network: skrl takes those alone that do
        not explore, a new number in every step, for which the network is compiled anew.
        """
        counted = self._counted(timestep, timesteps)
        inputs = {
            "observations": self._observation_preprocessor(observations),
            "states": self._state_preprocessor(states),
        }
        explored, outputs = self.q_network.random_act(inputs, role=self.actor)
        explores = self.cfg.exploration_scheduler
        if explores is not None and counted["timestep"] < self.cfg.random_timesteps:
            return explored, outputs
        values, outputs = self.q_network.act(inputs, role=self.actor)
        epsilon = 0.0 if explores is None else explores(counted["timestep"], counted["timesteps"])
        if explores is not None:
            self.tracking_data["Exploration / Exploration epsilon"].append(epsilon)
        by_value = np.random.random(len(values)) >= epsilon
        return _chosen(values, explored, by_value), outputs


@jax.jit
def _chosen(values: jax.Array, explored: jax.Array, by_value: jax.Array) -> jax.Array:
    best = jnp.argmax(values, axis=1, keepdims=True).astype(explored.dtype)
    return jnp.where(by_value[:, None], best, explored)


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
