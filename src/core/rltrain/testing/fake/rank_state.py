"""What is global in a process, kept apart for ranks that share one."""

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
    """One thing that a process has once."""

    read: Callable[[], Any]
    write: Callable[[Any], None]


_State = tuple[dict[str, str], list[Any]]
"""The variables of the environment, and a value for each `_Global`."""


class RankStates:
    """Gives every rank a state of its own for what a process has once.

    That is: `os.environ`, the global generators of `random`, numpy and torch as far as they are
    loaded when the ranks start, and the attributes that were registered as rank-local.
    """

    def __init__(self, environs: Sequence[Mapping[str, str]], rank_local: Sequence[str]) -> None:
        """Every rank starts with the state that the caller has now, and its own variables.

        Args:
            environs: by rank, the variables to be set.
            rank_local: attributes as "module:path.to.attribute".
        """
        self._globals = [*_generators(), *(_attribute(name) for name in rank_local)]
        self._before = self._now = self._read()
        environ, values = self._before
        self._ranks = [(environ | dict(own), values) for own in environs]

    def save(self, rank: int) -> None:
        """Keep what is now as a rank's state."""
        self._ranks[rank] = self._now = self._read()

    def restore(self, rank: int) -> None:
        """Put a rank's state in place. Nothing may have run since a state was saved."""
        self._write(self._ranks[rank])

    def leave(self) -> None:
        """Put back what was before the ranks started."""
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
    getattr(found, attribute)  # A name that is wrong is told now.
    return _Global(
        lambda: getattr(found, attribute), lambda value: setattr(found, attribute, value)
    )
