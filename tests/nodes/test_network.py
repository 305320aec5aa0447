"""Which interface leads to the master."""

from __future__ import annotations

import socket

import pytest

from rltrain.nodes import interface_towards, is_loopback


def test_this_machine_is_reached_over_loopback():
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("localhost") == "lo"
    assert interface_towards("127.0.0.2") == "lo"
    assert interface_towards("::1") in ("lo", None)  # Some machines have no IPv6.


def test_the_result_is_an_interface_of_this_machine():
    names = [name for _, name in socket.if_nameindex()]
    assert interface_towards("192.0.2.1") in [*names, None]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "300.0.0.1"])
def test_an_unknown_interface_is_none(host):
    assert interface_towards(host) is None


def test_only_loopback_is_loopback():
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost")] == [True] * 3
    assert [is_loopback(host) for host in ("10.0.0.1", "fd00::1", "node-1")] == [False] * 3
