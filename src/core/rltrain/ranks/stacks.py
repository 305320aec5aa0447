"""Where another process stands: its Python stacks, and what the system knows of it.

A rank lets Python's faulthandler answer a signal, also while it is blocked in C code or spins.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_STACKS = signal.SIGRTMIN + 5
"""The signal that asks for them. Schedulers and libraries use the named ones."""

_STACKS_TIMEOUT = 3.0
"""Seconds in which a process writes them."""

_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')

_INSTALLED = r"(site-packages|dist-packages)"
_NOT_THE_USER = re.compile(
    rf"/({_INSTALLED}/(torch|jax|numpy|pluggy|rltrain)|src/core/rltrain|"
    rf"({_INSTALLED}|rltrain-[\w-]+)/rltrain_\w+)/"
)


@dataclass(frozen=True)
class Frame:
    """A line that a thread executes."""

    file: str
    line: int
    function: str

    @property
    def is_of_torch_distributed(self) -> bool:
        """Whether the thread is in torch's collectives."""
        return f"{os.sep}torch{os.sep}distributed{os.sep}" in self.file

    @property
    def is_of_debugger(self) -> bool:
        """Whether a debugger waits for a command."""
        return os.path.basename(self.file) in ("pdb.py", "bdb.py") or "pydevd" in self.file

    @property
    def is_of_the_user(self) -> bool:
        """Whether it is of a task or a library: not of Python, the framework or rltrain."""
        standard = sysconfig.get_path("stdlib")
        of_python = self.file.startswith((standard, "<")) and "site-packages" not in self.file
        return not of_python and _NOT_THE_USER.search(self.file) is None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Process:
    """What Linux knows of a process."""

    state: str
    """A letter: R runs, S sleeps, D waits for a device, T and t are stopped."""
    seconds: float
    """CPU time that it has used."""

    @property
    def stopped(self) -> bool:
        """Whether it is stopped, by a signal or a debugger."""
        return self.state in "Tt"

    @classmethod
    def look(cls, pid: int) -> Process | None:
        """Inspect a process; None if it is not there, or only its exit status."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name before the last parenthesis may contain anything.
        fields = text.rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return cls(fields[0], seconds)


def stack_file(pulse: Path) -> Path:
    """Return where the stacks of a rank go, given the file with its pulse."""
    return pulse.with_suffix(".stacks")


@contextlib.contextmanager
def answering(path: Path) -> Iterator[None]:
    """Write the stacks of all threads to a file when asked."""
    with path.open("w") as file:
        faulthandler.register(_STACKS, file, all_threads=True)
        try:
            yield
        finally:
            faulthandler.unregister(_STACKS)


def stacks(files: Mapping[int, tuple[int, Path]]) -> dict[int, str]:
    """Ask processes for their stacks, and return those that answer, by rank.

    Each has a process ID and a stack file. One that is stopped continues until it has answered.
    """
    files = {rank: each for rank, each in files.items() if each[1].exists()}
    looks = {rank: Process.look(pid) for rank, (pid, _) in files.items()}
    stopped = {rank for rank, found in looks.items() if found is not None and found.stopped}
    before = {rank: path.stat().st_size for rank, (_, path) in files.items()}
    for pid, _ in files.values():  # Without its file, the signal would end a process.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _STACKS)
            os.kill(pid, signal.SIGCONT)
    deadline, last = time.monotonic() + _STACKS_TIMEOUT, dict(before)
    while time.monotonic() < deadline:
        time.sleep(0.01)
        now = {rank: path.stat().st_size for rank, (_, path) in files.items()}
        for pid in [files[rank][0] for rank in stopped if now[rank] > before[rank]]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        if all(before[rank] < now[rank] == last[rank] for rank in files):
            break
        last = now
    texts = {rank: path.read_bytes()[before[rank] :] for rank, (_, path) in files.items()}
    return {rank: text.decode(errors="replace") for rank, text in texts.items() if text}


def main_thread(text: str, thread: int) -> tuple[Frame, ...]:
    """Return the frames of a process' main thread, the innermost first."""
    for block in re.split(r"\n(?=(?:Current thread|Thread) 0x)", text):
        head = re.match(r"\s*(?:Current thread|Thread) 0x([0-9a-f]+)", block)
        if head is not None and int(head[1], 16) == thread:
            return tuple(Frame(f[1], int(f[2]), f[3]) for f in _FRAME.finditer(block))
    return ()
