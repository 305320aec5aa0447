"""What could not be written, while training goes on."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from rltrain.errors import RltrainError, in_a_line
from rltrain_files.disk import NotWritten, disk_errors
from rltrain_ranks.logs.rank_log import say

__all__ = ["IO_ERROR", "Unwritten", "records_of"]

IO_ERROR = 74
"""The exit status of a run that has not written everything: EX_IOERR in sysexits.h."""


class Unwritten:
    """Remembers what has not been written since it last failed, and tells the user.

    It is true if there is something.

    Args:
        warn: tells the user something while the run goes on.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._reasons: dict[str, str] = {}
        self._mistaken: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._reasons)

    @contextlib.contextmanager
    def attempt(self, what: str, folder: Path) -> Iterator[None]:
        """Go on after the context if the disk takes no files there.

        Args:
            what: in words, for the user.
            folder: where it is written.
        """
        try:
            with disk_errors(folder):
                yield
        except NotWritten as error:
            self.add(what, error)
        else:
            self.remove(what)

    def add(self, what: str, error: OSError) -> None:
        """Note that something was not written."""
        if what not in self._reasons:
            reason = self._reasons[what] = error.strerror or str(error)
            self._warn(f"cannot write {what} ({reason}): training goes on, and tries again")

    def remove(self, what: str) -> None:
        """Note that something was written; a mistake is not mended by that."""
        if (
            what not in map(records_of, self._mistaken)
            and self._reasons.pop(what, None) is not None
        ):
            self._warn(f"{what} can be written again")

    def is_of_writer(self, plugin: str, error: BaseException) -> bool:
        """Note an error by which a writer has not written its records.

        A writer may refuse a run, by an error that rltrain raises on purpose.
        """
        if isinstance(error, OSError):
            self.add(records_of(plugin), error)
            return True
        kind, _, name = plugin.partition(":")
        if kind != "writer" or not isinstance(error, Exception) or isinstance(error, RltrainError):
            return False
        if plugin not in self._mistaken:
            self._mistaken.add(plugin)
            traceback.print_exception(error)
            self._reasons[records_of(plugin)] = reason = in_a_line(error)
            self._warn(
                f"the writer {name} raises {reason}. Training goes on, without some of its "
                "records; the rank's log has its traceback."
            )
        return True

    def tell_at_end(self) -> None:
        """Tell the user what is missing."""
        for what, reason in self._reasons.items():
            say(f"not written: {what} ({reason})")


def records_of(plugin: str) -> str:
    """Return in words what a plugin writes."""
    return f"records ({plugin.replace(':', ' ')})"
