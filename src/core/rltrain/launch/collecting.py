"""The logs of other nodes' ranks are copied to rank 0's run folder, unless the disk is shared."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltrain.launch.meeting import receive, send

__all__ = ["collect_logs", "send_logs"]

_PART = 1 << 20
"""Bytes to receive at a time."""

_LOG = re.compile(r"rank_\d+\.log")


def collect_logs(connection: socket.socket, run_dir: str) -> object:
    """Ask another node for the logs that this one lacks, and write them. On node 0.

    Returns:
        What the node said last: None, or why it failed.
    """
    folder = Path(run_dir, "logs")
    send(connection, {"run_dir": run_dir, "have": [path.name for path in folder.glob("*.log")]})
    while isinstance(said := receive(connection), Mapping):
        name = str(said["name"])
        if not _LOG.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a log")
        _write(folder / name, _parts(connection, int(said["size"])))
    return said


def _write(path: Path, parts: Iterator[bytes]) -> None:
    try:
        with open(path, "wb") as file:
            file.writelines(parts)
    except OSError as error:
        print(f"{path}: a log of another node cannot be written: {error}", file=sys.stderr)
    for _ in parts:
        pass  # The rest of a file that cannot be written; another one may follow.


def _parts(connection: socket.socket, size: int) -> Iterator[bytes]:
    while size > 0 and (part := connection.recv(min(size, _PART))):
        yield part
        size -= len(part)


def send_logs(connection: socket.socket, request: Mapping[str, Any]) -> None:
    """Send the logs that node 0 lacks. The run folder has the same path on every node."""
    logs = Path(request["run_dir"], "logs").glob("*.log") if request["run_dir"] else ()
    for path in sorted(logs):
        if path.name in request["have"] or not _LOG.fullmatch(path.name):
            continue
        size = path.stat().st_size
        send(connection, {"name": path.name, "size": size})
        if size:
            with open(path, "rb") as file:
                connection.sendfile(file, count=size)
    send(connection, None)
