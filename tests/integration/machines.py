"""Machines as network namespaces: each has an address, a host name and, if asked, a disk.

It needs root, and ip and unshare (Debian's iproute2 and util-linux).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "connected_machines", "missing"]


@dataclass(frozen=True)
class Machine:
    """One of them."""

    name: str
    """Of its namespace."""
    host: str
    """Its host name. It resolves to a loopback address there, and to `address` on the others."""
    address: str
    ipv6: str

    @property
    def inside(self) -> tuple[str, ...]:
        enter = ("ip", "netns", "exec", self.name, "unshare", "--uts")
        return (*enter, "sh", "-c", f'hostname {self.host} && exec "$@"', "sh")

    def cut_link(self) -> None:
        _ip("-n", self.name, "link", "set", "cable", "down")

    def join_link(self) -> None:
        _ip("-n", self.name, "link", "set", "cable", "up")


def missing() -> str | None:
    """Return why there can be no machines here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    lacking = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} are not installed: apt-get install iproute2 util-linux"
    name = f"rltrain-{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, timeout=30).returncode:
        return "this container may not make network namespaces"
    _ip("netns", "delete", name)
    return None


@contextlib.contextmanager
def connected_machines(count: int) -> Iterator[tuple[Machine, ...]]:
    """Make namespaces, and a switch with a cable to each."""
    tag = os.getpid()
    net, switch = tag % 256, f"rltrain-{tag}-switch"
    machines = tuple(
        Machine(f"rltrain-{tag}-{i}", f"machine{i}", f"10.77.{net}.{i + 1}", f"fd77:{net}::{i + 1}")
        for i in range(count)
    )
    with contextlib.ExitStack() as stack:
        for name in (switch, *(each.name for each in machines)):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for each in machines:
            stack.enter_context(_hosts(each, machines))
            _plug_in(each, switch)
        yield machines


def _plug_in(machine: Machine, switch: str) -> None:
    there = ("peer", "name", machine.host, "netns", switch)
    _ip("link", "add", "cable", "netns", machine.name, "type", "veth", *there)
    _ip("-n", switch, "link", "set", machine.host, "master", "switch", "up")
    _ip("-n", machine.name, "address", "add", f"{machine.address}/24", "dev", "cable")
    # Without "nodad" an IPv6 address can be used only after a second.
    ipv6 = ("address", "add", f"{machine.ipv6}/64", "dev", "cable", "nodad")
    _ip("-n", machine.name, *ipv6)
    machine.join_link()
    _ip("-n", machine.name, "route", "add", "default", "dev", "cable")


@contextlib.contextmanager
def _hosts(own: Machine, machines: tuple[Machine, ...]) -> Iterator[None]:
    """Give a machine its /etc/hosts, as Debian writes it, and no server of names.

    `ip netns exec` puts the files there.
    """
    folder = Path("/etc/netns") / own.name
    folder.mkdir(parents=True)
    others = [f"{each.address} {each.host}" for each in machines if each is not own]
    lines = ["127.0.0.1 localhost", f"127.0.1.1 {own.host}", *others, ""]
    (folder / "hosts").write_text("\n".join(lines))
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # Nobody listens there.
    try:
        yield
    finally:
        shutil.rmtree(folder)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)
