"""Ports that answer nobody any more."""

from __future__ import annotations

import socket

import pytest

from rltrain.nodes.network import hold_port
from rltrain.nodes.sealing import own_sockets, sealed_afterwards


def test_what_began_to_listen_answers_nobody_and_what_was_connected_stays_so():
    with socket.create_server(("127.0.0.1", 0)) as earlier:
        with sealed_afterwards():
            server = socket.create_server(("127.0.0.1", 0))
            peer = socket.create_connection(server.getsockname())
        own, _ = server.accept()
        with server, peer, own:
            with pytest.raises(TimeoutError):
                socket.create_connection(server.getsockname(), timeout=0.5)
            peer.sendall(b"to")
            own.sendall(b"fro")
            assert (own.recv(9), peer.recv(9)) == (b"to", b"fro")
            socket.create_connection(earlier.getsockname(), timeout=5).close()


def test_other_descriptors_are_let_alone(tmp_path):
    path = tmp_path / "socket"
    with sealed_afterwards(), (tmp_path / "file").open("w"), socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        of_folder = socket.socket(socket.AF_UNIX)
        of_folder.bind(str(path))
        of_folder.listen()
    with of_folder, socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        assert path.name in [str(each.getsockname())[-6:] for each in own_sockets()]


def test_a_port_is_reserved_for_a_server_that_reuses_addresses():
    with hold_port() as holder, hold_port() as another, socket.socket() as stranger:
        assert another.getsockname() != holder.getsockname()
        with pytest.raises(OSError, match="in use"):
            stranger.bind(holder.getsockname())
        socket.create_server(holder.getsockname()).close()
