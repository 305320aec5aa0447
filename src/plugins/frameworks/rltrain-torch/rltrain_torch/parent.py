"""Imported first by the server from which ranks are forked: its imports end with its launcher.

The server sees that its launcher is gone once it waits for requests, after seconds of imports.

What a terminal or timeout(1) sends to the launcher's process group is for the launcher, which goes
on until its ranks have saved a checkpoint. If the server ended, the launcher would take its ranks
for dead. Until here, Ctrl-C is blocked.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""In Linux's prctl.h."""


def end_with_parent(number: int) -> None:
    """Let Linux send this process a signal when the thread that started it ends; 0 sends none."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


end_with_parent(signal.SIGKILL)
os.setpgid(0, 0)
# Signals are blocked until here: see `rltrain_torch.elastic`. Ranks, too, ignore these.
_ignored = {signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
for number in _ignored:
    signal.signal(number, signal.SIG_IGN)
_before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # One that has come already is dropped.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *_ignored})
signal.signal(signal.SIGINT, _before)
