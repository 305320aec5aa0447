"""Where ranks can meet without torch's process group: for backends with their own transport."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from rltrain.config import Placement
from rltrain.types import World

__all__ = ["meeting_place"]


def meeting_place(world: World, config: Placement) -> tuple[str, int]:
    """Return the host of rank 0, and a port there on which it can listen. Collective.

    That is MASTER_ADDR and MASTER_PORT, unless torchrun's own store listens there. Rank 0 then
    takes a free port, and sends it to the others by that store.

    Args:
        world: this rank's place.
        config: where the run runs.
    """
    host = os.environ.get("MASTER_ADDR", config.master_addr)
    port = int(os.environ.get("MASTER_PORT", config.master_port))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return host, port
    timeout = timedelta(seconds=config.join_timeout)
    # Ranks that start again meet again.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    shared = dist.TCPStore(host, port, is_master=False, timeout=timeout)  # type: ignore[attr-defined]
    store = PrefixStore(f"rltrain/meeting/{attempt}", shared)
    if world.rank == 0:
        with socket.create_server(("", 0)) as free:
            store.set("port", str(free.getsockname()[1]))
    return host, int(store.get("port"))
