"""Copies of a process that a task makes by `os.fork`: they must not do what is the process' own.

A copy that ends by an exception, such as that of `sys.exit`, would leave through all that its
parent has called: it would end the parent's connections, and remove its files.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn

__all__ = ["end_copy", "without_copies"]


@contextlib.contextmanager
def without_copies() -> Iterator[None]:
    """End a copy of this process that was made inside, and leaves the context, however."""
    owner = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != owner:
            end_copy()


def end_copy() -> NoReturn:
    """End this process, which is a copy, as Python would, by the exception that it handles."""
    error, status = sys.exception(), 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 255)
