"""Rank 0's run folder gets the files that other nodes have in theirs, unless they share the disk.

The run folder has the same path on every node.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from rltrain.launch import PARTIAL, whole
from rltrain_nodes.messages import send

_PART = 1 << 20
"""Bytes to receive at a time."""

_SILENCE = 60.0
"""Seconds to wait for the next of them."""


@contextlib.contextmanager
def requested(run_dir: str) -> Iterator[tuple[str, str]]:
    """Return the folder that node 0 asks others for, and the name of a mark that is in it.

    A node that sees the mark in its own run folder shares the disk. Of "", nothing is asked for.
    """
    mark = Path(run_dir, f"{PARTIAL}{uuid.uuid4().hex}")
    if run_dir:
        try:
            mark.touch()
        except OSError as error:
            _warn(mark.parent, f"the files of other nodes cannot be written there: {error}")
            run_dir = ""
    try:
        yield run_dir, mark.name if run_dir else ""
    finally:
        if run_dir:
            with contextlib.suppress(OSError):
                mark.unlink()


def send_files(connection: socket.socket, run_dir: str, mark: str) -> None:
    """Send node 0 the files of this node's run folder, and then None.

    The folder is "" if the ranks failed before they had one. The mark is in it if node 0 shares the
    disk, and "" if node 0 has no place for files.
    """
    folder = Path(run_dir)
    if run_dir and mark and not (folder / mark).exists():
        # The small ones first: after a failure there is not much time, and the logs are small.
        for path in sorted(_files(folder), key=lambda each: each.stat().st_size):
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                send(connection, {"name": str(path.relative_to(folder)), "size": size})
                if size:
                    connection.sendfile(file, count=size)
    send(connection, None)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the whole, regular files."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(PARTIAL)]
        for path in (Path(where, name) for name in names if not name.startswith(PARTIAL)):
            if path.is_file() and not path.is_symlink():
                yield path


def take_file(connection: socket.socket, run_dir: str, name: str, size: int) -> None:
    """Receive a file of another node, unless this one has it. It is complete or absent."""
    parts, path = _parts(connection, size), Path(run_dir, name)
    try:
        if Path(run_dir).resolve() not in path.resolve().parents:
            raise PermissionError("it is outside of the run folder")
        if not path.exists():
            with whole(path) as partial, open(partial, "wb") as file:
                file.writelines(parts)
    except OSError as error:
        _warn(path, f"a file of another node cannot be written: {error}")
    for _ in parts:
        pass  # The rest of a file that is not written; another one may follow.


def _parts(connection: socket.socket, size: int) -> Iterator[bytes]:
    connection.settimeout(_SILENCE)
    while size > 0:
        try:
            part = connection.recv(min(size, _PART))
        except OSError as error:
            raise EOFError(str(error)) from error
        if not part:
            raise EOFError("the connection was closed")
        yield part
        size -= len(part)


def _warn(path: Path, text: str) -> None:
    print(f"{path}: {text}", file=sys.stderr, flush=True)
