"""A rank that Python's multiprocessing has started: what that leaves in it, and how it ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading

__all__ = ["end_with_launcher", "free_start_method"]


def end_with_launcher() -> None:
    """End this process when its launcher ends.

    A forkserver's children are not the launcher's: they would outlive it, even with
    PR_SET_PDEATHSIG. The launcher's sentinel becomes readable when it ends, however it ends.
    """
    launcher = multiprocessing.parent_process()
    if launcher is None:
        return

    def watch(sentinel: int) -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(launcher.sentinel,), daemon=True).start()


def free_start_method() -> None:
    """Let a task start processes in a rank by the method by which it does so alone.

    multiprocessing fixes it in each process that it starts, as the one that started that process:
    the task could set no other, and what it starts would have to be pickled.
    """
    multiprocessing.set_start_method(None, force=True)
