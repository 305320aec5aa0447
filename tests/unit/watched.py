"""A watch over what the interpreter does while hostile bytes are read, by Python's audit events."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

_RUNS_CODE = ("exec", "ctypes.", "cpython.", "os.exec", "os.fork", "os.posix_spawn", "os.system")
_RUNS_CODE += ("subprocess.", "pty.")
_REACHES_OUT = ("compile", "import", "marshal.", "open", "os.", "socket.", "shutil.", "signal.")
_REACHES_OUT += ("pickle.",)

_SEEN: list[str] = []
_WATCHED: tuple[str, ...] = ()
_PACKAGES = tuple({*sys.path, sys.prefix, sys.base_prefix} - {""})


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHED or not event.startswith(_WATCHED):
        return
    if _WATCHED == _RUNS_CODE and event == "exec":
        # torch imports some modules when needed; dataclasses, tuples and hints of types are text.
        by = sys._getframe(1).f_globals.get("__name__")
        if by in ("collections", "dataclasses", "typing") or _is_import(arguments[0]):
            return
    _SEEN.append(f"{event} {arguments}")


def _is_import(code: Any) -> bool:
    """Return whether this is the code of an installed module."""
    return code.co_name == "<module>" and code.co_filename.startswith(_PACKAGES)


sys.addaudithook(_audit)


@contextlib.contextmanager
def nothing_runs(strict: bool = False) -> Iterator[None]:
    """Check that no code is run inside; with `strict`, that nothing is imported or opened."""
    global _WATCHED
    _SEEN.clear()
    _WATCHED = (*_RUNS_CODE, *_REACHES_OUT) if strict else _RUNS_CODE
    try:
        yield
    finally:
        _WATCHED = ()
    assert not _SEEN, _SEEN
