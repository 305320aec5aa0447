"""Several ranks' random numbers, drawn in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from rltrain_devkit.as_one.rows import Rows, merged


class VirtualRanks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Splits every random operation: each rank's rows come from that rank's own generator.

    Operations with their own generator, such as an environment's, are not changed. An operation
    that cannot be split is an error, so that only equal random numbers are compared.
    """

    def __init__(self, rows: Rows, chunk: Callable[[int], int]) -> None:
        """Prepare; operations are split after `begin`.

        Args:
            rows: the positions of the ranks' environments.
            chunk: maps the number of rows that one rank draws from to the size of its mini-batches.
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
            return self._draw_indices(func, args, named)
        return self._by_rows(func, args, named)

    def _draw_indices(self, func: Any, args: Any, named: Mapping[str, Any]) -> torch.Tensor:
        """Draw rows of a batch with replacement: `randint([low,] high, size)`."""
        *bounds, size = args
        low, high = bounds if len(bounds) == 2 else (0, *bounds)
        ranks = self._rows.ranks
        if low or high % ranks or len(size) != 1 or size[0] % ranks:
            raise NotImplementedError(f"{func}{args} does not draw the rows of a batch.")
        args = (*([0] if len(bounds) == 2 else []), high // ranks, [size[0] // ranks])
        return self._union(lambda: func(*args, **named))

    def _union(self, draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return rows for all ranks: the first mini-batch of each, then the second of each, ..."""
        drawn = []
        for rank in range(self._rows.ranks):
            with self._generator(rank):
                rows = draw()
            drawn.append(self._rows.in_batch(rank, rows.cpu()).to(rows.device))
        chunk = self._chunk(drawn[0].numel())
        mini_batches = zip(*(torch.split(rows, chunk) for rows in drawn), strict=True)
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
        common = [_of_process(own.device) for own in of_rank]
        before = [generator.get_state() for generator in common]
        for generator, own in zip(common, of_rank, strict=True):
            generator.set_state(own.get_state())
        try:
            yield
        finally:
            for generator, own, state in zip(common, of_rank, before, strict=True):
                own.set_state(generator.get_state())
                generator.set_state(state)


def _of_process(device: torch.device) -> torch.Generator:
    """Return the generator of this process for a device."""
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[device.index or 0]
