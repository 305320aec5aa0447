"""Imported first by the server from which ranks are forked: its imports end with its launcher.

The server sees that its launcher is gone once it waits for requests, after seconds of imports.
"""

import ctypes
import signal
import sys

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1
"""In Linux's prctl.h."""


def end_with_parent(number: int) -> None:
    """Let Linux send this process a signal when the thread that started it ends; 0 sends none."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


end_with_parent(signal.SIGKILL)
# They are blocked until here: see `rltrain_torch.elastic`. Ranks ignore them, too.
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGUSR1, signal.SIGUSR2))
