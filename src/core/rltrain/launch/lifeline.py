"""The launchers of several nodes stay connected while their ranks run.

A node that fails, or that nobody hears of any more, ends the run on all nodes, and each says which
one it was. Without this, gloo and NCCL wait for many minutes when a link is cut, and never know
which machine it was.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rltrain.config import Placement
from rltrain.errors import PeerLost, RankFailed, RltrainError
from rltrain.launch.collecting import collect_logs, send_logs
from rltrain.launch.meeting import Member, gather, receive, send
from rltrain.launch.network import end_when_silent
from rltrain.launch.reports import ended_by_signal

__all__ = ["connected", "with_other_nodes"]

_CAUSE_TIMEOUT = 10.0
"""Seconds to wait for a failed node's own words after a rank has lost its peer there."""

_OWN_WORDS_TIMEOUT = 3.0
"""Seconds in which this node's ranks may fail by themselves after another node has failed: where
all of them refuse an option, each node prints why, and ends with the status of a usage error."""

_WORDS = 20_000
"""Length, in characters, to which a node's last words are cut."""


def with_other_nodes(config: Placement) -> contextlib.AbstractContextManager[Outcome]:
    """Return the context in which a launcher starts its ranks: see `connected`.

    Where nodes have no numbers before they meet, the launcher's own rendezvous must watch them.
    """
    if not config.nodes_are_numbered:
        return contextlib.nullcontext(Outcome())
    facts = {
        "rltrain": importlib.metadata.version("rltrain"),
        "--framework": config.framework,
        "--backend": config.backend,
        "--launcher": str(config.launcher),
    }
    node = Member("node", config.node_rank, config.nnodes, facts)
    return connected(node, *config.meeting_point, config.join_timeout)


@dataclass
class Outcome:
    """What a node's launcher has to say when its ranks have ended well."""

    run_dir: str = ""
    """The run folder, if rank 0 is on this node."""


@contextlib.contextmanager
def connected(member: Member, host: str, port: int, timeout: float) -> Iterator[Outcome]:
    """Let the launchers of all nodes meet, and stay connected inside the context. Collective.

    After it, node 0 has the logs of all ranks.

    Args:
        member: this node.
        host: of node 0.
        port: on that host. It is free again once the nodes have met.
        timeout: in seconds, for the meeting.

    Raises:
        UsageError: a node is missing, or differs from node 0.
        RankFailed: another node failed, or was lost.
    """
    lines = [_Line(*each) for each in gather(member, host, port, timeout)]
    watch, words, outcome = _Watch(lines), None, Outcome()
    try:
        with watch.ending_ranks():
            yield outcome
        watch.stop()
        watch.cause = watch.cause or next(
            filter(None, (line.finish(outcome) for line in lines)), None
        )
        if watch.cause is not None:
            watch.lost.set()
            raise PeerLost(watch.cause)
    except BaseException as error:
        if isinstance(error, PeerLost):
            watch.lost.wait(_CAUSE_TIMEOUT)
        words = watch.cause or _last_words(member, error)
        if watch.cause is not None and _is_consequence(error):
            raise RankFailed(watch.cause) from None
        raise
    finally:
        watch.stop()
        for line in lines:
            line.close(words)


class _Line:
    """An open connection to another node's launcher."""

    def __init__(self, connection: socket.socket, other: Member) -> None:
        self.connection, self.other = connection, other
        self._request: Mapping[str, Any] | None = None
        """What node 0 asks for once its ranks have ended well."""
        connection.settimeout(None)
        end_when_silent(connection)

    def cause(self) -> str | None:
        """Wait for the other node's words, and return why it failed; None if it did not."""
        return self._heard(lambda: receive(self.connection))

    def finish(self, outcome: Outcome) -> str | None:
        """Let node 0 have the logs that it lacks; return why the other node failed, if it did."""
        if self.other.number:
            return self._heard(lambda: collect_logs(self.connection, outcome.run_dir))
        if self._request is None and (cause := self.cause()) is not None:
            return cause
        return self._heard(lambda: send_logs(self.connection, self._request or {}))

    def _heard(self, listen: Callable[[], object]) -> str | None:
        try:
            words = listen()
        except (ValueError, ConnectionResetError):
            return f"{self} is gone: its launcher was killed, or the machine stopped."
        except OSError as error:
            return f"{self} does not answer any more: {error.strerror or error}."
        if isinstance(words, Mapping):
            self._request = words
            return None
        return str(words) if words else None

    def close(self, words: str | None) -> None:
        """Say why this node failed, if it did, and close the connection."""
        if words is not None:
            with contextlib.suppress(OSError):
                send(self.connection, words)
        self.connection.close()

    def __str__(self) -> str:
        return f"Node {self.other.number} ({self.other.host})"


class _Watch:
    """Waits for the first node that fails, and ends this node's ranks then.

    Attributes:
        lost: set once a node has failed.
        cause: which one, and why.
    """

    def __init__(self, lines: list[_Line]) -> None:
        self.cause: str | None = None
        self.lost = threading.Event()
        self._lines = lines
        self._thread = threading.Thread(target=self._wait, name="rltrain-lifeline", daemon=True)
        self._bell, self._rung = socket.socketpair()
        self._running = threading.Lock()
        """Held while ranks run that may be ended."""

    @contextlib.contextmanager
    def ending_ranks(self) -> Iterator[None]:
        """Watch the nodes, and raise in the main thread if one fails inside the context."""
        if threading.current_thread() is not threading.main_thread():
            self._thread.start()
            yield  # Python handles signals in the main thread only: the ranks must notice.
            return
        before = signal.signal(signal.SIGTERM, self._end)
        try:
            with self._running:
                self._thread.start()
                yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM while a launcher does not: a user may send it, too."""
        if self._running.locked():
            raise ended_by_signal(signal.SIGTERM)

    def _wait(self) -> None:
        """Wait for each node's end."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._rung, selectors.EVENT_READ)
            for line in self._lines:
                waiting.register(line.connection, selectors.EVENT_READ, line)
            while self.cause is None:
                for key, _ in waiting.select():
                    if key.data is None:
                        return
                    waiting.unregister(key.fileobj)
                    self.cause = self.cause or key.data.cause()
            self.lost.set()
            for line in self._lines:
                with contextlib.suppress(KeyError):
                    waiting.unregister(line.connection)
            over = waiting.select(_OWN_WORDS_TIMEOUT)
        if not over and self._running.locked():
            # The launcher ends its ranks, as if a user had sent the signal.
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        """End the thread; it may have ended."""
        self._bell.close()
        self._thread.join()
        self._rung.close()


def _is_consequence(error: BaseException) -> bool:
    """Whether this node only ended because another one had."""
    by_signal = 128 + signal.SIGTERM
    return isinstance(error, PeerLost) or getattr(error, "exit_code", None) == by_signal


def _last_words(member: Member, error: BaseException) -> str:
    node = f"Node {member.number} ({member.host})"
    if isinstance(error, KeyboardInterrupt):
        return f"{node} was interrupted."
    what = str(error) if isinstance(error, RltrainError) else f"{type(error).__name__} {error}"
    return f"{node} failed. {what}".rstrip()[:_WORDS]
