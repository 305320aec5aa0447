"""Those that connect to number 0 while members meet: members, and strangers.

All are served at once. A stranger may send nothing, half a message or anything else: it has a few
seconds and some bytes, and costs nobody else time.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Self

from rltrain.nodes import messages

ANSWER_TIMEOUT = 5.0
"""Seconds for an answer that should come at once."""

_HELLO = 16384
"""Longest hello, in bytes."""

_STRANGERS = 256
"""Most connections that have not said yet who they are; then the oldest one is closed."""


@dataclass(eq=False)
class Caller:
    """One that has connected."""

    connection: socket.socket
    address: str
    deadline: float = field(default_factory=lambda: time.monotonic() + ANSWER_TIMEOUT)
    said: bytearray = field(default_factory=bytearray)
    hello: messages.Hello | None = None
    """Who it is, once it has said so."""

    @property
    def member(self) -> messages.Member:
        """Who it is."""
        assert self.hello is not None, "it has said hello"
        return self.hello.member

    @property
    def refuses(self) -> str:
        """Why it does not take part; "" if it does."""
        return self.hello.refuses if self.hello is not None else ""


class Callers:
    """Accepts connections, and reads from all of them; `ignored` strangers were sent away."""

    def __init__(self, server: socket.socket) -> None:
        """Wait for callers."""
        self.ignored = 0
        self._server = server
        self._waiting = selectors.DefaultSelector()
        self._strangers: list[Caller] = []
        self._arrived: list[Caller] = []
        self._kept: dict[int, Caller] = {}
        self._gone: set[int] = set()
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        self._server.setblocking(False)
        self._waiting.register(self._server, selectors.EVENT_READ)
        return self

    def __exit__(self, *error: object) -> None:
        for caller in [*self._strangers, *self._arrived, *self._kept.values()]:
            caller.connection.close()
        self._waiting.close()

    def listen(self, seconds: float) -> None:
        """Serve everybody for some time; return when somebody has said something."""
        first = min((each.deadline for each in self._strangers), default=float("inf"))
        patience = min(seconds, first - time.monotonic())
        for key, _ in self._waiting.select(max(patience, 0.0)):
            if key.data is None:
                self._accept()
            elif key.data.connection.fileno() < 0:
                continue  # It was closed in this round.
            elif key.data.hello is None:
                self._read(key.data)
            else:
                self._leave(key.data)  # It has nothing to say before it is answered.
        now = time.monotonic()
        for each in [each for each in self._strangers if each.deadline < now]:
            self._ignore(each, "it did not say who it is")

    def arrived(self) -> list[Caller]:
        """Return the members that have come since the last call."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def gone(self) -> set[int]:
        """Return the numbers of members that were kept and have left since the last call."""
        gone, self._gone = self._gone, set()
        return gone

    def keep(self, caller: Caller, answer: messages.Answer) -> None:
        """Keep a member that has arrived, and say so."""
        self._answer(caller, answer)
        self._kept[caller.member.number] = caller

    def refuse(self, caller: Caller, answer: messages.Answer) -> None:
        """Say why a member cannot stay."""
        self._answer(caller, answer)
        self._close(caller)

    def answer_all(self, answer: messages.Answer) -> None:
        """Answer those that were kept."""
        for caller in self._kept.values():
            self._answer(caller, answer)

    def take(self) -> list[tuple[socket.socket, messages.Member]]:
        """Return the connections of those that were kept, which are the caller's from now on."""
        kept, self._kept = self._kept, {}
        for each in kept.values():
            each.connection.setblocking(True)
        return [(each.connection, each.member) for each in kept.values()]

    def _accept(self) -> None:
        try:
            connection, address = self._server.accept()
        except BlockingIOError:
            return
        except OSError:  # It has gone already, or there are no descriptors left.
            if self._strangers:
                self._ignore(self._strangers[0], "there are too many")
            return
        connection.setblocking(False)
        caller = Caller(connection, str(address[0]))
        self._waiting.register(connection, selectors.EVENT_READ, caller)
        self._strangers.append(caller)
        if len(self._strangers) > _STRANGERS:
            self._ignore(self._strangers[0], "there are too many")

    def _read(self, caller: Caller) -> None:
        try:
            more = caller.connection.recv(_HELLO)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        caller.said += more
        if not more or len(caller.said) > _HELLO:
            self._ignore(caller, "it did not say who it is")
        elif b"\n" in more:
            try:
                caller.hello = messages.parse_hello(bytes(caller.said))
            except messages.BadMessage:
                self._ignore(caller, "it does not speak rltrain's protocol")
            else:
                self._strangers.remove(caller)
                self._arrived.append(caller)

    def _answer(self, caller: Caller, answer: messages.Answer) -> None:
        with contextlib.suppress(OSError):
            caller.connection.send(messages.pack_answer(answer))

    def _ignore(self, caller: Caller, why: str) -> None:
        if why not in self._told:  # Once: there may be thousands.
            text = f"{caller.address} has connected and is none of this run's: {why}. It is ignored"
            print(text, file=sys.stderr, flush=True)
        self._told.add(why)
        self.ignored += 1
        self._strangers.remove(caller)
        self._close(caller)

    def _leave(self, caller: Caller) -> None:
        if caller in self._arrived:
            self._arrived.remove(caller)
        elif self._kept.get(caller.member.number) is caller:
            del self._kept[caller.member.number]
            self._gone.add(caller.member.number)
        self._close(caller)

    def _close(self, caller: Caller) -> None:
        self._waiting.unregister(caller.connection)
        caller.connection.close()
