"""Runs on the device under test, and their final tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import rltrain
from rltrain.types import TrainResult

KIND = os.environ.get("RLTRAIN_TEST_DEVICE", "cuda")
"""The kind of device under test."""

LIBRARIES = ("rl_games", "rsl_rl", "skrl")

AGENTS: dict[str, dict[str, Any]] = {
    # Compiling its network takes longer than everything else here.
    "rl_games": {
        "params.config.horizon_length": 8,
        "params.config.minibatch_size": 32,
        "params.config.torch_compile": False,
    },
    "rsl_rl": {"num_steps_per_env": 8},
    "skrl": {"agent.rollouts": 8},
}
"""Options of short runs."""

TIMEOUT = 240
"""Seconds of one command."""


def train(library: str, folder: Path, device: str = KIND, **options: Any) -> TrainResult:
    """Train in this process."""
    return rltrain.train(
        library=library,
        device=device,
        log_root=str(folder),
        **{"num_envs": 16, "writers": (), "agent": AGENTS[library], **options},
    )


def tensors(checkpoint: str | None) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint, on the host, by their path in it."""
    assert checkpoint is not None
    return dict(_flat("", torch.load(checkpoint, map_location="cpu", weights_only=False)))


def _flat(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    else:
        return []
    return [found for key, item in items for found in _flat(f"{name}.{key}", item)]


def differing(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names of the tensors that differ in any bit."""
    return [
        name
        for name in dict.fromkeys([*one, *other])
        if name not in one or name not in other or not torch.equal(one[name], other[name])
    ]


PROBE = '''
"""An observer that says where its rank is, and changes a weight on rank 1 if it is told to."""
import json, os, pathlib
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="where", factory="where_plugin:Where")]


class Where:
    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role):
        self.model = model = yield
        return model

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, left = env.step, int(os.environ.get("CHANGE_AT", "0"))

        def counted(actions):
            nonlocal left
            left -= 1
            if session.world.rank == 1 and left == 0:
                import torch

                with torch.no_grad():
                    next(self.model.parameters()).view(-1)[0] += 1e-3
            return step(actions)

        env.step = counted
        return env

    @hookimpl
    def rltrain_shutdown(self, session):
        told = {"device": session.world.device, "world_size": session.world.world_size}
        told["observations"] = str(session.env.episode_length_buf.device)
        if session.world.device.startswith("cuda") and session.framework == "torch":
            import torch

            told["current"] = torch.cuda.current_device()
            told["uuid"] = str(torch.cuda.get_device_properties(session.world.device).uuid)
            told["backend"] = torch.distributed.get_backend()
        path = pathlib.Path(os.environ["PROBE_FOLDER"], f"rank_{session.world.rank}.json")
        path.write_text(json.dumps(told))
'''


def environ_with_probe(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a process that finds the observer `where`."""
    info = folder / "plugins" / "where_plugin-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info.parent / "where_plugin.py").write_text(PROBE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: where-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rltrain]\nwhere_plugin = where_plugin\n")
    paths = [str(info.parent), os.environ.get("PYTHONPATH", "")]
    added = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PROBE_FOLDER": str(folder)}
    return {**os.environ, **added, **variables}


def command(
    library: str, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a short distributed `rltrain`, with the observer `where`."""
    agent = [f"agent.{key}={value}" for key, value in AGENTS[library].items()]
    words = ["--library", library, "--distributed", "--num-envs", "16", "--max-iterations", "3"]
    words += ["--check-interval", "1", "--log-root", str(folder / "logs"), "--observer", "where"]
    return subprocess.run(
        [sys.executable, "-m", "rltrain", *words, *arguments, *agent],
        env=environ_with_probe(folder, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def reports(folder: Path, ranks: int) -> list[dict[str, Any]]:
    """Return the report of each rank's observer."""
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(ranks)]
