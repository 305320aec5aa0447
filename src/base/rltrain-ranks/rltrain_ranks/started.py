"""A rank that Python's multiprocessing has started: what that leaves in it, and how it ends."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading

from rltrain_files.errors import UsageError

__all__ = ["NO_GUARD", "UNGUARDED", "end_with_launcher", "free_start_method", "refuse_in_import"]

NO_GUARD = (
    "rltrain.train: processes that a script starts import it, and it calls rltrain.train again. "
    'Call it under `if __name__ == "__main__":`.'
)
UNGUARDED = os.EX_CONFIG
"""The exit status of a rank that could not import the script, because of that."""


def refuse_in_import(distributed: bool) -> None:
    """Refuse to train while multiprocessing imports the script that started this process.

    Args:
        distributed: whether ranks are to be started. Then this process is one of them, and ends
            here: the launcher says why, once for all ranks.

    Raises:
        UsageError: this process is another one, which the script or its task has started.
    """
    # multiprocessing asks the same, to refuse processes that such an import would start.
    if not getattr(multiprocessing.current_process(), "_inheriting", False):
        return
    if distributed:
        os._exit(UNGUARDED)
    raise UsageError(NO_GUARD)


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
