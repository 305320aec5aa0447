"""The connection between the launchers of two nodes, from their meeting to the end of the run.

Each message is a line of JSON:

- a string: why a node failed;
- `{"say": TEXT}`: a rank has shown this to the user of its node, and node 0 shows it to its own;
- `{"run_dir": PATH, "mark": NAME}`: node 0 asks for the files of the run folder;
- `{"name": NAME, "size": SIZE}`, and so many bytes: one of them;
- null: there are no more.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from rltrain.launch.collecting import send_files, take_file
from rltrain.launch.meeting import Member, receive, send
from rltrain.launch.network import end_when_silent

__all__ = ["Line", "title"]

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
    """

    def __init__(self, connection: socket.socket, other: Member) -> None:
        self.connection, self.other = connection, other
        self.complete = self.over = False
        self._request: Mapping[str, str] | None = None
        self._told = False
        self._sending = threading.Lock()
        connection.settimeout(None)
        end_when_silent(connection)

    def hear(self) -> str | None:
        """Take the next message, and return which node failed and why, if one did."""
        try:
            return self._take(receive(self.connection))
        except (ValueError, ConnectionResetError):
            words = f"{title(self.other)} is gone: its launcher was killed, or the machine stopped."
        except OSError as error:
            words = f"{title(self.other)} does not answer any more: {error.strerror or error}."
        self.over = True
        with self._sending:  # What is being sent may be the last that the other side waits for.
            return None if self.complete else words

    def _take(self, message: Any) -> str | None:
        if isinstance(message, str):
            return message
        if message is None:
            self.complete = self.over = True
        elif "say" in message:
            words = f"node {self.other.number} ({self.other.host}): {message['say']}"
            print(words, file=sys.stderr, flush=True)
        elif "name" in message:
            run_dir = (self._request or {})["run_dir"]
            take_file(self.connection, run_dir, str(message["name"]), int(message["size"]))
        else:
            self._request = message
        return None

    def tell(self, cause: str) -> None:
        """Say which node failed and why. Only the first cause is sent."""
        if not self._told:
            self._told = True
            self._send(cause)

    def say(self, text: str) -> None:
        """Let node 0 show something to the user."""
        self._send({"say": text})

    def ask(self, request: Mapping[str, str]) -> None:
        """Ask for the node's files. On node 0, once its ranks have ended."""
        self._request = request
        self._send(request)

    def answer(self) -> None:
        """Send the files, if node 0 has asked. On other nodes, once their ranks have ended."""
        request, self._request = self._request, None
        if request is None:
            return
        with self._sending:
            try:
                # Node 0 may take the files of others first.
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _BUSY)
                send_files(self.connection, request)
                self.complete = True
            except OSError:
                self.cut()

    def report_missing_files(self) -> None:
        """Warn if the node has not sent its files. On node 0."""
        if not self.complete and (run_dir := (self._request or {}).get("run_dir")):
            text = "did not send its files: unless it shares the disk, its logs are not in"
            print(f"{title(self.other)} {text} {run_dir}", file=sys.stderr, flush=True)

    def _send(self, message: object) -> None:
        with self._sending, contextlib.suppress(OSError):  # `hear` says so if it is lost.
            send(self.connection, message)

    def cut(self) -> None:
        """End the connection: `hear` returns."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
