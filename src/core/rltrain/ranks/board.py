"""What the ranks of a node and their launcher tell each other, whatever happens to their folder.

It is memory that they share: a file in the folder, which each of them opens once. Temporary folders
become full, and are cleaned while a run goes on, by systemd-tmpfiles or by a scheduler.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_REQUEST = struct.Struct("<?Bd")
"""Whether the ranks train; the signal that asks them to end, and when it came."""

_DONE = 64
"""Where the processes of ranks that have done their work begin, by slot."""

_PID = struct.Struct("<i")

_RUN_DIR = mmap.PAGESIZE
"""Where the path of the run folder begins, with zeros after it. Linux takes up to 4095 bytes."""

_SIZE = 2 * mmap.PAGESIZE


class Board:
    """The memory."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @property
    def is_training(self) -> bool:
        """Whether ranks will soon end an iteration."""
        return bool(_REQUEST.unpack_from(self._memory)[0])

    @is_training.setter
    def is_training(self, value: bool) -> None:
        self._memory[0] = value

    @property
    def asked(self) -> int:
        """The signal because of which ranks are asked to end; 0 if they are not."""
        return int(_REQUEST.unpack_from(self._memory)[1])

    @property
    def asked_at(self) -> float:
        """When that was, by this machine's monotonic clock."""
        return float(_REQUEST.unpack_from(self._memory)[2])

    def ask(self, number: int) -> None:
        """Ask ranks to end because of a signal."""
        _REQUEST.pack_into(self._memory, 0, True, number, time.monotonic())

    def set_done(self, slot: int) -> None:
        """Note that this process, the rank in a slot of this node, has done its work."""
        _PID.pack_into(self._memory, _DONE + slot * _PID.size, os.getpid())

    def done(self) -> set[int]:
        """Return the processes that have."""
        return {pid for (pid,) in _PID.iter_unpack(self._memory[_DONE:_RUN_DIR])} - {0}

    @property
    def run_dir(self) -> str:
        """The run folder; "" if the ranks do not have one yet."""
        return os.fsdecode(self._memory[_RUN_DIR:].rstrip(b"\0"))

    @run_dir.setter
    def run_dir(self, value: str) -> None:
        self._memory[_RUN_DIR:] = os.fsencode(value).ljust(_SIZE - _RUN_DIR, b"\0")


@functools.lru_cache(maxsize=16)
def board_of(folder: Path) -> Board:
    """Return the board in the folder where the ranks of this node report.

    Call it when the folder is there: later calls need no file. A process that cannot open it has
    one of its own.
    """
    try:
        descriptor = os.open(folder / "board", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.posix_fallocate(descriptor, 0, _SIZE)  # A full disk would be a crash later.
            return Board(mmap.mmap(descriptor, _SIZE))
        finally:
            os.close(descriptor)
    except OSError:
        return Board(mmap.mmap(-1, _SIZE))


@dataclass(frozen=True)
class Notes:
    """What the ranks of a node leave for their launcher: it reads them however its ranks ended."""

    folder: Path
    """Where ranks report."""

    def __post_init__(self) -> None:
        """Open the memory while the folder is there."""
        board_of(self.folder)

    def set_run_dir(self, path: Path) -> None:
        """Note the run folder. Each rank does; ranks that are started again may have a new one."""
        board_of(self.folder).run_dir = str(path)

    def run_dir(self) -> str:
        """Return the run folder; "" if the ranks failed before they had one."""
        return board_of(self.folder).run_dir

    @property
    def shown(self) -> Path:
        """A file with what ranks show to the user of this node, if their launcher has made it."""
        return self.folder / "shown"
