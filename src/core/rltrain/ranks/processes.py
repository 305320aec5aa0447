"""Processes that multiprocessing makes of this one: ranks."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import sys
import threading

from rltrain.errors import UsageError
from rltrain.ranks.guarded import end_with_parent
from rltrain.ranks.world import SAFE_PATH

NO_GUARD = (
    "rltrain.train: processes that a script starts import it, and it calls rltrain.train again. "
    'Call it under `if __name__ == "__main__":`.'
)
UNGUARDED = os.EX_CONFIG
"""The exit status of a rank that could not import the script, because of that."""


def refuse_in_import(distributed: bool) -> None:
    """Refuse to train while multiprocessing imports the script that started this process.

    If ranks are to be started, this process is one of them, and ends here: the launcher says why,
    once for all ranks.
    """
    if distributed and getattr(sys.modules["__main__"], "__file__", None) == "<stdin>":
        raise UsageError(
            "rltrain.train: processes that a script starts import it, and this one is on standard "
            "input. Write it to a file."
        )
    if distributed and multiprocessing.current_process().daemon:
        raise UsageError(
            "rltrain.train: a worker of multiprocessing.Pool can start no ranks. Use "
            "concurrent.futures.ProcessPoolExecutor, or leave out distributed."
        )
    # multiprocessing asks the same, to refuse processes that such an import would start.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if distributed:
            os._exit(UNGUARDED)
        raise UsageError(NO_GUARD)


def end_with_launcher() -> None:
    """End this process when its launcher ends.

    The launcher's sentinel becomes readable when it ends, however it ends. Linux ends what cannot
    run Python then: with the process that has forked it, which ends with the launcher.
    """
    launcher = multiprocessing.parent_process()
    if launcher is None:
        return
    end_with_parent()

    def watch(sentinel: int) -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, args=(launcher.sentinel,), daemon=True).start()


def free_start_method() -> None:
    """Let a task start processes in a rank as it does alone: by that method, and with that path.

    multiprocessing fixes it in each process that it starts, as the one that started that process:
    the task could set no other, and what it starts would have to be pickled.
    """
    if (SAFE_PATH[0], os.environ.get(SAFE_PATH[0])) == SAFE_PATH:
        del os.environ[SAFE_PATH[0]]
    multiprocessing.set_start_method(None, force=True)
