"""Which sockets the processes of a run listen on, and what a stranger can do there."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Port", "listening", "sockets_of", "tree"]


@dataclass(frozen=True)
class Port:
    """A socket on which a process listens."""

    process: str
    """What the process is."""
    address: str
    """An IP address, "*" for all of them, or the path of a unix socket."""
    number: int = 0
    """Of the port; 0 for a unix socket."""

    @property
    def is_local(self) -> bool:
        """Whether no other machine reaches it."""
        return self.number == 0 or self.address.startswith("127.") or self.address == "::1"

    def __str__(self) -> str:
        return f"{self.address}:{self.number}" if self.number else self.address


def tree(root: int) -> list[int]:
    """Return a process and all below it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def sockets_of(pid: int) -> set[int]:
    """Return the inodes of a process' sockets."""
    inodes = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                name = os.readlink(link)
                if name.startswith("socket:["):
                    inodes.add(int(name[8:-1]))
    return inodes


def listening(root: int) -> set[Port]:
    """Return what a process and those below it listen on."""
    tables = {**_internet("tcp"), **_internet("tcp6"), **_unix()}
    found = set()
    for pid in tree(root):
        for inode in sockets_of(pid) & tables.keys():
            address, *number = tables[inode]
            found.add(Port(_name(pid), address.replace("/proc/self/", f"/proc/{pid}/"), *number))
    return found


def _internet(table: str) -> dict[int, tuple[str, int]]:
    found = {}
    for fields in _rows(f"/proc/net/{table}"):
        if fields[3] == "0A":
            address, port = fields[1].split(":")
            words = struct.pack(f"={len(address) // 8}I", *_words(address))
            name = socket.inet_ntop(socket.AF_INET6 if len(words) > 4 else socket.AF_INET, words)
            found[int(fields[9])] = ("*" if name in ("0.0.0.0", "::") else name, int(port, 16))
    return found


def _words(address: str) -> Iterator[int]:
    for at in range(0, len(address), 8):
        yield int(address[at : at + 8], 16)


def _unix() -> dict[int, tuple[str]]:
    accepting = 0x10000
    return {
        int(fields[6]): (fields[7] if len(fields) > 7 else "unnamed",)
        for fields in _rows("/proc/net/unix", 7)  # A path may have spaces.
        if int(fields[3], 16) & accepting
    }


def _rows(path: str, splits: int = -1) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines()[1:]:
            yield line.split(maxsplit=splits)


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return f"{pid} " + " ".join([Path(words[0]).name, *words[1:]])[:48]
    return "gone"
