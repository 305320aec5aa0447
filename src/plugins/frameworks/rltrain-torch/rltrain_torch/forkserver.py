"""Imported by the server from which torch elastic's ranks are forked, and by nothing else.

It ends when the launcher does.
"""

import atexit
import contextlib
import importlib
import os

from rltrain_torch.elastic import LIBRARY
from rltrain_torch.parent import end_with_parent

# To take all modules apart takes longer than importing half of them. Ranks never come here.
atexit.register(os._exit, 0)

if os.environ.get(LIBRARY):
    with contextlib.suppress(Exception):  # It fails again in a rank, which reports it.
        importlib.import_module(os.environ[LIBRARY])

# The server may outlive the thread that started it: another one of its process may launch a run.
end_with_parent(0)
