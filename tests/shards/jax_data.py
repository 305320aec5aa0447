"""The recorded rollouts that claims of jax learn from, and the rows that ranks draw of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from claims_jax import JaxClaim
from gymnasium import spaces

STEPS = 16

ACTIONS: dict[str, spaces.Space[Any]] = {
    "continuous": spaces.Box(-1.0, 1.0, (2,)),
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
}


class Rollout:
    """The recorded data of all ranks' environments: (steps, ranks, num_envs, ...)."""

    def __init__(self, claim: JaxClaim, ranks: int, number: int) -> None:
        draw = np.random.default_rng(number)
        shape = (STEPS, ranks, claim.num_envs)
        # Each rank sees different data: one rank's own moments would be far off.
        shift = np.linspace(-1.0, 1.0, ranks)[:, None, None] + number
        self.observations = (draw.normal(size=(*shape, 3)) + shift).astype(np.float32)
        self.states = (draw.normal(size=(*shape, 4)) - shift).astype(np.float32)
        self.rewards = (draw.normal(size=(*shape, 1)) + shift).astype(np.float32)
        self.terminated = (draw.random((*shape, 1)) < 0.1).astype(np.int8)
        self.truncated = ((draw.random((*shape, 1)) < 0.1) & (self.terminated == 0)).astype(np.int8)
        self.next_observations = np.roll(self.observations, -1, axis=0)
        self.next_states = np.roll(self.states, -1, axis=0)
        space = ACTIONS[claim.action]
        if isinstance(space, spaces.Box):
            self.actions = draw.uniform(-1, 1, (*shape, 2)).astype(np.float32)
        else:
            choices = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0)))
            self.actions = draw.integers(0, choices, (*shape, len(choices))).astype(np.float32)

    def of(self, ranks: list[int]) -> Callable[[str, int], np.ndarray]:
        """Return what gives a step's rows of these ranks' environments, shape (N, D)."""
        return lambda name, step: np.concatenate([getattr(self, name)[step, r] for r in ranks])


class Partition:
    """The rows that each rank draws, in the place of a memory's own; those of all in one batch."""

    def __init__(self, memory: Any, ranks: list[int], num_envs: int) -> None:
        self.memory, self.ranks, self.num_envs = memory, ranks, num_envs
        self.draws = [np.random.default_rng(100 + rank) for rank in ranks]

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> Any:
        """Return mini-batches, each of them the ranks' own one after the other."""
        total, rows = len(self.ranks) * self.num_envs, len(self.memory) // len(self.ranks)
        own = []
        for place, draw in enumerate(self.draws):
            index = draw.permutation(rows)[: batch_size // len(self.ranks)]
            whole = index // self.num_envs * total + place * self.num_envs + index % self.num_envs
            own.append(np.array_split(whole, mini_batches))
        joined = np.concatenate([np.concatenate(parts) for parts in zip(*own, strict=True)])
        return self.memory.sample_by_index(names, indexes=joined, mini_batches=mini_batches)
