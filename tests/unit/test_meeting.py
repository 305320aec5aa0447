"""Ranks, or nodes, meet before a framework starts, and by which address and interface."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import FAMILIES, free_port
from messages import check_said, says

from rltrain.config import Placement, endpoint
from rltrain.errors import UsageError
from rltrain.nodes import Member, interface_towards, is_loopback, meet, meeting
from rltrain.nodes.meeting import refuse
from rltrain.ranks.machine import address_towards, own_address
from rltrain.types import World


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """After a failure, late members are not expected for seconds."""
    monkeypatch.setattr(meeting, "_LINGER", 0.5)
    monkeypatch.setattr(meeting, "_SLACK", 1.0)


def met(members, host="127.0.0.1", timeout=30.0) -> list[str]:
    """Let members meet, each in a thread; return each one's error message."""
    port = free_port(host)

    def one(member):
        try:
            meet(member, host, port, timeout)
        except UsageError as error:
            return str(error).replace(f":{port}", ":PORT")
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


@pytest.mark.slow
def test_all_present_ranks_name_the_missing_ones():
    messages = met(ranks(0, 2, of=5), timeout=1.0)
    assert len(set(messages)) == 1
    check_said(messages[0])


def test_the_other_ranks_report_a_missing_rank_0():
    (message,) = met(ranks(1, of=2), timeout=0.5)
    check_said(message)


def test_number_0_is_waited_for_until_its_name_resolves(monkeypatch):
    found, begun = socket.getaddrinfo, []

    def look_up(host, *arguments):
        begun.append(host)
        if len(begun) < 3:
            raise socket.gaierror("not yet")
        return found(host, *arguments)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert met(ranks(0, 1, of=2)) == ["", ""]
    assert len(begun) == 3
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"Rank 0 did not answer within 0\.2 s .*: .*known"):
        meet(*ranks(1, of=2), "no-such-host.invalid", 9, 0.2)


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
        port = server.getsockname()[1]
        with says(UsageError, PORT=port):
            meet(*ranks(1, of=2), "127.0.0.1", port, 0.5)
        server.shutdown(socket.SHUT_RDWR)


def nodes(*hosts, of, facts=None):
    numbers = {"a": 0, "b": 1}
    return [Member("node", numbers[h], of, {"rltrain": h} if facts else {}, host=h) for h in hosts]


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (nodes("a", "b", "b", of=4), "Two nodes have the number 1; the second is b."),
        (
            [*ranks(0, of=4), *ranks(1, of=2)],
            "Rank 1 (m1) is one of 2, and rank 0 (m0) is one of 4.",
        ),
        (nodes("a", "b", of=2, facts=True), "Node 1 (b) has rltrain b, and node 0 (a) has a."),
    ],
)
def test_what_differs_is_named(members, told):
    assert all(told in text for text in met(members))


def test_a_loopback_address_is_explained_to_nodes_that_miss_each_other():
    (message,) = met([Member("node", 0, 2, host="a")], timeout=0.1)
    check_said(message)
    (message,) = met(ranks(0, of=2), timeout=0.1)
    assert "the node itself" not in message


def test_a_number_0_that_is_not_at_the_address_is_told_so():
    there = "192.0.2.1"  # An address of documentation, which no machine has.
    with says(UsageError, PORT=(port := free_port())):
        meet(Member("node", 0, 2, host="b"), there, port, 0.1)


STRANGERS = (
    *(b"", b"GET / HTTP/1.1\n", b"3\n", b"\xff\xfe\n", b'{"member": {"kind": "rank", "num'),
    b'{"kind": "rank", "number": "1", "count": 2, "facts": {}, "host": "a", "refused": ""}\n',
    *(b"[" * 10_000 + b"\n", b"x" * 2_000_000),
)


@contextlib.contextmanager
def waiting(member, timeout=30.0):
    """Let number 0 wait in a thread; yield its port, and a function that returns its error."""
    port = free_port()
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(meet, member, "127.0.0.1", port, timeout)
        yield port, lambda: result.exception(30)


def stranger_at(port, words):
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
    with contextlib.suppress(ConnectionError):
        stranger.sendall(words)
    return stranger


def test_stray_connections_cost_no_time():
    first, second = ranks(0, 1, of=2)
    with contextlib.ExitStack() as opened, waiting(first) as (port, outcome):
        for words in STRANGERS:
            opened.enter_context(stranger_at(port, words))
        began = time.monotonic()
        meet(second, "127.0.0.1", port, 30.0)
        assert outcome() is None
        assert time.monotonic() - began < 5


@pytest.mark.slow
def test_a_number_0_that_says_nothing_costs_no_more_than_the_time_to_join():
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        with pytest.raises(UsageError, match=r"did not answer within 0\.5 s .*: timed out"):
            meet(*ranks(1, of=2), "127.0.0.1", server.getsockname()[1], 0.5)
        assert time.monotonic() - began < 5


def test_a_member_that_leaves_is_missing_again():
    hello = {"kind": "rank", "number": 1, "count": 3, "facts": {}, "host": "m1", "refused": ""}
    with waiting(*ranks(0, of=3)) as (port, outcome), ThreadPoolExecutor(1) as threads:
        with stranger_at(port, json.dumps(hello).encode() + b"\n"):
            time.sleep(0.3)
        time.sleep(0.3)
        second = threads.submit(meet, *ranks(2, of=3), "127.0.0.1", port, 30.0)
        meet(*ranks(1, of=3), "127.0.0.1", port, 30.0)
        assert second.exception(30) is outcome() is None


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}. Rank 0 cannot listen there"):
            meet(*ranks(0, of=2), "127.0.0.1", port, 30.0)


def does_not_start(number, of, port, words):
    placement = Placement(nnodes=of, node_rank=number, master_addr="127.0.0.1", master_port=port)
    refuse(placement, World(rank=number, world_size=of), words)


def test_all_learn_why_one_does_not_start():
    with waiting(*ranks(0, of=3)) as (port, outcome), ThreadPoolExecutor(1) as threads:
        second = threads.submit(meet, *ranks(1, of=3), "127.0.0.1", port, 30.0)
        does_not_start(2, 3, port, "no GPU\x1b[2J\nis visible")
        said = f"Rank 2 ({socket.gethostname()}) does not start: no GPU\\x1b[2J\nis visible"
        assert str(second.exception(30)) == str(outcome()) == said


def test_number_0_informs_all_others_why_it_does_not_start():
    port, began = free_port(), time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        others = [threads.submit(meet, each, "127.0.0.1", port, 30.0) for each in ranks(1, 2, of=3)]
        does_not_start(0, 3, port, "the disk is full")
        said = {str(each.exception(30)) for each in others}
    assert said == {f"Rank 0 ({socket.gethostname()}) does not start: the disk is full"}
    assert time.monotonic() - began < 30


def test_a_member_that_comes_after_a_failure_learns_of_it(monkeypatch):
    monkeypatch.setattr(meeting, "_LINGER", 3.0)
    with waiting(*ranks(0, of=3)) as (port, outcome):
        does_not_start(1, 3, port, "a flag is wrong")
        with pytest.raises(UsageError, match="a flag is wrong"):
            meet(*ranks(2, of=3), "127.0.0.1", port, 30.0)
        assert "a flag is wrong" in str(outcome())


@pytest.mark.slow
def test_those_that_wait_say_for_whom(monkeypatch, capsys):
    monkeypatch.setattr(meeting, "_FIRST", 0.5)
    members = nodes("a", "b", of=3)
    met(members, timeout=2.0)
    said = capsys.readouterr().out
    # Node 1 hears it from node 0.
    assert said.count("waiting for node 2 of 3 (") == 2
    met(members[1:], timeout=1.0)
    assert "waiting for node 0 at 127.0.0.1:" in capsys.readouterr().out


def test_this_machine_is_reached_over_loopback():
    for host in ("127.0.0.1", "::1"):
        assert address_towards(host) == host
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        assert interface_towards(host) == "lo"
    assert interface_towards("::1") in ("lo", None)  # Some machines have no IPv6.
    # Another one is reached by an interface of this machine.
    names = [name for _, name in socket.if_nameindex()]
    assert interface_towards("192.0.2.1") in [*names, None]


@pytest.mark.parametrize("host", ["nowhere.invalid", "300.0.0.1"])
def test_an_unknown_host_has_no_address_and_no_interface(host):
    assert address_towards(host) is interface_towards(host) is None


def test_own_address_is_no_loopback():
    own = own_address()
    if own is None:
        pytest.skip("this machine has no route to others")
    assert not ipaddress.ip_address(own).is_loopback


def test_ipv6_addresses_are_bracketed_and_only_loopback_is_loopback():
    assert endpoint("::1", 80) == "[::1]:80"
    assert [endpoint(host, 80) for host in ("10.0.0.1", "node-1")] == ["10.0.0.1:80", "node-1:80"]
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost")] == [True] * 3
    assert [is_loopback(host) for host in ("10.0.0.1", "fd00::1", "node-1")] == [False] * 3
