"""Pickled data can run code where it is read: it is refused, unless the user trusts who wrote it.

`rltrain_adapters.unpickling` reads that of others without running what it names.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

__all__ = ["UnsafePickle", "load_trusted", "would_run_code"]


class UnsafePickle(pickle.UnpicklingError):
    """A class or function is named that is not known to be data only."""


def would_run_code(error: UnsafePickle) -> str:
    """Return the message for a checkpoint that is not data only; the option goes before it."""
    return (
        f"loading it would run code ({error}). If you trust who wrote it, add --trust-checkpoint."
    )


def load_trusted(data: bytes, persistent: Callable[[Any], Any] | None = None) -> Any:
    """Unpickle data of somebody who is trusted: Python builds whatever it names.

    Args:
        data: what was pickled.
        persistent: returns what an id stands for that the pickler wrote in an object's place.
    """
    unpickler = _Trusting(io.BytesIO(data))
    unpickler.persistent = persistent
    return unpickler.load()


class _Trusting(pickle.Unpickler):
    persistent: Callable[[Any], Any] | None = None

    def persistent_load(self, saved: Any) -> Any:
        return self.persistent(saved) if self.persistent else super().persistent_load(saved)
