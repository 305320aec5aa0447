"""Pickled data can run code where it is read: only whom the user trusts is read so."""

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
    return f"loading it would run code ({error}). If you trust who wrote it, add --trust."


def load_trusted(data: bytes, persistent: Callable[[Any], Any] | None = None) -> Any:
    """Unpickle data of someone who is trusted: Python builds whatever it names.

    `persistent` returns what an id stands for that the pickler wrote in an object's place.
    """
    unpickler = pickle.Unpickler(io.BytesIO(data))
    if persistent is not None:
        unpickler.persistent_load = persistent  # type: ignore[method-assign]
    return unpickler.load()
