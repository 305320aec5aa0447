"""The master is waited for until its name resolves."""

from __future__ import annotations

import socket

import pytest

from rltrain.errors import UsageError
from rltrain.ranks.machine import wait_for_host


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
