"""The launchers of several nodes stay connected while their ranks run.

A node that fails, or that is not heard from for some seconds, ends the run on all nodes, and each
reports which one it was. Without this, gloo and NCCL wait for many minutes when a link is cut, and
never learn which machine it was. Node 0 is connected to all others, and passes on what one says.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from rltrain.config import Placement
from rltrain.errors import PeerLost, RankFailed, RltrainError
from rltrain.nodes.meeting import Line, Member, gather, node_of
from rltrain.terminal import plain

_POLL, _BEAT, _SILENCE = 0.1, 3.0, 15.0
"""Seconds between two polls, between two signs of life, and without any until a node is lost."""

_CAUSE_TIMEOUT = 10.0
"""Seconds to wait for a failed node's report after a rank has lost its peer there."""

_OWN_WORDS_TIMEOUT = 3.0
"""Seconds in which this node's ranks may fail by themselves after another node has failed: where
all of them refuse an option, each node prints why, and ends with the status of a usage error."""

_PARTING_TIMEOUT = 15.0
"""Seconds in which, after a failure, the other nodes must have ended their ranks too."""

_WORDS = 20_000
"""Length, in characters, to which a node's report is cut."""


@contextlib.contextmanager
def connected_nodes(config: Placement) -> Iterator[Callable[[], None]]:
    """Let the launchers of all nodes meet, and stay connected inside the context. Collective.

    For `Launcher.launch`, which calls the function that the context gives every second or so while
    its ranks run: it raises once another node has failed, or is lost. On one node it does nothing.

    Args:
        config: where the run runs.

    Raises:
        UsageError: a node is missing, or differs from node 0.
        RankFailed: another node failed, or was lost.
    """
    if config.nnodes == 1:
        yield lambda: None
        return
    member = node_of(config)
    lines = gather(member, config.master_addr, config.master_port, config.join_timeout)
    with contextlib.closing(_Lifeline(member, lines)) as lifeline:
        try:
            yield lifeline.check
        except BaseException as error:
            if isinstance(error, PeerLost):
                lifeline.failed.wait(_CAUSE_TIMEOUT)
            lifeline.part(error)
            if isinstance(error, PeerLost) and lifeline.cause is not None:
                raise lifeline.cause from None
            raise
        lifeline.part(None)
        if lifeline.cause is not None:
            raise lifeline.cause


class _Lifeline:
    """Hears the other nodes until all have ended, in a thread, which alone sends.

    `failed` is set once another node has failed; `cause` is then the error of this one.
    """

    def __init__(self, member: Member, lines: list[Line]) -> None:
        self.failed = threading.Event()
        self.cause: RankFailed | None = None
        self._member, self._lines = member, lines
        self._failed_at = 0.0
        self._last: dict[str, Any] | None = None
        """What this node reports when its ranks have ended."""
        self._thread = threading.Thread(target=self._run, name="rltrain-lifeline", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise if another node has failed, a moment ago."""
        if self.cause is not None and time.monotonic() - self._failed_at > _OWN_WORDS_TIMEOUT:
            raise self.cause

    def part(self, error: BaseException | None) -> None:
        """Report to the others how this node has ended, and wait until they have, too."""
        if error is None:
            self._last = {"ended": True}
            self._thread.join()
            return
        status = getattr(error, "exit_code", 1)
        if isinstance(error, KeyboardInterrupt):
            words, status = "was interrupted.", 128 + signal.SIGINT
        elif isinstance(error, RltrainError):
            words = f"failed. {error}"
        else:
            words = f"failed. {type(error).__name__} {error}"
        words = f"{self._member.title} {words}".rstrip()[:_WORDS]
        self._last = {"failed": words, "status": status}
        self._thread.join(_PARTING_TIMEOUT)

    def close(self) -> None:
        """End the connections."""
        for line in self._lines:
            line.end(socket.SHUT_RDWR)
        self._thread.join()
        for line in self._lines:
            line.close()

    def _run(self) -> None:
        is_root, has_parted, beat = self._member.number == 0, False, 0.0
        now = time.monotonic()
        for line in self._lines:
            line.connection.settimeout(_SILENCE)
            line.heard = now
        heard = {line.connection: line for line in self._lines}
        while heard or (is_root and not has_parted):
            ready = wait(heard, _POLL)
            heard = {key: line for key, line in heard.items() if self._hear(line, key in ready)}
            last = self._last
            if (now := time.monotonic()) - beat > _BEAT:
                beat = now
                self._send()
            # Node 0 ends last: until then it passes on why another one fails.
            if last and not has_parted and not (is_root and heard and "ended" in last):
                has_parted = True
                self._send(**last)
                for line in self._lines:
                    line.end()

    def _hear(self, line: Line, is_ready: bool) -> bool:
        """Take what another node reports; return whether more may come."""
        other = line.other
        assert other is not None, "they have met"
        try:
            if is_ready:
                line.read()
            for message in line.messages():
                match message:
                    case {"failed": str(words), "status": int(status)}:
                        self._fail(words, status)
                    case {"ended": True}:
                        line.has_ended = True
        except (OSError, ValueError):
            if not line.has_ended:
                why = "its launcher was killed, or the machine stopped"
                self._fail(f"{other.title} is gone: {why}.")
            return False
        if time.monotonic() - line.heard > _SILENCE:
            self._fail(f"{other.title} has not answered for {_SILENCE:g} s.")
            return False
        return True

    def _fail(self, words: str, status: int = 1) -> None:
        """Let all nodes know of the first failure."""
        if self.cause is None:
            self._failed_at = time.monotonic()
            self.cause = RankFailed(plain(words), exit_code=status)
            if self._member.number == 0:
                self._send(failed=words, status=status)
            self.failed.set()

    def _send(self, **message: Any) -> None:
        for line in self._lines:
            line.send(**message)
