"""Sockets that stop listening: those by which ranks have connected, and which nobody needs again.

gloo accepts whoever connects, asks nobody who it is, and aborts the process when it has no
descriptors left. It offers no way to close the socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator

from rltrain.launch import make_room

_SO_ATTACH_FILTER = 26

_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A program for the kernel's socket filter, see bpf(4): "return 0", which drops every packet."""


@contextlib.contextmanager
def sealed_afterwards() -> Iterator[None]:
    """Let sockets that begin to listen for TCP inside the context answer nobody afterwards.

    To another program, their ports then look like those of a machine that is switched off.
    Connections that are open stay so.
    """
    make_room()
    before = _listening()
    yield
    seal(_listening() - before)


def seal(inodes: set[int] | None = None) -> None:
    """Let what this process listens on for TCP answer nobody any more.

    Args:
        inodes: of these sockets; None for all, with those that it has inherited.
    """
    for each in own_sockets():
        if _listens(each) and (inodes is None or _identity(each) in inodes):
            _attach_filter(each)


def own_sockets() -> Iterator[socket.socket]:
    """Yield every socket of this process: a duplicate, which is closed when the next one comes."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            duplicate = os.dup(int(descriptor))
        except OSError:
            continue  # The folder's own.
        try:
            found = socket.socket(fileno=duplicate)
        except OSError:
            os.close(duplicate)  # It is no socket.
            continue
        with found:
            yield found


def _listening() -> set[int]:
    return {_identity(each) for each in own_sockets() if _listens(each)}


def _identity(each: socket.socket) -> int:
    return os.fstat(each.fileno()).st_ino


def _listens(each: socket.socket) -> bool:
    if each.family not in (socket.AF_INET, socket.AF_INET6) or each.type != socket.SOCK_STREAM:
        return False
    return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _attach_filter(each: socket.socket) -> None:
    program = ctypes.create_string_buffer(_NOTHING)
    with contextlib.suppress(OSError):  # Not every sandbox has filters.
        each.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program))
        )
