"""The connection between the launchers of two nodes, from their meeting to the end of the run.

`rltrain_nodes.said.parse_message` says what they tell each other.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

from rltrain_nodes.collecting import send_files, take_file
from rltrain_nodes.messages import BadMessage, Member
from rltrain_nodes.ports import end_when_silent
from rltrain_nodes.said import File, Refused, Request, Said, parse_message
from rltrain_nodes.wire import receive_line, send

__all__ = ["Line", "title"]

_MESSAGE_TIMEOUT = 30.0
"""Seconds in which a message that has begun must end."""

_BUSY = 600_000
"""Milliseconds for which a node that sends its files waits for node 0 to take them."""


def title(member: Member) -> str:
    """Return a node's name, to begin a sentence."""
    return f"Node {member.number} ({member.host})"


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
            words = f"{title(self.other)} is gone: its launcher was killed, or the machine stopped."
        except BadMessage as error:
            words = f"{title(self.other)} does not speak rltrain's protocol: {error}."
        except OSError as error:
            words = f"{title(self.other)} does not answer any more: {error.strerror or error}."
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
        """Ask for the node's files. On node 0, once its ranks have ended.

        Args:
            run_dir: where they go; "" asks for none.
            mark: a file in that folder.
        """
        self._run_dir = run_dir
        self._send({"mark": mark})

    def answer(self, run_dir: str) -> None:
        """Send this node's files, if node 0 has asked. On other nodes, once their ranks have ended.

        Args:
            run_dir: this node's own run folder: node 0 does not choose what is sent.
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
            print(f"{title(self.other)} {text} {self._run_dir}", file=sys.stderr, flush=True)

    def _send(self, message: object) -> None:
        with self._sending, contextlib.suppress(OSError):  # `hear` says so if it is lost.
            send(self.connection, message)

    def leave(self, seconds: float) -> None:
        """Wait no longer for a node that has fallen silent, although the run has ended well."""
        self.left = True
        text = f"{title(self.other)} has not answered for {seconds:.0f} s: it is not waited for."
        print(text, file=sys.stderr, flush=True)
        self.cut()

    def cut(self) -> None:
        """End the connection: `hear` returns."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
