"""The one file that uses private parts of jax; `tests/test_jax_contract.py` checks them.

They are, for jax 0.6 to 0.12:

- the client of the coordination service of `jax.distributed`: its key-value store can be read and
  written while a collective hangs;
- where jax keeps that client and rank 0's service: without recoverability (older versions), a
  process that exits waits up to 100 s for peers that have gone, and then aborts;
- how the CPU backend is made: gloo resolves the host's name to find its own address, which often
  fails, and jax has no option for the address.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax._src.lib
from jax._src import distributed, xla_bridge


def set_gloo_address(address: str) -> None:
    """Make jax build its CPU backend with gloo on an address of this machine.

    Call it before any computation: jax builds gloo when it first uses the CPU, and needs an
    initialized `jax.distributed` by then.
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


def exit_alone() -> None:
    """Let this process exit without waiting for its peers."""
    state = distributed.global_state
    for each in (state.client, state.service):
        # Freeing the client shuts it down; freeing the service first aborts the process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    state.client = state.service = None


class Board:
    """A table with one line per rank, which all ranks can read.

    Calls need only rank 0's process; without it they raise.
    """

    _FOLDER = "rltrain/ranks"

    def __init__(self) -> None:
        """Use the client of the initialized `jax.distributed`."""
        self._client: Any = distributed.global_state.client

    def write(self, rank: int, line: str) -> None:
        """Set a rank's line."""
        self._client.key_value_set(f"{self._FOLDER}/{rank}", line, allow_overwrite=True)

    def read(self) -> dict[int, str]:
        """Return all lines, by rank."""
        lines = self._client.key_value_dir_get(self._FOLDER)
        return {int(key.rpartition("/")[2]): line for key, line in lines}
