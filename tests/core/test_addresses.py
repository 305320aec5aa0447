"""Addresses, and how they are written."""

from __future__ import annotations

import ipaddress

import pytest

from rltrain.config import endpoint
from rltrain.ranks.machine import address_towards, own_address


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_this_machine_is_reached_over_loopback(host):
    assert address_towards(host) == host


def test_an_unknown_host_has_no_address():
    assert address_towards("nowhere.invalid") is None


def test_ipv6_addresses_are_bracketed():
    assert endpoint("::1", 80) == "[::1]:80"
    assert endpoint("10.0.0.1", 80) == "10.0.0.1:80"
    assert endpoint("node-1", 80) == "node-1:80"


def test_own_address_is_no_loopback():
    own = own_address()
    if own is None:
        pytest.skip("this machine has no route to others")
    assert not ipaddress.ip_address(own).is_loopback
