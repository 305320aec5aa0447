"""The one file that needs private parts of jax; `tests/test_jax_contract.py` holds it against jax.

Private are:

- the client of the coordination service, by which the processes of `jax.distributed` find each
  other: it holds a table that all of them can read and write while a collective is stuck;
- where jax keeps that client and rank 0's service: without recoverability, a process that exits
  waits for peers that have gone, up to 100 s, and then aborts;
- how the CPU's backend is made: jax lets gloo look for its address by the host's name, which often
  leads nowhere, and has no option for another.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax._src.lib
from jax._src import distributed, xla_bridge

__all__ = ["Board", "leave_alone", "let_gloo_use"]


def let_gloo_use(address: str) -> None:
    """Have the CPU's backend made with gloo at an address of this machine.

    Call it before anything is computed; gloo is made when the CPU is first used, and
    `jax.distributed` must have been initialised then.
    """

    def make() -> Any:
        jaxlib: Any = jax._src.lib
        # jaxlib's own module, by its newer and its older name.
        native = getattr(jaxlib, "_jax", None) or jaxlib.xla_client._xla
        gloo = native.make_gloo_tcp_collectives(
            distributed_client=distributed.global_state.client, hostname=address
        )
        return xla_bridge.make_cpu_client(gloo)

    xla_bridge.register_backend_factory("cpu", make, priority=0, fail_quietly=False)


def leave_alone() -> None:
    """Have this process exit without waiting for its peers."""
    state = distributed.global_state
    for each in (state.client, state.service):
        # A client that is freed shuts down, and one whose service is freed aborts the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    state.client = state.service = None


class Board:
    """A table on which each rank keeps one line that all ranks can read.

    Calls wait for nothing but rank 0's process; without it they raise.
    """

    _FOLDER = "rltrain/ranks"

    def __init__(self) -> None:
        """Take the client; `jax.distributed` has been initialised."""
        self._client: Any = distributed.global_state.client

    def write(self, rank: int, line: str) -> None:
        """Set a rank's line."""
        self._client.key_value_set(f"{self._FOLDER}/{rank}", line, allow_overwrite=True)

    def read(self) -> dict[int, str]:
        """Return the lines that there are, by rank."""
        lines = self._client.key_value_dir_get(self._FOLDER)
        return {int(key.rpartition("/")[2]): line for key, line in lines}
