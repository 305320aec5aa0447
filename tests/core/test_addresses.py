"""Addresses: how they are written, and by which address and interface another one is reached."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from rltrain.config import endpoint
from rltrain.nodes import interface_towards, is_loopback
from rltrain.ranks.machine import address_towards, own_address


def test_this_machine_is_reached_over_loopback():
    for host in ("127.0.0.1", "::1"):
        assert address_towards(host) == host
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        assert interface_towards(host) == "lo"
    assert interface_towards("::1") in ("lo", None)  # Some machines have no IPv6.


def test_another_one_is_reached_by_an_interface_of_this_machine():
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
