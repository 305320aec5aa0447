"""Which interface leads to the master."""

from __future__ import annotations

import socket

import pytest

from rltrain.errors import UsageError
from rltrain.machine.network import interface_towards, wait_for_host


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


def test_a_host_is_waited_for_until_its_name_resolves(monkeypatch, capsys):
    answers = iter([OSError("not yet"), []])

    def look_up(host, port):
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    wait_for_host("pod-0.service", timeout=60.0)
    assert next(answers, None) is None
    assert "cannot resolve pod-0.service, where the ranks meet; it waits up to 60 s" in (
        capsys.readouterr().err
    )


def test_a_host_whose_name_never_resolves_is_an_error():
    with pytest.raises(UsageError, match=r"cannot resolve no-such-host.invalid, where the ranks"):
        wait_for_host("no-such-host.invalid", timeout=0.0)
