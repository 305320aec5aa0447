"""What launchers tell each other after the meeting, over a connection that is theirs."""

from __future__ import annotations

from dataclasses import dataclass

from rltrain_nodes.messages import BadMessage, parse_json, printable_name, printable_text

__all__ = ["File", "Refused", "Request", "Said", "parse_message"]

_PATH = 4096
"""Longest path, in characters."""


class Refused(str):
    """Why a node failed, if it has refused what its user asked for."""

    __slots__ = ()


@dataclass(frozen=True)
class Said:
    """A rank has shown this to the user of its node."""

    text: str


@dataclass(frozen=True)
class Request:
    """Node 0 asks for the files of the run folder."""

    mark: str
    """A file that a node finds in its own run folder if the nodes share the disk; "" if node 0 has
    no place for files."""


@dataclass(frozen=True)
class File:
    """A file comes: so many bytes after the line."""

    name: str
    size: int


def parse_message(line: bytes) -> str | Said | Request | File | None:
    """Return what a launcher says after the meeting.

    A text is why its node failed; None means that no more files come.
    """
    message = parse_json(line)
    if message is None:
        return None
    if isinstance(message, str):
        return printable_text(message)
    if not isinstance(message, dict):
        raise BadMessage("it is no message")
    names = set(message)
    if names == {"say"}:
        return Said(printable_text(message["say"]))
    if names == {"refused"}:
        return Refused(printable_text(message["refused"]))
    if names == {"mark"}:
        mark = printable_name(message["mark"])
        if "/" in mark or mark in (".", ".."):
            raise BadMessage("its mark is in another folder")
        return Request(mark)
    size = message.get("size")
    if names != {"name", "size"} or type(size) is not int or size < 0:
        raise BadMessage("it is no message")
    name = message["name"]
    if not isinstance(name, str) or not name or len(name) > _PATH or "\0" in name:
        raise BadMessage("it names no file")
    return File(name, size)
