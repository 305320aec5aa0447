"""A process that waits for the one that works, so that the command's exit status is true.

What works imports simulators, libraries and plugins. Any of these can end its process with any
status, at any time: by `os._exit`, at exit, in C code. Only what another process heard before is
certain. This one imports nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from rltrain.ranks.interrupts import REQUESTS, is_free, status_of

_FOR_THREADS = 10.0
"""Seconds in which threads and processes that are no daemons must end once the work is done."""

_TO_EXIT = 30.0
"""Seconds that the process has to end once its work is done: these, and exit handlers."""

_LATE = f"the work is done, but its process did not end within {_TO_EXIT:.0f} s: killed."

_TO_LEAVE = 1.0
"""Seconds in which processes that the work has started end by themselves after it."""

_TO_STOP = 2.0
"""Seconds that these have after SIGTERM, before they are killed."""

_BY_TERMINAL = 128
"""SI_KERNEL: the terminal has sent a signal, to the process that works as well. Not so SIGHUP, if
this one is the session's leader."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""In Linux's prctl.h."""


def guarded(work: Callable[[], int], mask: Iterable[int]) -> int:
    """Do the work in a process of its own, and end this one with the status that it has.

    Only the process that works returns. It gets each signal that is sent to this one. What it
    leaves running in this session ends with it.
    """
    open_missing()  # The pipe must not take their numbers.
    reading, writing = os.pipe()
    guard, worker = os.getpid(), os.fork()
    if worker:
        os.close(writing)
        _watch(worker, reading)
    os.close(reading)
    end_with_parent()
    if os.getppid() != guard:
        os._exit(1)
    worker = os.getpid()
    for number in REQUESTS:
        if is_free(number):  # Python would raise anywhere; an exception can be lost, or half an
            signal.signal(number, signal.SIG_DFL)  # import stay behind.
    status = _done(work, mask)
    if os.getpid() != worker:  # A copy that a task made, and left by an exception.
        return status
    os.write(writing, bytes([status & 255]))
    end_in_time(status)
    return status


def open_missing() -> None:
    """Open standard descriptors that are closed, for good.

    Otherwise the first files and pipes that are opened would take their numbers, and get what
    Python, C code and other processes print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # The lowest number that is free: this one.
            os.set_inheritable(opened, True)


def flush(*streams: TextIO | None) -> None:
    """Flush streams. The reader may have exited, as with `| head`: nobody wants the rest."""
    for stream in streams:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # It may be none.
            stream.flush()  # type: ignore[union-attr]


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let Linux send this process a signal when the thread that has started it ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def end_in_time(status: int) -> None:
    """Bound the time that this process takes to end, now that its work is done.

    Python would wait for threads, for processes of multiprocessing and for exit handlers for ever.
    """
    threading.Thread(target=_end_in_time, args=(status,), daemon=True).start()


def _done(work: Callable[[], int], mask: Iterable[int]) -> int:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return work()
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
            return 1
        return error.code or 0


def _end_in_time(status: int) -> None:
    began = time.monotonic()
    threads = [each for each in threading.enumerate() if each is not threading.main_thread()]
    processes: list[Any] = getattr(sys.modules.get("multiprocessing"), "active_children", list)()
    for each in (waited := [each for each in (*threads, *processes) if not each.daemon]):
        each.join(max(0.0, began + _FOR_THREADS - time.monotonic()))
    left = [each for each in waited if each.is_alive()]
    for each in left:
        kind = "thread" if each in threads else "process"
        frame = sys._current_frames().get(each.ident or 0)
        at = f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        _say(f"a {kind} was left running, and is not waited for: {each.name!a}{at}")
    if not left:
        time.sleep(max(0.0, began + _TO_EXIT - time.monotonic()))
        _say(_LATE)
    flush(sys.stdout, sys.stderr)
    os._exit(status)


def _watch(worker: int, reading: int) -> NoReturn:
    """Wait until the work has ended, and end with its status."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_blocking(reading, False)
    signals = *REQUESTS, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCHLD
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    status, deadline, ended = None, float("inf"), None
    while ended is None:
        heard = signal.sigtimedwait(signals, 1.0)
        if heard is not None and heard.si_signo != signal.SIGCHLD:
            if heard.si_signo == signal.SIGTSTP:
                _stop()
            elif heard.si_code != _BY_TERMINAL or heard.si_signo == signal.SIGHUP:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, heard.si_signo)
            continue
        ended = _reap(worker)
        with contextlib.suppress(BlockingIOError):  # The work is not done.
            if status is None and (said := os.read(reading, 1)):
                status = said[0]
                deadline = time.monotonic() + _TO_EXIT + 1.0  # It ends, unless C code keeps it.
        if ended is None and time.monotonic() > deadline:
            _say(_LATE)
            os.kill(worker, signal.SIGKILL)
            deadline = float("inf")
    _end_helpers(quiet=-ended in REQUESTS)
    if status is None and ended == 0:
        _say(
            "the process ended with status 0 before its work was done: something in it ended it, "
            "such as os._exit(0) or a simulator that was closed."
        )
        status = 1
    _end(ended if status is None else status)


def _stop() -> None:
    """Stop as the terminal asks, with what has a process group of its own, and go on with it."""
    others = [*_helpers()]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in others:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            os.kill(os.getpid(), signal.SIGTSTP)  # Linux stops nothing that no shell continues.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def _reap(worker: int) -> int | None:
    """Return the worker's exit status, negative for a signal; None while it lives."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # Orphans, too.
            if ended[0] == worker:
                found = os.waitstatus_to_exitcode(ended[1])
    return found


def _end_helpers(quiet: bool) -> None:
    """End what the work has started and left running in this session, and say what it was."""
    left: dict[int, str] = {}
    steps = (0, _TO_LEAVE), (signal.SIGTERM, _TO_STOP), (signal.SIGKILL, _TO_STOP)
    for number, patience in steps:
        for pid, name in left.items():
            if number == signal.SIGTERM and not quiet:
                _say(f"a process that the run has started was still there, and is ended: {name}")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while (left := _helpers()) and time.monotonic() < deadline:
            time.sleep(0.02)


def _helpers() -> dict[int, str]:
    """Return what runs of this process' children, which are orphans, and of their children.

    A process with a session of its own, such as a browser's or a daemon's, was made to stay.
    """
    found: dict[int, str] = {}
    _reap(0)
    parents, session = {}, os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z" and int(fields[3]) == session:
                parents[int(entry.name)] = int(fields[1])
    for pid in parents:
        above = parents[pid]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and pid != above:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                name = b" ".join(words).decode(errors="replace").strip()
                found[pid] = f"{pid} ({ascii(name)[1:-1][:100]})"
    return found


def _end(status: int) -> NoReturn:
    """End this process as the other one has ended."""
    if -status in REQUESTS:
        number = signal.Signals(-status)
        _say("interrupted." if number == signal.SIGINT else f"ended by {number.name}.")
        from rltrain.ranks.folders import remove_leftovers

        remove_leftovers()
        status = status_of(number)
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"rltrain: {text}\n".encode())


def _prctl(what: int, value: int) -> None:
    ctypes.CDLL(None).prctl(what, value)
