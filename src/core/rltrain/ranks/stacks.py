"""Where another process stands: its Python stacks, its last collectives, what the system knows.

A rank lets Python's faulthandler answer a signal. That works while the rank is blocked in C code,
spins, or holds the interpreter. A thread answers for its collectives.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltrain.files.disk import whole

_STACKS = signal.SIGRTMIN + 5
"""The signal that asks for them. Schedulers and libraries use the named ones."""

_STACKS_TIMEOUT = 3.0
"""Seconds in which a process writes them."""

_COLLECTIVES_TIMEOUT, _LISTENING = 2.0, 0.5
"""Seconds in which ranks answer for their last collectives, and after which they look for the
question again."""

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
    parent: int = 0
    """The number of the process that has started it."""

    @property
    def stopped(self) -> bool:
        """Whether it is stopped, by a signal or a debugger."""
        return self.state in "Tt"

    @classmethod
    def look(cls, pid: int) -> Process | None:
        """Look at a process; None if it is not there, or only its exit status."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name before the last parenthesis may contain anything.
        fields = text.rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return cls(fields[0], seconds, parent=int(fields[1]))


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

    Each has a process ID and a stack file. One that is stopped continues.
    """
    files = {rank: each for rank, each in files.items() if each[1].exists()}
    before = {rank: path.stat().st_size for rank, (_, path) in files.items()}
    for pid, _ in files.values():  # Without its file, the signal would end a process.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _STACKS)
            os.kill(pid, signal.SIGCONT)
    deadline, last = time.monotonic() + _STACKS_TIMEOUT, dict(before)
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = {rank: path.stat().st_size for rank, (_, path) in files.items()}
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


@contextlib.contextmanager
def describing(pulse: Path, describe: Callable[[], str]) -> Iterator[None]:
    """Let `describe` say, in a thread, what this rank's last collectives were, when asked.

    `pulse` is the file with the rank's pulse.
    """
    over = threading.Event()

    def answer() -> None:
        while not over.wait(_LISTENING):
            with contextlib.suppress(OSError):  # No one asks; or the folder is gone.
                _asked(pulse).unlink()
                try:
                    text = describe()
                except Exception as error:
                    text = f"They could not be read: {type(error).__name__}: {error}"
                with whole(_answer(pulse)) as partial:
                    partial.write_text(text)

    threading.Thread(target=answer, name="rltrain-answers", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def last_collectives(pulses: Mapping[int, Path]) -> dict[int, str]:
    """Ask ranks for their last collectives, and return what those say that answer in time.

    One that is stopped, or holds the interpreter, does not.
    """
    for pulse in pulses.values():
        _answer(pulse).unlink(missing_ok=True)
        _asked(pulse).touch()
    answers = [_answer(pulse) for pulse in pulses.values()]
    deadline = time.monotonic() + _COLLECTIVES_TIMEOUT
    while time.monotonic() < deadline and not all(path.exists() for path in answers):
        time.sleep(0.02)
    found = zip(pulses, answers, strict=True)
    texts = {rank: path.read_text() for rank, path in found if path.exists()}
    return {rank: text for rank, text in texts.items() if text}


def _asked(pulse: Path) -> Path:
    return pulse.with_suffix(".ask")


def _answer(pulse: Path) -> Path:
    return pulse.with_suffix(".collectives")
