"""Which interface leads to the master."""

from __future__ import annotations

import socket

import pytest

from rltrain.launch.network import interface_towards


def test_this_machine_is_reached_over_loopback():
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("localhost") == "lo"
    assert interface_towards("127.0.0.2") == "lo"


def test_the_result_is_an_interface_of_this_machine():
    names = [name for _, name in socket.if_nameindex()]
    assert interface_towards("192.0.2.1") in [*names, None]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "::1", "300.0.0.1"])
def test_an_unknown_interface_is_none(host):
    assert interface_towards(host) is None
