"""What a backend remembers of a rank's last collectives, asked for while the rank hangs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

__all__ = ["describing", "last_collectives"]

_ANSWER = 1.0
"""Seconds in which ranks answer. One that is stopped, or holds the interpreter, does not."""

_ASK, _END = b"?", b"."


@contextlib.contextmanager
def describing(pulse: Path, describe: Callable[[], str]) -> Iterator[None]:
    """Describe this rank's last collectives when asked, in a thread that sleeps until then.

    Args:
        pulse: the file with the rank's pulse.
        describe: returns the description; called in the thread.
    """
    pipe = _pipe(pulse)
    os.mkfifo(pipe, 0o600)
    # Open for writing too: then opening waits for nobody, and reading meets no end.
    descriptor = os.open(pipe, os.O_RDWR)
    arguments = (descriptor, _answer(pulse), describe)
    threading.Thread(target=_listen, args=arguments, name="rltrain-answers", daemon=True).start()
    try:
        yield
    finally:
        pipe.unlink(missing_ok=True)
        os.write(descriptor, _END)


def last_collectives(pulses: Mapping[int, Path]) -> dict[int, str]:
    """Ask ranks for their last collectives, and return what those say that answer.

    Args:
        pulses: the files with their pulses, by rank.
    """
    asked = {rank: _answer(pulse) for rank, pulse in pulses.items() if _ask(pulse)}
    deadline = time.monotonic() + _ANSWER
    while time.monotonic() < deadline and not all(path.exists() for path in asked.values()):
        time.sleep(0.02)
    answers = {rank: path.read_text() for rank, path in asked.items() if path.exists()}
    return {rank: answer for rank, answer in answers.items() if answer}


def _pipe(pulse: Path) -> Path:
    return pulse.with_suffix(".ask")


def _answer(pulse: Path) -> Path:
    return pulse.with_suffix(".collectives")


def _ask(pulse: Path) -> bool:
    """Return whether there is somebody to ask."""
    _answer(pulse).unlink(missing_ok=True)
    try:
        pipe = os.open(_pipe(pulse), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False  # It has no pipe, or has ended.
    try:
        os.write(pipe, _ASK)
    except OSError:
        return False
    finally:
        os.close(pipe)
    return True


def _listen(descriptor: int, answer: Path, describe: Callable[[], str]) -> None:
    while os.read(descriptor, 1) == _ASK:
        try:
            text = describe()
        except Exception as error:
            text = f"They could not be read: {type(error).__name__}: {error}"
        partial = answer.with_suffix(".partial")
        with contextlib.suppress(OSError):  # The folder may be gone, or its disk full.
            partial.write_text(text)
            os.replace(partial, answer)
    os.close(descriptor)
