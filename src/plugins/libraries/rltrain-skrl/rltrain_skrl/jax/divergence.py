"""KL divergences averaged over ranks, so that all ranks decide the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rltrain.types import ProcessGroup


class SharedThreshold:
    """A number that compares with the mean of an array over ranks; each comparison is collective.

    skrl ends an epoch when a mini-batch's KL divergence is above `kl_threshold`. A rank that ended
    it alone would leave the others waiting for its gradients. jax leaves a comparison with a type
    that it does not know to the other operand, which is this one.
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


class PooledDivergence:
    """Passes the mean divergence over ranks to schedules of learning rates.

    skrl calls the schedules of policy and value with the same divergence at the end of an epoch.
    Only the next step needs the learning rates: the divergence waits until it is averaged together
    with that step's gradients.
    """

    def __init__(self, agent: Any, group: ProcessGroup) -> None:
        """Set the learning rates of an agent of skrl by the mean over the ranks of `group`."""
        self._agent = agent
        self._group = group
        self._schedules: dict[str, Callable[..., float]] = {}
        self._waiting: tuple[int, float] | None = None
        self._nothing = jnp.zeros(())

    def pool(self, name: str) -> None:
        """Decide for `policy` or `value`, in place of its schedule."""
        self._schedules[name] = getattr(self._agent, f"{name}_scheduler")
        setattr(self._agent, f"{name}_scheduler", functools.partial(self._wait, name))

    def _wait(self, name: str, timestep: int, *, lr: float, kl: float) -> float:
        if self._waiting is None or self._waiting[1] is not kl:
            self.settle()  # If an epoch has ended in its first mini-batch, no step came between.
            self._waiting = timestep, kl
        rate: float = getattr(self._agent, f"{name}_learning_rate")
        return rate

    @property
    def number(self) -> jax.Array:
        """What waits on this rank; 0 if nothing does."""
        return self._nothing if self._waiting is None else jnp.float32(self._waiting[1])

    def take(self, mean: Any) -> Mapping[str, float]:
        """Set and return the learning rates by the mean of what has waited, if anything has."""
        if self._waiting is None:
            return {}
        timestep, self._waiting = self._waiting[0], None
        rates = {}
        for name, schedule in self._schedules.items():
            before = getattr(self._agent, f"{name}_learning_rate")
            rates[name] = schedule(timestep, lr=before, kl=float(mean))
            setattr(self._agent, f"{name}_learning_rate", rates[name])
        return rates

    def settle(self) -> None:
        """Decide now: no step follows in this iteration. Collective if something waits."""
        if self._waiting is not None:
            self.take(self._group.all_reduce(self.number, "mean"))
