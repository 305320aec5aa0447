"""Files that are not what their reader expects."""

from __future__ import annotations

import math
import os
import shutil

WRONG = [
    *(None, True, "", "x", "1.txt", "..", "a/b", "a" * 300, "\ud800", "\x1b[2J", "a\0b"),
    *(0, -1, 10**400, -(10**400), 2**63, 0.5, math.nan, math.inf, [], {}, [1], {"a": "b"}),
]

KINDS = ["fifo", "folder", "zero", "loop", "huge"]


def changed(value):
    """Yield a value once with each of its parts exchanged for each of the wrong ones, or gone."""
    yield from WRONG
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        for other in changed(value[key]):
            copied = value.copy()
            copied[key] = other
            yield copied
        copied = value.copy()
        del copied[key]
        yield copied


def put(kind, path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "zero": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(path.name),
        "huge": lambda: (path.touch(), os.truncate(path, 1 << 42)),
    }[kind]()
