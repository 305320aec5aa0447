"""Two real ranks learn Isaac Lab's own tasks with each library."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
DIRECT, MANAGED, ANT = "Isaac-Cartpole-Direct", "Isaac-Cartpole", "Isaac-Ant-Direct"
CAMERA = "Isaac-Cartpole-Camera-Direct"
SHOWCASE = "IsaacContrib-Cartpole-Showcase-Direct"
FRAMES = 2 * 2 * 8 * 4
"""Of two iterations of two ranks, of eight environments and four steps each."""
RUNS = {
    f"{library} {task}": (library, task, {})
    for task in (DIRECT, MANAGED, ANT, CAMERA)
    for library in LIBRARIES
} | {"skrl box_discrete": ("skrl", SHOWCASE, {"presets": "box_discrete"})}


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture(scope="module")
def results(tmp_path_factory, request, short):
    """Train what tests ask for in the same two ranks; return the results' folder and the output."""
    folder = tmp_path_factory.mktemp("ranks")
    items = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["name"] for item in items if hasattr(item, "callspec")}
    same = {"log_root": str(folder / "logs"), "check_interval": 1}
    runs = {
        name: {"library": library, "task": task, "env": env, "agent": short[library], **same}
        for name, (library, task, env) in RUNS.items()
        if name in asked
    }
    ports = dict(zip(runs, free_ports(len(runs)), strict=True))
    given = {name: (ports[name], run) for name, run in runs.items()}
    (folder / "runs.json").write_text(json.dumps(given))
    (folder / "results").mkdir()
    script = Path(__file__).with_name("ranks.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", script]
    done = subprocess.run(
        [*map(str, command), str(folder / "runs.json"), str(folder / "results")],
        capture_output=True,
        text=True,
        timeout=840,
    )
    return folder / "results", done.stdout + done.stderr


@pytest.mark.parametrize("name", RUNS)
def test_two_ranks_learn(name, results):
    """They must end with the same parameters: `check_interval` compares them."""
    folder, printed = results
    assert (folder / name).is_file(), printed[-20_000:]
    assert json.loads((folder / name).read_text()) == {"iterations": 2, "frames": FRAMES}


def test_a_command_starts_ranks(rltrain, tmp_path):
    rltrain(
        *("--library", "rl_games", "--task", DIRECT, "--distributed", "--nproc-per-node", "2"),
        *("--device", "cpu", "--headless", "--num-envs", "8", "--max-iterations", "1"),
        *("--log-root", tmp_path, "agent.params.config.minibatch_size=16"),
    )
    [manifest] = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["world_size"] == 2
    assert list(tmp_path.rglob("last_*.pth"))


def test_ranks_of_jax_learn(rltrain, tmp_path):
    rltrain(
        *("--library", "skrl", "--framework", "jax", "--task", MANAGED, "--device", "cpu"),
        *("--distributed", "--nproc-per-node", "2", "--num-envs", "8", "--max-iterations", "2"),
        *("--log-root", tmp_path, "agent.agent.rollouts=4", "agent.agent.mini_batches=2"),
    )
    [manifest] = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["world_size"] == 2
