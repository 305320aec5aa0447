"""One rank with the environments of several: their places, their steps, their random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


@dataclass(frozen=True)
class Rows:
    """Positions of the environments of `ranks` ranks on one rank that has all of them.

    The environments are ordered in blocks; a block has a part of the first rank's, then of the
    second's, and so on. One block is rank after rank. Several are for libraries that cut
    mini-batches from neighboring environments: mini-batch k of the one rank is then the union of
    the ranks' k-th.
    """

    ranks: int
    envs: int
    """Environments a rank."""
    blocks: int = 1

    def __post_init__(self) -> None:
        if self.envs % self.blocks:
            raise ValueError(f"{self.envs} environments do not fall into {self.blocks} blocks.")

    @property
    def total(self) -> int:
        """Number of environments of all ranks."""
        return self.ranks * self.envs

    def of(self, rank: int) -> torch.Tensor:
        """Return the places of a rank's environments, in the rank's own order, shape (envs,)."""
        size = self.envs // self.blocks
        env = torch.arange(self.envs)
        return (env // size) * size * self.ranks + rank * size + env % size

    def parts(self, total: int) -> list[torch.Tensor]:
        """Return, by rank, the places of its rows in a batch of all ranks' `total` rows.

        As many as there are environments are those. Else it is a mini-batch, in which the ranks'
        rows follow each other.
        """
        if total == self.total:
            return [self.of(rank) for rank in range(self.ranks)]
        if total % self.ranks:
            raise ValueError(f"{total} rows cannot be split among {self.ranks} ranks.")
        return list(torch.arange(total).chunk(self.ranks))

    def in_batch(self, rank: int, index: torch.Tensor) -> torch.Tensor:
        """Return where rows of a rank's flat batch (step * envs + environment) are in all rows."""
        return index // self.envs * self.total + self.of(rank)[index % self.envs]


def merged(parts: list[torch.Tensor], places: list[torch.Tensor]) -> torch.Tensor:
    """Return the ranks' rows as one batch, each at its place."""
    return torch.cat(parts)[torch.cat(places).argsort()]


class UnitedEnv(VectorEnv[Any, Any, Any]):
    """Steps each rank's environments separately, and returns them as one batch.

    Each rank's environments start with that rank's seed, so that they go through the same states
    as on the rank.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.SAME_STEP
    }

    def __init__(
        self, envs: Sequence[VectorEnv[Any, Any, Any]], rows: Rows, seeds: Sequence[int]
    ) -> None:
        """Unite."""
        self.envs = envs
        self.num_envs = rows.total
        self._places = [rows.of(rank) for rank in range(rows.ranks)]
        self._seeds = seeds
        self.single_observation_space = envs[0].single_observation_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.single_action_space = envs[0].single_action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all; if there is a seed, each rank's with its own."""
        seeds = self._seeds if seed is not None else [None] * len(self.envs)
        results = [env.reset(seed=own) for env, own in zip(self.envs, seeds, strict=True)]
        return self._merged([observations for observations, _ in results]), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all, each with its rows of the actions."""
        pairs = zip(self.envs, self._places, strict=True)
        *results, infos = zip(*(env.step(actions[place]) for env, place in pairs), strict=True)
        observations, rewards, terminations, truncations = map(self._merged, results)
        info = {name: self._merged([each[name] for each in infos]) for name in infos[0]}
        return observations, rewards, terminations, truncations, info

    @property
    def max_episode_length(self) -> int:
        """In steps."""
        return int(self.envs[0].unwrapped.max_episode_length)  # type: ignore[attr-defined]

    @property
    def step_dt(self) -> float:
        """Time between two steps, in s."""
        return float(self.envs[0].unwrapped.step_dt)  # type: ignore[attr-defined]

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since each environment's last reset, shape (num_envs,)."""
        lengths = [env.unwrapped.episode_length_buf for env in self.envs]  # type: ignore[attr-defined]
        return merged(lengths, self._places)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        for env, place in zip(self.envs, self._places, strict=True):
            env.unwrapped.episode_length_buf = lengths[place]  # type: ignore[attr-defined]

    def _merged(self, parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], dict):
            return {name: self._merged([part[name] for part in parts]) for name in parts[0]}
        return merged(list(parts), self._places)


class VirtualRanks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Splits every random operation: each rank's rows come from that rank's own generator.

    Operations with their own generator, such as an environment's, are not changed. An operation
    that cannot be split is an error, so that only equal random numbers are compared.
    """

    def __init__(self, rows: Rows, chunk: Callable[[int], int]) -> None:
        """Prepare; operations are split after `begin`.

        `chunk` maps the number of rows that one rank samples from to the size of its mini-batches.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._rows = rows
        self._chunk = chunk
        self._generators: list[list[torch.Generator]] = []

    def begin(self, seeds: Sequence[int], device: str = "cpu") -> None:
        """Seed the ranks' generators: that of the CPU, and that of another device."""
        kinds = dict.fromkeys(["cpu", device])
        self._generators = [
            [torch.Generator(kind).manual_seed(seed) for kind in kinds] for seed in seeds
        ]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        random = torch.Tag.nondeterministic_seeded in func.tags
        if not (random and self._generators) or named.get("generator") is not None:
            return func(*args, **named)
        with self:  # Such as a recurrent layer, which may or may not contain dropout.
            composite = func.decompose(*args, **named)
        if composite is not NotImplemented:
            return composite
        name = func.overloadpacket.__name__
        if name == "randperm":
            return self._union(lambda: func(args[0] // self._rows.ranks, **named))
        if name == "randint":
            return self._sample_indices(func, args, named)
        return self._by_rows(func, args, named)

    def _sample_indices(self, func: Any, args: Any, named: Mapping[str, Any]) -> torch.Tensor:
        """Sample rows of a batch with replacement: `randint([low,] high, size)`."""
        *bounds, size = args
        low, high = bounds if len(bounds) == 2 else (0, *bounds)
        ranks = self._rows.ranks
        if low or high % ranks or len(size) != 1 or size[0] % ranks:
            raise NotImplementedError(f"{func}{args} does not sample the rows of a batch.")
        args = (*([0] if len(bounds) == 2 else []), high // ranks, [size[0] // ranks])
        return self._union(lambda: func(*args, **named))

    def _union(self, sample: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return rows for all ranks: the first mini-batch of each, then the second of each, ..."""
        samples = []
        for rank in range(self._rows.ranks):
            with self._generator(rank):
                rows = sample()
            samples.append(self._rows.in_batch(rank, rows.cpu()).to(rows.device))
        chunk = self._chunk(samples[0].numel())
        mini_batches = zip(*(torch.split(rows, chunk) for rows in samples), strict=True)
        return torch.cat([torch.cat(parts) for parts in mini_batches])

    def _by_rows(self, func: Any, args: Any, named: Mapping[str, Any]) -> Any:
        """Call an operation for the rows of each rank, along the first dimension."""
        sized = not isinstance(args[0], torch.Tensor)
        total = int(args[0][0] if sized else args[0].shape[0])
        places = self._rows.parts(total)
        parts = []
        for rank, place in enumerate(places):

            def own(x: Any, place: torch.Tensor = place) -> Any:
                rows = isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == total
                return x[place] if rows else x

            mine = ([len(place), *args[0][1:]], *args[1:]) if sized else tree_map(own, args)
            with self._generator(rank):
                parts.append(func(*mine, **tree_map(own, named)))
        if func._schema.is_mutable:
            return args[0].copy_(merged(parts, places))
        if isinstance(parts[0], tuple):
            return tuple(merged(list(each), places) for each in zip(*parts, strict=True))
        return merged(parts, places)

    @contextmanager
    def _generator(self, rank: int) -> Iterator[None]:
        """Replace the process' generator by a rank's."""
        of_rank = self._generators[rank]
        common = [
            torch.default_generator
            if own.device.type == "cpu"
            else torch.cuda.default_generators[own.device.index or 0]
            for own in of_rank
        ]
        before = [generator.get_state() for generator in common]
        for generator, own in zip(common, of_rank, strict=True):
            generator.set_state(own.get_state())
        try:
            yield
        finally:
            for generator, own, state in zip(common, of_rank, before, strict=True):
                own.set_state(generator.get_state())
                generator.set_state(state)
