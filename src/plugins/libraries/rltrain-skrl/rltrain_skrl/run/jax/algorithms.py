"""The adapted agents of skrl for jax. Each is called `Session` and as skrl's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from skrl.agents.jax.a2c import A2C
from skrl.agents.jax.ddpg import DDPG
from skrl.agents.jax.ddqn import DDQN
from skrl.agents.jax.dqn import DQN
from skrl.agents.jax.ppo import PPO
from skrl.agents.jax.rpo import RPO
from skrl.agents.jax.sac import SAC
from skrl.agents.jax.td3 import TD3
from skrl.resources.noises.jax import Noise

from rltrain.types import ProcessGroup
from rltrain_jax.trees import watch_tree
from rltrain_skrl.run import algorithms
from rltrain_skrl.run.jax.agents import JaxAgent
from rltrain_skrl.run.jax.memory import ReplayMemory, RolloutMemory
from rltrain_skrl.run.jax.workarounds import EpsilonGreedy, RandomActions


class SharedThreshold:
    """skrl's `kl_threshold` on several ranks; a comparison with it is collective.

    jax leaves a comparison with a type that it does not know to the other operand, which is this
    one.
    """

    def __init__(self, value: float, group: ProcessGroup) -> None:
        """Compare with the mean over the ranks of `group`."""
        self._value = float(value)
        self._group = group

    def __bool__(self) -> bool:
        """Whether there is a threshold."""
        return bool(self._value)

    def __lt__(self, divergence: jax.Array) -> bool:
        """Whether the mean over ranks is above; `divergence > threshold` calls this."""
        return float(self._group.all_reduce(divergence, "mean")) > self._value


class _OnPolicy(algorithms.OnPolicy, JaxAgent):
    memory_class = RolloutMemory
    threshold_class = SharedThreshold

    _divergence: tuple[float | None, float] = None, 0.0

    def synchronize_gradients(self) -> None:
        """Average gradients, and the KL divergence by which schedules set learning rates."""
        for name in ("policy", "value"):
            is_adaptive = getattr(self, f"{name}_scheduler_type") is not None
            if is_adaptive and self._session.group.world_size > 1:
                schedule = getattr(self, f"{name}_scheduler")
                setattr(self, f"{name}_scheduler", functools.partial(self._adapt, schedule))
        super().synchronize_gradients()

    def _adapt(
        self, schedule: Callable[..., float], timestep: int, *, lr: float, kl: float
    ) -> float:
        """Call a schedule with the mean over ranks; skrl passes both the same divergence."""
        if self._divergence[0] is not kl:
            self._divergence = kl, float(self._session.group.all_reduce(jnp.float32(kl), "mean"))
        return schedule(timestep, lr=lr, kl=self._divergence[1])


class SessionPPO(algorithms.EarlyStopping, _OnPolicy, PPO):
    """PPO of the session."""


class SessionRPO(algorithms.EarlyStopping, _OnPolicy, RPO):
    """RPO of the session."""


class SessionA2C(_OnPolicy, A2C):
    """A2C of the session."""


class _OffPolicy(algorithms.OffPolicy, JaxAgent):
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


class SessionSAC(algorithms.Sac, _OffPolicy, SAC):
    """SAC of the session, its entropy coefficient learned from the data of all ranks."""

    # skrl's, used by this class.
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
        """Average the gradients of the entropy coefficient together with the policy's."""
        self.average_together("critic_1", "critic_2")
        coefficient = ["log_entropy_coefficient"] if self.cfg.learn_entropy else []
        self.average_together("policy", *coefficient)


class SessionTD3(algorithms.ActionNoise, _OffPolicy, TD3):
    """TD3 of the session."""


class SessionDDPG(algorithms.Ddpg, _OffPolicy, DDPG):
    """DDPG of the session."""


class _QNetwork(EpsilonGreedy, algorithms.QNetwork, _OffPolicy):
    actor = "q_network"


class SessionDQN(_QNetwork, DQN):
    """DQN of the session."""


class SessionDDQN(_QNetwork, DDQN):
    """DDQN of the session."""
