"""Processes that multiprocessing makes of this one: ranks."""

from __future__ import annotations

import multiprocessing
import os

from rltrain.errors import UsageError
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
    # multiprocessing asks the same, to refuse processes that such an import would start.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if distributed:
            os._exit(UNGUARDED)
        raise UsageError(NO_GUARD)


def free_start_method() -> None:
    """Let a task start processes in a rank as it does alone: by that method, and with that path.

    multiprocessing fixes it in each process that it starts, as the one that started that process:
    the task could set no other, and what it starts would have to be pickled.
    """
    if (SAFE_PATH[0], os.environ.get(SAFE_PATH[0])) == SAFE_PATH:
        del os.environ[SAFE_PATH[0]]
    multiprocessing.set_start_method(None, force=True)
