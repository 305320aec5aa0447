"""Imported by the server from which torch elastic's ranks are forked, and by nothing else.

It ends when the launcher does.
"""

import atexit
import contextlib
import importlib
import os
import signal
import sys

from rltrain_torch.elastic import LIBRARY, OF_THREAD
from rltrain_torch.parent import end_with_parent

# To take all modules apart takes longer than importing half of them. Ranks never come here.
atexit.register(os._exit, 0)

if os.environ.get(LIBRARY):
    with contextlib.suppress(Exception):  # It fails again in a rank, which reports it.
        importlib.import_module(os.environ[LIBRARY])

if os.environ.get(OF_THREAD):  # Another thread may launch a run when that one has ended.
    end_with_parent(0)
elif sys.platform == "linux":
    # It exits when its launcher has gone, and what it has imported cleans up; also where a rank
    # that runs no Python keeps open the pipe at whose end it looks. Nobody else sends this signal.
    signal.signal(signal.SIGRTMAX - 1, lambda number, frame: sys.exit())
    end_with_parent(signal.SIGRTMAX - 1)
    # The first that runs at exit: the signal may come while what was imported cleans up.
    atexit.register(signal.signal, signal.SIGRTMAX - 1, signal.SIG_IGN)
