"""What reaches a terminal or a page: text of others, without what would control it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, cast

__all__ = ["in_bytes", "note", "one_line", "plain", "plain_output", "plain_stream", "raw"]

_CONTROLS = re.compile(
    # C0 without the end of a line, DEL and C1; what ends lines or turns the direction of writing
    # in Unicode; halves of characters, which have no encoding.
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Return a text whose control characters are visible; ends of lines are left.

    Examples:
        >>> print(plain("\x1b[31mred"))
        \x1b[31mred
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    r"""Return a text for one line: ends of lines are visible, too."""
    return plain(text).replace("\n", r"\n")


def note(text: str) -> None:
    """Print a line for the user, on stderr."""
    print(f"rltrain: {text}", file=sys.stderr, flush=True)


def in_bytes(count: float) -> str:
    """Return a number of bytes with two or more digits: "1.5 GB"."""
    units = ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)
    unit, size = next((each for each in units if count >= each[1]), units[-1])
    number = count / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:.0f} {unit}"


class _PlainStream:
    """A stream that writes plain text."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        self.raw.write(plain(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def plain_stream(stream: TextIO) -> TextIO:
    """Return a stream that writes plain text to another one."""
    return stream if isinstance(stream, _PlainStream) else cast(TextIO, _PlainStream(stream))


def raw(stream: TextIO) -> TextIO:
    """Return the stream below a plain one: for what renders, and for programs of the user."""
    return stream.raw if isinstance(stream, _PlainStream) else stream


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Let everything that this process prints in the context be plain."""
    with (
        contextlib.redirect_stdout(plain_stream(sys.stdout)),
        contextlib.redirect_stderr(plain_stream(sys.stderr)),
    ):
        yield


_results: list[str] | None = None
"""What `print_json` was given in the context of `json_alone`."""


@contextlib.contextmanager
def json_alone(asked: bool = True) -> Iterator[None]:
    """Leave stdout to `print_json`: what else is printed, from C and by children too, is on stderr.

    The JSON is printed at the end of the outermost context.
    """
    global _results
    if not asked or _results is not None:
        yield
        return
    sys.stdout.flush()
    stdout, _results = os.dup(1), []
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        found, _results = _results, None
        for text in found:
            print(text)


def print_json(value: Any) -> None:
    """Print JSON, with null for NaN and infinity, and any other object as text."""
    text = json.dumps(finite(value), indent=2, default=str)
    print(text) if _results is None else _results.append(text)


def finite(value: Any) -> Any:
    """Return what JSON can hold: None instead of NaN and infinity, here and below."""
    if isinstance(value, Mapping):
        return {key: finite(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(below) for below in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
