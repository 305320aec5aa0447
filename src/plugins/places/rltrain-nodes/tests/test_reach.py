"""Those that have met try whether they reach each other."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltrain_nodes import reach
from rltrain_nodes.messages import BadMessage, Member, receive_line, send
from rltrain_nodes.reach import unreached

NODES = [Member("node", number, 2, host=f"m{number}") for number in (0, 1)]


@pytest.fixture
def pair():
    """Two ends of a connection: number 0's, and the other's."""
    ends = socket.socketpair()
    with ends[0], ends[1]:
        yield ends


@pytest.fixture(autouse=True)
def _on_this_machine(monkeypatch):
    monkeypatch.setattr(reach, "_own_address", lambda master: "127.0.0.1")


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def both(pair, other):
    """Let number 0 try with another one; return both results."""
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(other, pair[1])
        return unreached(NODES[0], [(pair[0], NODES[1])], "127.0.0.1"), second.result(30)


def test_one_machine_reaches_itself(pair):
    other = lambda end: unreached(NODES[1], [(end, NODES[0])], "127.0.0.1")  # noqa: E731
    assert both(pair, other) == ("", "")


def test_who_does_not_reach_whom_is_said_to_both(pair):
    port = closed_port()

    def other(end):
        send(end, {"address": "127.0.0.2", "port": port})
        asked = json.loads(receive_line(end, 30))
        send(end, {"failed": {"0": "timed\x1b out"}})
        return asked, json.loads(receive_line(end, 30))

    words, (asked, told) = both(pair, other)
    assert sorted(number for number, *_ in asked["try"]) == [0, 1]
    refused = f"Node 0 (m0) does not reach node 1 (m1) at 127.0.0.2:{port}: Connection refused; "
    assert words.startswith(f"{refused}node 1 (m1) does not reach node 0 (m0) at 127.0.0.1:")
    assert ": timed\\x1b out. A firewall may let the master's port through" in words
    assert told == {"unreached": words}


@pytest.mark.parametrize("port", [0, 1 << 16, True, "80"])
def test_a_port_that_is_none_is_refused(pair, port):
    send(pair[1], {"address": "127.0.0.1", "port": port})
    with pytest.raises(BadMessage, match="no such port"):
        unreached(NODES[0], [(pair[0], NODES[1])], "127.0.0.1")


@pytest.mark.parametrize("said", [b"3\n", b"{}\n", b'{"address": "x", "port": 1}\n', b"[[\n"])
def test_words_that_are_none_are_refused(pair, said):
    pair[1].sendall(said)
    with pytest.raises(BadMessage):
        unreached(NODES[0], [(pair[0], NODES[1])], "127.0.0.1")
