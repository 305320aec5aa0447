"""The network: host names, interfaces, the route to the master, and its port."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from rltrain.nodes import interface_towards, interfaces
from rltrain_doctor.findings import Finding, ok, problem, warning

PATIENCE = 5.0
"""Seconds to resolve a name. Without a server, the system's resolver waits half a minute."""


def network(
    environ: Mapping[str, str], master: tuple[str, int], *, several: bool, hosted: bool
) -> Iterator[Finding]:
    """Report this node's name and interfaces, and how it reaches the master.

    Args:
        environ: the environment variables.
        master: host and port at which the ranks meet.
        several: whether there is more than one node.
        hosted: whether a launcher on this node will listen at that port.
    """
    yield _own_name(several)
    addresses = interfaces()
    text = ", ".join(f"{name} {address or 'no IPv4'}" for name, address in addresses.items())
    yield ok("interfaces", text, interfaces=addresses)
    yield from _master(*master, several, hosted)
    yield from _chosen(environ, list(addresses), several)


def resolve(host: str, patience: float = PATIENCE) -> list[str]:
    """Return the addresses of a host."""
    answer: queue.Queue[list[str] | OSError] = queue.Queue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            answer.put(list(dict.fromkeys(str(each[4][0]) for each in found)))
        except (OSError, UnicodeError) as error:
            answer.put(error if isinstance(error, OSError) else OSError(str(error)))

    # getaddrinfo has no timeout.
    threading.Thread(target=ask, daemon=True).start()
    try:
        result = answer.get(timeout=patience)
    except queue.Empty:
        raise TimeoutError(f"no answer within {patience:g} s") from None
    if isinstance(result, OSError):
        raise result
    return result


def _own_name(several: bool) -> Finding:
    name = socket.gethostname()
    hint = "Add it to /etc/hosts: rltrain does not use this name, but other tools do."
    try:
        addresses = resolve(name)
    except OSError as error:
        return warning("host name", f"{name} does not resolve: {_why(error)}", hint, host=name)
    text = f"{name} is {', '.join(addresses)}"
    if several and all(map(_is_loopback, addresses)):
        text += ": other nodes cannot reach this address"
        hint = "Fix /etc/hosts if torchrun's c10d rendezvous is to use the name."
        return warning("host name", text, hint, host=name, addresses=addresses)
    return ok("host name", text, host=name, addresses=addresses)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _master(host: str, port: int, several: bool, hosted: bool) -> Iterator[Finding]:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        addresses = resolve(host)
    except OSError as error:
        hint = "Set --master-addr to an IP address, or a name that resolves on every node."
        yield problem("master", f"{host} does not resolve: {_why(error)}", hint)
        return
    interface = interface_towards(addresses[0])
    route = f", by {interface}" if interface else ""
    same = "" if addresses == [host] else f" ({', '.join(addresses)})"
    if several and hosted and not _is_here(addresses):
        hint = "Set --master-addr to an address of node 0, or --node-rank to this node's rank."
        yield problem("master", f"{where}{same} is not this node, which has node rank 0", hint)
        return
    data = {"host": host, "addresses": addresses, "interface": interface}
    if several and all(map(_is_loopback, addresses)):
        text = f"{where}{same} is a loopback address: other machines cannot reach it"
        yield warning("master", text, "Set --master-addr to an address of node 0.", **data)
    else:
        yield ok("master", f"{where}{same}{route}", **data)
    if hosted:
        yield _port(port, several)


def _is_here(addresses: list[str]) -> bool:
    """Return whether this machine has one of the addresses: only then can one be bound."""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((address, 0))
            return True
    return False


def _port(port: int, several: bool) -> Finding:
    who = listener(port)
    if who is None:
        return ok("port", f"{port} is free", port=port, free=True)
    text = f"{port} is taken by {who}"
    if several:
        hint = "Choose another --master-port, the same on every node."
        return problem("port", text, hint, port=port, free=False)
    hint = "One node: rltrain picks a free port. Several nodes or torchrun: --master-port PORT."
    return warning("port", text, hint, port=port, free=False)


def listener(port: int) -> str | None:
    """Return who listens on a TCP port of this machine; None if it is free."""
    with socket.socket() as probe:
        # As servers do, so that a connection that has just ended does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
            return None
        except OSError as error:
            if error.errno == errno.EACCES:
                return "the system: only root may listen on ports below 1024"
    return _process_at(port) or "a process of another user, or outside this container"


def _process_at(port: int) -> str | None:
    """Return the process that listens on a port, if this user may see it."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) in inodes for link in (process / "fd").iterdir()):
                command = (process / "cmdline").read_text().replace("\0", " ").strip()
                return f"process {process.name} ({command[:60]})"
    return None


def _chosen(environ: Mapping[str, str], names: list[str], several: bool) -> Iterator[Finding]:
    """Check the interfaces that the user chose."""
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        value = environ.get(variable)
        if not value:
            continue
        missing = [x for x in _wanted(variable, value) if not _matches(variable, x, names)]
        hint = f"Unset it or choose from {', '.join(names)}."
        if missing:
            yield problem(variable, f"{value}: there is no interface {missing[0]}", hint)
        elif several and _wanted(variable, value) == ["lo"]:
            yield problem(variable, "lo: other nodes cannot be reached over it", hint)
        else:
            yield ok(variable, value)


def _wanted(variable: str, value: str) -> list[str]:
    """Return the interfaces that must exist. NCCL's "^" excludes interfaces: none must exist."""
    if variable.startswith("NCCL") and value.startswith("^"):
        return []
    return [item.strip().lstrip("=") for item in value.split(",") if item.strip()]


def _matches(variable: str, wanted: str, names: list[str]) -> bool:
    """Return whether an interface matches. NCCL also takes prefixes of names, and `name:port`."""
    if variable.startswith("NCCL"):
        return any(name.startswith(wanted.partition(":")[0]) for name in names)
    return wanted in names


def _why(error: OSError) -> str:
    return error.strerror or str(error)
