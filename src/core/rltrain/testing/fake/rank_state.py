"""Process-global state, kept separately for each rank of one process."""

from __future__ import annotations

import importlib
import operator
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["RankStates"]


class _Global(NamedTuple):
    """One piece of process-global state."""

    read: Callable[[], Any]
    write: Callable[[Any], None]


_State = tuple[dict[str, str], list[Any]]
"""The environment variables, and a value for each `_Global`."""


class RankStates:
    """Gives every rank its own copy of process-global state.

    This covers `os.environ`; the global generators of `random`, numpy and torch, if they are loaded
    when the ranks start; and the attributes that were registered as rank-local.
    """

    def __init__(self, environs: Sequence[Mapping[str, str]], rank_local: Sequence[str]) -> None:
        """Start every rank with the caller's current state and the rank's own variables.

        Args:
            environs: by rank, the environment variables to set.
            rank_local: attributes as "module:path.to.attribute".
        """
        self._globals = [*_generators(), *(_attribute(name) for name in rank_local)]
        self._before = self._now = self._read()
        environ, values = self._before
        self._ranks = [(environ | dict(own), values) for own in environs]

    def save(self, rank: int) -> None:
        """Save the current state as a rank's."""
        self._ranks[rank] = self._now = self._read()

    def restore(self, rank: int) -> None:
        """Restore a rank's state. No code may have run since a state was saved."""
        self._write(self._ranks[rank])

    def leave(self) -> None:
        """Restore the state from before the ranks started."""
        self._now = self._read()
        self._write(self._before)

    def _read(self) -> _State:
        return dict(os.environ), [item.read() for item in self._globals]

    def _write(self, state: _State) -> None:
        environ, values = state
        now = self._now[0]
        for name in now.keys() - environ.keys():
            del os.environ[name]
        for name, value in environ.items() - now.items():
            os.environ[name] = value
        for item, value in zip(self._globals, values, strict=True):
            item.write(value)


def _generators() -> Iterator[_Global]:
    yield _Global(random.getstate, random.setstate)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        yield _Global(numpy.random.get_state, numpy.random.set_state)
    if torch is not None:
        yield _Global(torch.get_rng_state, torch.set_rng_state)


def _attribute(name: str) -> _Global:
    module, _, path = name.partition(":")
    owner, _, attribute = path.rpartition(".")
    found: Any = importlib.import_module(module)
    if owner:
        found = operator.attrgetter(owner)(found)
    getattr(found, attribute)  # Raise now if the name is wrong.
    return _Global(
        lambda: getattr(found, attribute), lambda value: setattr(found, attribute, value)
    )
