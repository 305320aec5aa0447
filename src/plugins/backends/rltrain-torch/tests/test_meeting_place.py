"""Ranks meet at a port that is free, whoever has started them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain.testing import make_config
from rltrain.types import World
from rltrain_torch.meeting import meeting_place

RANK = """
import os, socket
from rltrain.launch import rank_from_env
from rltrain.testing import make_config
from rltrain_torch.meeting import meeting_place

world = rank_from_env(os.environ)
place = meeting_place(world, make_config())
assert place[1] != int(os.environ["MASTER_PORT"]), "torch's store listens there"
if world.rank == 0:
    with socket.create_server(place) as server:
        caller, _ = server.accept()
        print("rank 0 hears", caller.recv(100).decode())
else:
    while True:
        try:
            with socket.create_connection(place, timeout=20) as caller:
                caller.send(b"rank 1")
            break
        except ConnectionRefusedError:
            pass
"""


def test_it_is_the_masters_where_nobody_listens(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "4321")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    assert meeting_place(World(1, 1, 0, 2, 2), make_config()) == ("127.0.0.1", 4321)


@pytest.mark.slow
def test_ranks_of_torchrun_agree_on_another_port(tmp_path):
    (tmp_path / "rank.py").write_text(RANK)
    words = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, str(tmp_path / "rank.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 0 hears rank 1" in done.stdout
