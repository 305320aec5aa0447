"""Which sockets the processes of a run listen on, and what a stranger can do there."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import psutil

__all__ = ["Port", "listening"]


@dataclass(frozen=True)
class Port:
    """A socket on which a process listens."""

    process: str
    """What the process is."""
    address: str
    """An IP address, or the path of a unix socket."""
    number: int = 0
    """Of the port; 0 for a unix socket."""

    @property
    def is_local(self) -> bool:
        """Whether no other machine reaches it."""
        return self.number == 0 or self.address.startswith("127.") or self.address == "::1"

    def __str__(self) -> str:
        return f"{self.address}:{self.number}" if self.number else self.address


def listening(root: int) -> set[Port]:
    """Return what a process and those below it listen on; unix sockets are those with a path."""
    process, found = psutil.Process(root), set()
    names = {}
    for each in (process, *process.children(recursive=True)):
        try:
            names[each.pid] = f"{each.pid} {' '.join(each.cmdline())[:48]}"
        except psutil.Error:
            continue  # It has ended.
    for each in psutil.net_connections("all"):
        if each.pid in names and each.laddr:
            if each.family == socket.AF_UNIX:
                path = each.laddr.replace("/proc/self/", f"/proc/{each.pid}/")
                found.add(Port(names[each.pid], path))
            elif each.status == psutil.CONN_LISTEN:
                found.add(Port(names[each.pid], *each.laddr[:2]))
    return found
