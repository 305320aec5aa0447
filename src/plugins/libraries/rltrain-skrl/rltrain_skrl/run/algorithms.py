"""What each algorithm needs, for every framework: mixins between a framework's and skrl's class."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rltrain.errors import UsageError
from rltrain_skrl.run.agents import SessionAgent


class OnPolicy(SessionAgent):
    """Mixin for an agent of skrl that learns from rollouts."""

    together = (("policy", "value"),)


class EarlyStopping(OnPolicy):
    """Mixin for an agent of skrl that ends an epoch when the KL divergence is too high."""

    threshold_class: ClassVar[type[Any]]
    """Of `kl_threshold` on several ranks: compares with the mean over ranks.

    skrl ends an epoch when a mini-batch's KL divergence is above it. A rank that ended it alone
    would leave the others waiting for its gradients, so a comparison is collective.
    """

    def synchronize_gradients(self) -> None:
        """Average gradients, and end epochs on all ranks together."""
        group = self._session.group
        if group.world_size > 1:
            self.cfg.kl_threshold = self.threshold_class(self.cfg.kl_threshold, group)
        super().synchronize_gradients()


class OffPolicy(SessionAgent):
    """Mixin for an agent of skrl that has a replay buffer.

    Each rank fills a buffer of its own from its environments, and samples a batch of `batch_size`
    from it: a gradient is the mean over the batches of all ranks. `random_timesteps` and
    `learning_starts` are steps of every environment, the same on all ranks.
    """

    together: ClassVar[tuple[tuple[str, ...], ...]] = (("critic_1", "critic_2"), ("policy",))
    noise_class: ClassVar[type[Any]]
    """skrl's base class of noises."""
    array_class: ClassVar[type[Any]]
    """Of the state of a noise that has one."""

    _learns_from = 0

    @abstractmethod
    def _to_host(self, array: Any) -> np.ndarray:
        """Return an array of the framework on the host."""

    @abstractmethod
    def _to_device(self, array: np.ndarray, device: Any) -> Any:
        """Return an array of the framework on a device."""

    @property
    def noises(self) -> dict[str, Any]:
        """The noises by the names of their attributes."""
        return {name: x for name, x in vars(self).items() if isinstance(x, self.noise_class)}

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn, if the buffer holds enough for it; see skrl."""
        if timestep >= self._learns_from:
            super().update(timestep=timestep, timesteps=timesteps)

    def rank_state(self) -> dict[str, Any]:
        """Return the states of the noises, and the replay buffer's if the options ask for it.

        Of the noises, only Ornstein-Uhlenbeck's has one: its last values.
        """
        memory = self.memory.get_state() if self.memory.save_replay_buffer else None
        states = {name: getattr(noise, "state", None) for name, noise in self.noises.items()}
        arrays = {name: x for name, x in states.items() if isinstance(x, self.array_class)}
        noise = {name: self._to_host(x) for name, x in arrays.items()}
        return {**(super().rank_state() or {}), "noise": noise, "memory": memory}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        """Restore what `rank_state` returned on this rank."""
        super().load_rank_state(state)
        for name, values in state["noise"].items():
            noise = self.noises[name]
            noise.state = self._to_device(values, noise.device)
        if state["memory"] is None:
            return
        try:
            self.memory.set_state(state["memory"])
        except ValueError as error:
            raise UsageError(
                f"its replay buffer does not fit: {error}. Give agent.memory.memory_size as it was."
            ) from error

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does.

        A replay buffer that was not saved starts empty: the policy fills it for `learning_starts`
        steps again before learning resumes.
        """
        super().resume(path)
        if len(self.memory):
            return
        self._learns_from = self.timesteps_done + self.cfg.learning_starts
        if self._session.world.is_root:
            print(
                f"The replay buffer starts empty: learning resumes after {self.cfg.learning_starts}"
                " steps (agent.memory.save_replay_buffer=true saves the buffer in checkpoints).",
                flush=True,
            )


class Sac(OffPolicy):
    """Mixin for skrl's SAC: it tracks its metrics only if it has an interval to write them.

    skrl's other agents always track them, and `SessionAgent` turns its writer off. A bug of skrl
    2.1.0 to 2.1.1.
    """

    write_interval: int

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn; see skrl."""
        self.write_interval = 1
        super().update(timestep=timestep, timesteps=timesteps)
        self.write_interval = 0


class ActionNoise(OffPolicy):
    """Mixin for an agent of skrl that adds noise to the actions of a deterministic policy."""

    def __init__(self, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(**components)
        if self.noises and not self.action_space.is_bounded():  # type: ignore[attr-defined]
            name = type(self).__name__.removeprefix("Session")
            raise UsageError(
                f"agent.agent.class={name}: it keeps actions with noise within the bounds of the "
                "action space, but the task's has none. Use --algorithm sac or ppo."
            )


class Ddpg(ActionNoise):
    """Mixin for skrl's DDPG."""

    together = (("critic",), ("policy",))


class QNetwork(OffPolicy):
    """Mixin for skrl's DQN and DDQN."""

    together = (("q_network",),)
