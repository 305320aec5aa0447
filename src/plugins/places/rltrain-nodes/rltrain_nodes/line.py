"""What the launchers of two nodes tell each other, from their meeting to the end of the run."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from dataclasses import dataclass

from rltrain_nodes.collecting import send_files, take_file
from rltrain_nodes.messages import (
    BadMessage,
    Member,
    parse_json,
    printable_name,
    printable_text,
    receive_line,
    send,
)
from rltrain_nodes.network import end_when_silent

_MESSAGE_TIMEOUT = 30.0
"""Seconds in which a message that has begun must end."""

_BUSY = 600_000
"""Milliseconds for which a node that sends its files waits for node 0 to take them."""

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


class Line:
    """An open connection to another node's launcher.

    Attributes:
        connection: to it.
        other: who that is.
        complete: whether all files have come, or have been sent.
        over: whether nothing more will come.
        heard: when the last message came.
        left: whether it is not waited for any more.
    """

    def __init__(self, connection: socket.socket, other: Member) -> None:
        self.connection, self.other = connection, other
        self.complete = self.over = self.left = False
        self.heard = time.monotonic()
        self._run_dir: str | None = None
        self._request: Request | None = None
        self._told = False
        self._sending = threading.Lock()
        connection.settimeout(None)
        end_when_silent(connection)

    def hear(self) -> str | None:
        """Take the next message, and return which node failed and why, if one did."""
        try:
            found = self._take(parse_message(receive_line(self.connection, _MESSAGE_TIMEOUT)))
            self.heard = time.monotonic()
            return found
        except (ConnectionError, EOFError):
            words = f"{self.other.title} is gone: its launcher was killed, or the machine stopped."
        except BadMessage as error:
            words = f"{self.other.title} does not speak rltrain's protocol: {error}."
        except OSError as error:
            words = f"{self.other.title} does not answer any more: {error.strerror or error}."
        self.over = True
        with self._sending:  # What is being sent may be the last that the other side waits for.
            return None if self.complete or self.left else words

    def _take(self, message: str | Said | Request | File | None) -> str | None:
        match message:
            case None:
                self.complete = self.over = True
            case Said(""):
                pass  # A sign of life.
            case Said(text):
                words = f"node {self.other.number} ({self.other.host}): {text}"
                print(words, file=sys.stderr, flush=True)
            case File(name, size) if self._run_dir:
                take_file(self.connection, self._run_dir, name, size)
            case File():
                raise BadMessage("nobody has asked for a file")
            case Request():
                self._request = message
            case _:
                return message
        return None

    def tell(self, cause: str) -> None:
        """Say which node failed and why. Only the first cause is sent."""
        if not self._told:
            self._told = True
            self._send({"refused": cause} if isinstance(cause, Refused) else cause)

    def say(self, text: str) -> None:
        """Let node 0 show something to the user; "" is a sign of life."""
        self._send({"say": text})

    def ask(self, run_dir: str, mark: str) -> None:
        """Ask for the node's files, for a folder with a mark. On node 0, once its ranks have ended.

        A folder "" asks for none.
        """
        self._run_dir = run_dir
        self._send({"mark": mark})

    def answer(self, run_dir: str) -> None:
        """Send this node's files, if node 0 has asked. On other nodes, once their ranks have ended.

        The folder is this node's own: node 0 does not choose what is sent.
        """
        request, self._request = self._request, None
        if request is None:
            return
        with self._sending:
            try:
                # Node 0 may take the files of others first.
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _BUSY)
                send_files(self.connection, run_dir, request.mark)
                self.complete = True
            except OSError:
                self.cut()

    def report_missing_files(self) -> None:
        """Warn if the node has not sent its files. On node 0."""
        if not self.complete and self._run_dir:
            text = "did not send its files: unless it shares the disk, its logs are not in"
            print(f"{self.other.title} {text} {self._run_dir}", file=sys.stderr, flush=True)

    def _send(self, message: object) -> None:
        with self._sending, contextlib.suppress(OSError):  # `hear` says so if it is lost.
            send(self.connection, message)

    def leave(self, seconds: float) -> None:
        """Wait no longer for a node that has fallen silent, although the run has ended well."""
        self.left = True
        text = f"{self.other.title} has not answered for {seconds:.0f} s: it is not waited for."
        print(text, file=sys.stderr, flush=True)
        self.cut()

    def cut(self) -> None:
        """End the connection: `hear` returns."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
