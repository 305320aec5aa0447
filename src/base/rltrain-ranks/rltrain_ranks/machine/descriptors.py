"""Standard input, output and error, where whoever started this process has closed them."""

from __future__ import annotations

import os

__all__ = ["open_missing"]


def open_missing() -> None:
    """Open standard descriptors that are closed, for good.

    Otherwise the first files and pipes that are opened would take their numbers, and get what
    Python, C code and other processes print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # The lowest number that is free: this one.
            os.set_inheritable(opened, True)
