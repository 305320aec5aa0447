"""The C library's heap: whether memory that a rank frees stays with it."""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed_memory"]

_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Variables by which users choose how glibc allocates memory."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""

_KEPT = 1 << 30
"""Bytes at the top of the heap that are not given back."""

_LARGEST = (256 << 20, 32 << 20)
"""Bytes from which an array has pages of its own. Older versions of glibc allow up to 32 MiB."""


def keep_freed_memory() -> None:
    """Let this process use the memory of freed arrays again, instead of giving it back to Linux.

    By default, glibc gives large arrays pages of their own, and gives back what is free at the top
    of its heap. So a step of training gets its activations as new pages, which Linux must clear,
    again and again, and ranks wait for whichever got its pages last (docs/clusters.md, "Memory").

    It changes nothing with another C library or allocator, or if the user has chosen by a variable
    such as MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES.
    """
    if any(name in os.environ for name in _CHOSEN):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT)
        any(set_option(_MMAP_THRESHOLD, size) for size in _LARGEST)
