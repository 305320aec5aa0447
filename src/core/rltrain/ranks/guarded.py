"""A process that waits for the one that works, so that the command's exit status is true.

What works imports simulators, libraries and plugins. Any of these can end its process with any
status, at any time: by `os._exit`, at exit, in C code. Only what another process heard before is
certain. The last functions are for processes that multiprocessing starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from rltrain.errors import UsageError
from rltrain.ranks.logs import flush
from rltrain.ranks.signals import REQUESTS, is_free, status_of
from rltrain.ranks.world import SAFE_PATH

_TO_EXIT = 30.0
"""Seconds that a process has to end once its work is done: threads, and exit handlers."""

_TO_LEAVE = 1.0
"""Seconds in which processes that the work has started end by themselves after it."""

_TO_STOP = 2.0
"""Seconds that these have after SIGTERM, before they are killed."""

_BY_TERMINAL = 128
"""SI_KERNEL: the terminal has sent a signal, to the process that works as well. Not so SIGHUP, if
this one is the session's leader."""

NO_GUARD = (
    "rltrain.train: processes that a script starts import it, and it calls rltrain.train again. "
    'Call it under `if __name__ == "__main__":`.'
)
UNGUARDED = os.EX_CONFIG
"""The exit status of a rank that could not import the script, because of that."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""In Linux's prctl.h."""


def guarded(work: Callable[[], int], mask: Iterable[int]) -> int:
    """Do the work in a process of its own, and end this one with the status that it has.

    Only the process that works returns. It gets each signal that is sent to this one. What it
    leaves running in this session ends with it.
    """
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
    if os.getpid() == worker:  # Not a copy that a task made, and left by an exception.
        os.write(writing, bytes([status & 255]))
        end_in_time(status)
    return status


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let Linux send this process a signal when the thread that has started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def end_in_time(status: int) -> None:
    """Bound the time that this process takes to end, now that its work is done.

    Python would wait for threads, for processes of multiprocessing and for exit handlers for ever.
    """
    timer = threading.Timer(_TO_EXIT, _end_late, (status,))
    timer.daemon = True
    timer.start()


def _end_late(status: int) -> None:
    processes: list[Any] = getattr(sys.modules.get("multiprocessing"), "active_children", list)()
    for each in (*threading.enumerate(), *processes):
        if not each.daemon and each is not threading.main_thread():
            frame = sys._current_frames().get(each.ident or 0)
            where = f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
            _say(f"{each.name!a} was left running, and is not waited for{where}")
    _say(f"the work is done, but its process did not end within {_TO_EXIT:.0f} s: ended.")
    flush(sys.stdout, sys.stderr)
    os._exit(status)


def _done(work: Callable[[], int], mask: Iterable[int]) -> int:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return work()
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
            return 1
        return error.code or 0


def _watch(worker: int, reading: int) -> NoReturn:
    """Wait until the work has ended, and end with its status."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signals = *REQUESTS, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCHLD
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    ended = None
    while (ended := _reap(worker)) is None:
        heard = signal.sigwaitinfo(signals)
        if heard.si_signo == signal.SIGTSTP:
            _stop()
        elif heard.si_signo != signal.SIGCHLD and (
            heard.si_code != _BY_TERMINAL or heard.si_signo == signal.SIGHUP
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, heard.si_signo)
    _end_helpers(quiet=-ended in REQUESTS)
    os.set_blocking(reading, False)
    with contextlib.suppress(BlockingIOError):  # Helpers of another session hold the pipe.
        if status := os.read(reading, 1):
            os._exit(status[0])
    if ended == 0:
        _say(
            "the process ended with status 0 before its work was done: something in it ended it, "
            "such as os._exit(0) or a simulator that was closed."
        )
        os._exit(1)
    if -ended in REQUESTS:
        number = signal.Signals(-ended)
        _say("interrupted." if number == signal.SIGINT else f"ended by {number.name}.")
        from rltrain.ranks.folders import remove_leftovers

        remove_leftovers()
        os._exit(status_of(number))
    os._exit(ended if ended > 0 else 128 - ended)


def _stop() -> None:
    """Stop as the terminal asks, with what has a process group of its own, and continue with it."""
    others = [*_helpers()]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        _send(others, number)
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
    deadline = time.monotonic() + _TO_LEAVE
    while (left := _helpers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    for name in () if quiet else left.values():
        _say(f"a process that the run has started was still there, and is ended: {name}")
    for number in (signal.SIGTERM, signal.SIGKILL):
        _send(left, number)
        deadline = time.monotonic() + _TO_STOP
        while (left := _helpers()) and time.monotonic() < deadline:
            time.sleep(0.02)


def _send(processes: Iterable[int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _helpers() -> dict[int, str]:
    """Return what runs below this process, orphans included, with its command line.

    A process with a session of its own, such as a browser's or a daemon's, was made to stay.
    """
    found: dict[int, str] = {}
    own, session, left = os.getpid(), os.getsid(0), [os.getpid()]
    while left:
        pid = left.pop()
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                left += map(int, children.read_text().split())
            # That of a zombie is empty.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
            if words and pid != own and os.getsid(pid) == session:
                found[pid] = f"{pid} ({ascii(words.decode(errors='replace'))[1:-1][:100]})"
    return found


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"rltrain: {text}\n".encode())


def refuse_in_import(distributed: bool) -> None:
    """Refuse to train while multiprocessing imports the script that started this process.

    If ranks are to be started, this process is one of them, and ends here: the launcher says why,
    once for all ranks.
    """
    # multiprocessing asks the same, to refuse processes that such an import would start.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if distributed:
            os._exit(UNGUARDED)
        raise UsageError(NO_GUARD)


def free_start_method() -> None:
    """Let a task start processes in a rank as it does alone: by that method, and with that path.

    multiprocessing fixes it in each process that it starts, as the one that started that process:
    the task could set no other, and what it starts would have to be pickled.
    """
    if (SAFE_PATH[0], os.environ.get(SAFE_PATH[0])) == SAFE_PATH:
        del os.environ[SAFE_PATH[0]]
    multiprocessing.set_start_method(None, force=True)
