"""The global generators of a process; those of `random` and numpy the core itself seeds."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rltrain.data import check_generator
from rltrain.hookspecs import hookimpl


class Global(NamedTuple):
    """One piece of a process' global state."""

    read: Callable[[], Any]
    write: Callable[[Any], None]


def generators() -> Iterator[Global]:
    """Yield the global generators of `random`, numpy and torch, as far as they are loaded."""
    yield Global(random.getstate, random.setstate)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        yield Global(numpy.random.get_state, numpy.random.set_state)
    if torch is not None:
        yield Global(torch.get_rng_state, torch.set_rng_state)


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Give the caller's generators back afterwards: a search samples by them from run to run."""
    before = [(each, each.read()) for each in generators()]
    try:
        yield
    finally:
        for each, state in before:
            each.write(state)


class CoreSeeding:
    """The core's own implementation of `rltrain_seed`, for the generators of `random` and numpy."""

    @hookimpl
    def rltrain_seed(self, seed: int) -> None:
        """Seed the global generators of the standard library and numpy."""
        import numpy as np

        random.seed(seed)
        np.random.seed(seed)

    @hookimpl
    def rltrain_save_state(self) -> dict[str, Any]:
        """Return the states of the global generators."""
        import numpy as np

        return {"random": random.getstate(), "numpy": np.random.get_state()}

    @hookimpl
    def rltrain_load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the states of the global generators."""
        import numpy as np

        random.setstate(state["random"])
        np.random.set_state(check_generator(state["numpy"]))
