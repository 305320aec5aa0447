"""The network: interfaces, the route to the master, and its port."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from rltrain.nodes import can_listen, interface_towards, interfaces, is_loopback
from rltrain_doctor.findings import Finding, ok, problem, warning


def network(master: tuple[str, int], *, several: bool, hosted: bool) -> Iterator[Finding]:
    """Report this node's interfaces, and how it reaches the master: host and port.

    With `several` nodes, others must reach it, too. If `hosted`, a launcher here will listen there.
    """
    addresses = interfaces()
    text = ", ".join(f"{name} {' '.join(own) or 'no IP'}" for name, own in addresses.items())
    yield ok("interfaces", text, interfaces=addresses)
    yield from _master(*master, several, hosted)


def _master(host: str, port: int, several: bool, hosted: bool) -> Iterator[Finding]:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    hint = "Set --master-addr to an address of node 0."
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        yield problem("master", f"{host} does not resolve: {error}", hint)
        return
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    interface = interface_towards(addresses[0])
    data = {"host": host, "addresses": addresses, "interface": interface}
    where += "" if addresses == [host] else f" ({', '.join(addresses)})"
    if several and hosted and not any(can_listen(address, 0) for address in addresses):
        hint = f"{hint[:-1]}, or --node-rank to this node's rank."
        yield problem("master", f"{where} is not this node, which has node rank 0", hint)
        return
    if several and all(map(is_loopback, addresses)):
        text = f"{where} is a loopback address: other machines cannot reach it"
        yield warning("master", text, hint, **data)
    else:
        yield ok("master", f"{where}{f', by {interface}' if interface else ''}", **data)
    if hosted and can_listen("0.0.0.0", port):
        yield ok("port", f"{port} is free", port=port, free=True)
    elif hosted:
        text = f"{port} cannot be listened on: another process does (`ss -ltnp`), or it needs root"
        hint = "Choose another --master-port, the same on every node."
        if not several:
            hint = "Of one node, rltrain picks a free port; under torchrun: --master-port PORT."
        yield (problem if several else warning)("port", text, hint, port=port, free=False)
