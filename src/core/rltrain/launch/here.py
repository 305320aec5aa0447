"""Whether the process that asks a suite about a task will also make its environments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["environments_are_made_here", "made_here"]

_HERE = ContextVar("rltrain environments are made here", default=False)


def environments_are_made_here() -> bool:
    """Return whether this process will make the environments of the run that is being planned.

    For `SuiteSpec.describe`: what it imports and starts to look at a task is then not lost. A
    process that starts ranks should import no simulator, which could use memory of their GPUs.
    """
    return _HERE.get()


@contextlib.contextmanager
def made_here(here: bool) -> Iterator[None]:
    """Say so inside the context."""
    token = _HERE.set(here)
    try:
        yield
    finally:
        _HERE.reset(token)
