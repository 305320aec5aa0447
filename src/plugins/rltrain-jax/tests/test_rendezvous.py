"""The roll call before jax is initialized."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltrain.errors import UsageError
from rltrain.types import World
from rltrain_jax.rendezvous import meet

FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "localhost": socket.AF_INET}


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(FAMILIES[host]) as found:
        try:
            found.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        return found.getsockname()[1]


def met(worlds, host="127.0.0.1", timeout=30.0) -> list[str]:
    """Let ranks meet, each in a thread; return each one's error message."""
    port = free_port(host)

    def one(world):
        try:
            meet(world, host, port, timeout)
        except UsageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(worlds)) as threads:
        messages = list(threads.map(one, worlds))
    with socket.create_server((host, port), family=FAMILIES[host]):
        return messages  # The port is free for jax.


def worlds(*ranks, of):
    return [World(rank, world_size=of) for rank in ranks]


@pytest.mark.parametrize("host", FAMILIES)
def test_all_ranks_meet(host):
    assert met(worlds(0, 1, 2, 3, of=4), host) == [""] * 4


def test_ranks_meet_in_any_order_of_arrival():
    port = free_port()
    early = threading.Thread(target=meet, args=(World(1, world_size=2), "127.0.0.1", port))
    early.start()
    meet(World(0, world_size=2), "127.0.0.1", port)
    early.join(30)
    assert not early.is_alive()


def test_all_present_ranks_name_the_missing_ones():
    messages = met(worlds(0, 2, of=5), timeout=1.0)
    assert len(set(messages)) == 1
    assert messages[0].startswith("The ranks did not find each other at 127.0.0.1:")
    assert "Ranks 1, 3, 4 of 5 did not connect. Check --nnodes" in messages[0]


def test_the_other_ranks_report_a_missing_rank_0():
    (message,) = met(worlds(1, of=2), timeout=0.5)
    assert "Rank 0 did not answer: " in message
    assert "refused" in message


def test_two_nodes_with_the_same_rank_are_reported():
    messages = met(worlds(0, 1, 1, of=4))
    assert all(
        "Rank 1 connected twice: two nodes have the same --node-rank." in text for text in messages
    )


def test_nodes_that_start_different_numbers_of_ranks_are_reported():
    messages = met([World(0, world_size=4), World(1, world_size=2)])
    assert all("Rank 1 has a world size of 2, and rank 0 has 4" in text for text in messages)


def test_another_client_is_not_mistaken_for_a_rank():
    port = free_port()
    rank_0 = threading.Thread(target=meet, args=(World(0, world_size=2), "127.0.0.1", port))
    rank_0.start()
    for words in (b"GET / HTTP/1.1\n", b"3\n", b"\xff\xfe\n", b""):
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                continue
            break
        with stranger:
            stranger.sendall(words)
    meet(World(1, world_size=2), "127.0.0.1", port)
    rank_0.join(30)
    assert not rank_0.is_alive()


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}. Rank 0 cannot listen there"):
            meet(World(0, world_size=2), "127.0.0.1", port)
