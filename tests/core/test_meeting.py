"""Ranks, or nodes, meet before a framework starts."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltrain.errors import UsageError
from rltrain.launch.meeting import Member, meet

FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "localhost": socket.AF_INET}


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(FAMILIES[host]) as found:
        try:
            found.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        return found.getsockname()[1]


def met(members, host="127.0.0.1", timeout=30.0) -> list[str]:
    """Let members meet, each in a thread; return each one's error message."""
    port = free_port(host)

    def one(member):
        try:
            meet(member, host, port, timeout)
        except UsageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(members)) as threads:
        messages = list(threads.map(one, members))
    with socket.create_server((host, port), family=FAMILIES[host]):
        return messages  # The port is free for the framework.


def ranks(*numbers, of):
    return [Member("rank", number, of, host=f"m{number}") for number in numbers]


@pytest.mark.parametrize("host", FAMILIES)
def test_all_ranks_meet(host):
    assert met(ranks(0, 1, 2, 3, of=4), host) == [""] * 4


def test_ranks_meet_in_any_order_of_arrival():
    port = free_port()
    second, first = ranks(1, 0, of=2)
    early = threading.Thread(target=meet, args=(second, "127.0.0.1", port, 30.0))
    early.start()
    meet(first, "127.0.0.1", port, 30.0)
    early.join(30)
    assert not early.is_alive()


def test_all_present_ranks_name_the_missing_ones():
    messages = met(ranks(0, 2, of=5), timeout=1.0)
    assert len(set(messages)) == 1
    assert messages[0].startswith("The ranks did not find each other at 127.0.0.1:")
    assert "Ranks 1, 3, 4 of 5 did not arrive within 1 s (--join-timeout). Check" in messages[0]


def test_the_other_ranks_report_a_missing_rank_0():
    (message,) = met(ranks(1, of=2), timeout=0.5)
    assert "Rank 0 did not answer within 0.5 s (--join-timeout): " in message
    assert "refused" in message


@pytest.mark.parametrize("words", [b"3\n", b"{}\n", b"[]\n"])
def test_another_program_at_the_port_is_no_rank_0(words):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        connection.sendall(words)
                        connection.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(UsageError, match=r"Rank 0 did not answer within 0\.5 s"):
            meet(*ranks(1, of=2), "127.0.0.1", server.getsockname()[1], 0.5)
        server.shutdown(socket.SHUT_RDWR)


def test_two_nodes_with_the_same_number_are_reported():
    nodes = [Member("node", number, 4, host=host) for number, host in ((0, "a"), (1, "b"))]
    messages = met([*nodes, Member("node", 1, 4, host="b")])
    assert all("Two nodes have the number 1; the second is b." in text for text in messages)


def test_another_number_of_members_is_reported():
    messages = met([*ranks(0, of=4), *ranks(1, of=2)])
    assert all("Rank 1 (m1) is one of 2, and rank 0 (m0) is one of 4." in text for text in messages)


def test_a_loopback_address_is_explained_to_nodes_that_miss_each_other():
    (message,) = met([Member("node", 0, 2, host="a")], timeout=0.1)
    assert "On each node 127.0.0.1 is the node itself: give node 0's address. Check" in message
    (message,) = met(ranks(0, of=2), timeout=0.1)
    assert "the node itself" not in message


def test_a_number_0_that_is_not_at_the_address_is_told_so():
    there = "192.0.2.1"  # An address of documentation, which no machine has.
    with pytest.raises(
        UsageError, match=r"192\.0\.2\.1 is no address of b: is another node number"
    ):
        meet(Member("node", 0, 2, host="b"), there, free_port(), 0.1)


def test_what_differs_is_named():
    members = [Member("node", i, 2, {"rltrain": f"0.{i}"}, host=f"M{i}") for i in (0, 1)]
    messages = met(members)
    assert all("Node 1 (M1) has rltrain 0.1, and node 0 (M0) has 0.0." in text for text in messages)


def test_another_client_is_not_mistaken_for_a_rank():
    port = free_port()
    first, second = ranks(0, 1, of=2)
    rank_0 = threading.Thread(target=meet, args=(first, "127.0.0.1", port, 30.0))
    rank_0.start()
    stranger_words = (
        b"GET / HTTP/1.1\n",
        b"3\n",
        b"\xff\xfe\n",
        b"",
        b'{"kind": "rank", "number": "1", "count": 2}\n',
        b"x" * 100_000,
    )
    for words in stranger_words:
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                continue
            break
        with stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(words)
            if len(words) > 4096:
                stranger.settimeout(3)
                # It need not wait for the end of a line that is too long.
                assert stranger.recv(1) == b""
    meet(second, "127.0.0.1", port, 30.0)
    rank_0.join(30)
    assert not rank_0.is_alive()


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}. Rank 0 cannot listen there"):
            meet(*ranks(0, of=2), "127.0.0.1", port, 30.0)
